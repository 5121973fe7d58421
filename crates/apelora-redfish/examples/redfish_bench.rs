//! Measures the Redfish client alone, for `benches/redfish`: one process, one operation, one line of JSON.
//!
//! It is no fencing tool: nobody guards the switch-off, and one Off reading proves nothing.
//!
//! ```text
//! redfish_bench status|off|off-confirmed ADDRESS SYSTEM UUID CA_FILE USER < password
//! ```

#![allow(clippy::print_stdout, reason = "what it measures is its output")]

use std::error::Error;
use std::io::stdin;
use std::time::Duration;

use apelora_redfish::{Conversation, Endpoint, PowerWord, Reported, SystemChoice, SystemPath, Target};
use secrecy::SecretString;
use tokio::time::{Instant, sleep};

const USAGE: &str = "redfish_bench status|off|off-confirmed ADDRESS SYSTEM UUID CA_FILE USER < password";

#[expect(clippy::disallowed_methods, reason = "a bench: it measures the client against simulated servers")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [action, address, system, uuid, ca_file, user] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    let password = SecretString::from(line.trim_end());
    let target = Target {
        endpoint: Endpoint::https(address)?,
        ca_file: Some(ca_file.into()),
        user: user.clone(),
        system: SystemChoice::Path(SystemPath::parse(system)?),
    };

    let by = began + Duration::from_secs(60);
    let mut conversation = Conversation::open(&target, &password, by).await?;
    let opened = began.elapsed();
    let mut seen = read(&mut conversation, uuid, by).await?;
    let first_read = began.elapsed();
    let mut first_off = None;
    if action != "status" {
        if seen.power != PowerWord::Off
            && !conversation.force_off(&seen, &mut || true, by).await.may_have_been_sent()
        {
            return Err("nothing was sent".into());
        }
        loop {
            seen = read(&mut conversation, uuid, by).await?;
            if seen.power == PowerWord::Off {
                break;
            }
            sleep(Duration::from_millis(250)).await;
        }
        first_off = Some(began.elapsed());
    }
    let mut confirmed = None;
    if action == "off-confirmed" {
        sleep(Duration::from_secs(1)).await;
        seen = read(&mut conversation, uuid, by).await?;
        confirmed = (seen.power == PowerWord::Off).then(|| began.elapsed());
    }
    let traffic = conversation.traffic();
    let millis = |time: Option<Duration>| {
        time.map_or("null".to_owned(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
    };
    println!(
        r#"{{"power":"{}","opened_ms":{},"first_read_ms":{},"first_off_ms":{},"confirmed_ms":{},"requests":{},"connections":{},"peak_kib":{}}}"#,
        seen.power,
        millis(Some(opened)),
        millis(Some(first_read)),
        millis(first_off),
        millis(confirmed),
        traffic.requests,
        traffic.connections,
        peak_kib(),
    );
    Ok(())
}

async fn read(conversation: &mut Conversation, uuid: &str, by: Instant) -> Result<Reported, Box<dyn Error>> {
    let reported = conversation.read(by).await?;
    match reported.uuid.text() {
        Some(text) if text.eq_ignore_ascii_case(uuid) => Ok(reported),
        _ => Err("another server".into()),
    }
}

/// `VmHWM` of this process (proc(5)), 0 where there is none.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}
