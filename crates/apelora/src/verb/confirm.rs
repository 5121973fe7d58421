//! `apelora member confirm-off`: a person's word, given with open eyes.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};

use apelora_client::{FenceRecord, MemberDetail};

use super::member::{ago, check, status};
use super::remote;
use crate::cli::ConfirmOff;
use crate::config::OneLine;
use crate::failure::Failure;
use crate::output::{columns, say};
use crate::printable::{printable, second};
use crate::table::fields;

pub(super) fn run(options: ConfirmOff, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let ConfirmOff { member, reason, yes, incarnation, remote } = options;
    if yes.is_none() && !io::stdin().is_terminal() {
        return Err(OneLine::new(format_args!(
            "nobody can be asked for the member's name here; repeat it as --yes {member}"
        ))
        .into());
    }
    if let Some(repeated) = yes.as_deref().filter(|repeated| *repeated != member) {
        return Err(OneLine::new(format_args!(
            "--yes {repeated}: is not {member}; repeat the name of the member that is off"
        ))
        .into());
    }
    let (client, format) = remote::client(remote, environment)?;
    let detail = remote::wait(client.member(&member))?.known;
    say(&asserted(&detail));
    if yes.is_none() && asked()? != member {
        return Err(Failure::Failed("not confirmed: that is not the member's name".to_owned()));
    }
    // The life that was just shown, unless the caller looked before.
    let shown = incarnation.unwrap_or(detail.member.incarnation);
    let confirmed = remote::wait(client.confirm_off(&member, shown, &reason))?;
    for warning in &confirmed.known.warnings {
        say(&format!("warning: {}", printable(warning)));
    }
    let sentence = format!(
        "{member} counts as fenced by your word; its instances start elsewhere as soon as a worker leads."
    );
    remote::done(format, &sentence, &confirmed.json)
}

/// What the person is about to say, and what is known that could make it wrong.
fn asserted(of: &MemberDetail) -> String {
    let member = &of.member;
    let counts = member.instances;
    let bmc = match (&of.mapped, &member.check) {
        (None, _) => "not in the BMC map".to_owned(),
        (Some(_), None) => "has not been read yet".to_owned(),
        (Some(_), Some(of)) => format!("{}: {}", check(of), of.detail),
    };
    let mut rows = vec![
        ("member", member.name.clone()),
        ("incarnation", member.incarnation.to_string()),
        ("status", status(member)),
        ("last Online", member.last_online_secs.map_or_else(|| "never".to_owned(), ago)),
        ("BMC, last word", bmc),
    ];
    if let Some(record) = of.records.first() {
        rows.push(("last power-off", last(record)));
    }
    rows.push((
        "instances",
        format!("{} restart, {} move, {} stay", counts.restart, counts.moved, counts.stay),
    ));
    let mut text = format!("{}\n\n", printable(&of.leader.sentence));
    text.push_str(&format!("You are about to say that {} is off:\n\n", printable(&member.name)));
    text.push_str(&fields(rows, columns()));
    text.push_str(
        "\n\nIf it still runs, its instances will run twice and destroy their data. Nothing is switched off by this.",
    );
    text
}

fn last(record: &FenceRecord) -> String {
    let reason = record.reason.as_ref().map(|reason| reason.code.as_str()).unwrap_or_default();
    let seen = record.evidence.iter().flatten().rev().find(|seen| seen.kind == "power");
    let power = seen.map(|seen| format!("; its last reading was {}", seen.outcome)).unwrap_or_default();
    format!("{} {reason}, begun {}{power}", record.status, second(&record.intent_at))
}

/// What the person types.
fn asked() -> Result<String, Failure> {
    let mut out = io::stderr().lock();
    write!(out, "Type the member's name to confirm: ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim_end_matches(['\r', '\n']).to_owned())
}
