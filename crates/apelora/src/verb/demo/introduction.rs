//! What the demo says first.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;

use crate::failure::Failure;

/// Tells what is there and what to try. `named`: the address has to be given to every command.
pub(super) fn introduce(url: &str, named: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text(url, named, &program(std::env::args_os().next().as_deref())).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// How this program is started in another terminal of the same folder.
fn program(first: Option<&OsStr>) -> String {
    match first.map(Path::new) {
        Some(path) if path.components().count() > 1 => path.display().to_string(),
        _ => "apelora".to_owned(),
    }
}

fn text(url: &str, named: bool, apelora: &str) -> String {
    let at = if named { format!(" --endpoint {url}") } else { String::new() };
    format!(
        "The Bare Metal API is at {url}\n\
         \n\
         It knows sixteen nodes; some of them are out of service, for several reasons at once. Four of them, s1 to s4, are a\n\
         cluster, and a worker watches it through its API. Cluster and management controllers are simulated on loopback and\n\
         speak the real protocols: three Redfish, one IPMI. Try, in another terminal:\n\
         \n\
         # a server crashes; watch this terminal: within two minutes it is switched off, and its instances run elsewhere\n\
         {apelora} demo break s3\n\
         \n\
         # what the worker sees, what it decided and why, and what is written down\n\
         {apelora} member list{at}\n\
         {apelora} fence explain s3{at}\n\
         {apelora} node maintenance list s3{at}\n\
         {apelora} audit list{at}\n\
         \n\
         # it comes back; others: hang, cut, break --lose-power\n\
         {apelora} demo heal s3\n\
         \n\
         # two of four at once: nothing is switched off, and the word of a person who has pulled the cables counts\n\
         {apelora} demo break s3\n\
         {apelora} demo break s4\n\
         {apelora} fence explain s4{at}\n\
         {apelora} demo break s4 --lose-power\n\
         {apelora} member confirm-off s4 --reason \"cables pulled\"{at}\n\
         \n\
         # which nodes are out of service, as every client sees it (pip install python-ironicclient)\n\
         baremetal --os-auth-type none --os-endpoint {url} node list --maintenance --fields name owner maintenance_reason\n\
         \n\
         # who holds one of them, and why: entries with type, scope and author\n\
         curl -s -H 'X-OpenStack-Ironic-API-Version: 1.116' {url}/v1/nodes/rack2-n2/maintenance\n\
         \n\
         # another reason beside the boolean that a script has set\n\
         curl -s -H 'X-OpenStack-Ironic-API-Version: 1.116' -H 'Content-Type: application/json' -d '{{\"type\": \"hardware_failure\", \"reason\": \"disk 3\"}}' {url}/v1/nodes/rack1-n1/maintenance\n\
         \n\
         Everything is in a temporary folder and goes with the demo. Ctrl-C ends it. What happens is told below, in UTC.\n\
         \n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_that_reach_this_demo() {
        assert_eq!(program(Some("target/release/apelora".as_ref())), "target/release/apelora");
        assert_eq!(program(Some("apelora".as_ref())), "apelora");
        assert_eq!(program(None), "apelora");
        let usual = text("http://127.0.0.1:6385", false, "apelora");
        assert!(
            usual.contains("\napelora member list\n") && usual.contains("\napelora demo break s3\n"),
            "{usual}"
        );
        let named = text("http://127.0.0.1:1", true, "apelora");
        assert!(named.contains("\napelora audit list --endpoint http://127.0.0.1:1\n"), "{named}");
    }
}
