//! Commands on a terminal: a pseudo-terminal of this system.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::command::apelora;
use crate::nodes::Served;

/// A terminal of so many columns: the side of the person, and the side of the command.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
    let command = OpenOptions::new().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&command, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(person), command)
}

/// What a command that succeeds shows on a terminal of so many columns.
pub(crate) fn shown(columns: u16, mut command_line: Command) -> String {
    let (mut person, command) = terminal(columns);
    let mut child = command_line.stdout(command).spawn().unwrap();
    // The command's side of the terminal is closed here, so that reading ends with the command.
    drop(command_line);
    let mut shown = Vec::new();
    // A terminal whose other side is gone ends with an error.
    let _ = person.read_to_end(&mut shown);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8(shown).unwrap()
}

/// How many columns the widest line takes.
pub(crate) fn widest(shown: &str) -> usize {
    shown.lines().map(|line| line.trim_end().chars().count()).max().unwrap()
}

/// Deletes the node, answering with this; the exit code.
fn delete(served: &Served, answer: &str) -> Option<i32> {
    let (mut person, command) = terminal(80);
    let mut command_line =
        apelora(served.here.path(), &[("APELORA_ENDPOINT", &served.url)], &["node", "delete", "n1"]);
    let mut child = command_line.stdin(command).spawn().unwrap();
    let mut asked = vec![0; "Delete node n1 ".len()];
    child.stderr.as_mut().unwrap().read_exact(&mut asked).unwrap();
    assert_eq!(asked, b"Delete node n1 ");
    person.write_all(answer.as_bytes()).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn a_person_is_asked_before_a_node_is_deleted() {
    let served = Served::start(&[]);
    served.ok(&["node", "create", "--driver", "fake-hardware", "--name", "n1"]);
    for no in ["\n", "n\n", "what?\n", "\u{4}"] {
        assert_eq!(delete(&served, no), Some(1), "{no:?}");
    }
    served.ok(&["node", "show", "n1"]);
    assert_eq!(delete(&served, "y\n"), Some(0));
    assert!(served.refused(&["node", "show", "n1"]).contains("(HTTP 404)"));
}

#[test]
fn a_table_fits_the_terminal_and_keeps_its_identifiers() {
    let served = Served::start(&[]);
    served.ok(&["node", "create", "--driver", "fake-hardware", "--name", "n1"]);
    served.ok(&["node", "maintenance", "set", "n1", "--reason", &"electrical work in row C ".repeat(9)]);
    let uuid =
        served.ok(&["node", "show", "n1", "--format", "json"]).json()["uuid"].as_str().unwrap().to_owned();
    let environment = [("APELORA_ENDPOINT", served.url.as_str())];
    let shown = shown(100, apelora(served.here.path(), &environment, &["node", "list"]));
    assert!(widest(&shown) <= 100, "{shown}");
    assert!(shown.contains(&uuid) && shown.contains("electrical work") && shown.contains('…'), "{shown}");
}
