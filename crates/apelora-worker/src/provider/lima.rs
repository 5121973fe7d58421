//! Lima, for a lab without BMCs: a VM is stopped by `limactl stop --force`.
//!
//! Enabled by `APELORA_BMC_ALLOW_LAB=1` alone, for VMs whose names begin with `apelora-`, never for those that serve the
//! storage. The command gets arguments, never a shell; two variables and no others; a deadline, at which it is killed; and
//! what it prints is bounded.

use std::io;
use std::process::{ExitStatus, Stdio};

use apelora_fencing::ReasonCode;
use apelora_fencing::event::BmcError;
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

use super::{Leave, ProviderSettings, Scrub};

/// More than this is not read of a list of VMs, in bytes.
const MOST_OUTPUT: usize = 1 << 20;
/// More than this is not read of an error, in bytes.
const MOST_ERROR: usize = 4 << 10;

const PREFIX: &str = "apelora-";

/// A VM of the lab.
#[derive(Debug)]
pub(super) struct Talk {
    vm: String,
    settings: ProviderSettings,
}

/// One line of `limactl list --json`; it has many more members.
#[derive(Deserialize)]
struct Listed {
    name: String,
    status: String,
}

enum Failed {
    /// It was never started.
    Start(io::Error),
    Late,
    TooMuch,
    Io(io::Error),
}

struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    error: Vec<u8>,
}

impl Talk {
    /// Checks that this VM may be touched at all and that it is there.
    pub(super) async fn open(vm: &str, settings: &ProviderSettings, by: Instant) -> Result<Self, BmcError> {
        if !settings.allow_lab {
            let detail = "the lab provider is not enabled: APELORA_BMC_ALLOW_LAB is not 1".to_owned();
            return Err(BmcError { reason: ReasonCode::LabNotAllowed, transient: false, detail });
        }
        is_lab_vm(vm, &settings.lab_san_vms).map_err(|why| BmcError {
            reason: ReasonCode::LabNotAllowed,
            transient: false,
            detail: Scrub::default().text(why),
        })?;
        let talk = Self { vm: vm.to_owned(), settings: settings.clone() };
        talk.status(by).await?;
        Ok(talk)
    }

    pub(super) async fn read(&mut self, by: Instant) -> Result<Reported, BmcError> {
        let Listed { name, status } = self.status(by).await?;
        let power = match status.as_str() {
            "Running" => PowerWord::On,
            "Stopped" => PowerWord::Off,
            _ => PowerWord::Unknown,
        };
        let detail = Scrub::default().text(format_args!("limactl lists {name} as {status}"));
        Ok(Reported { identity: RawIdentity::LabName(name), power, detail })
    }

    pub(super) async fn force_off(&mut self, leave: &mut Leave<'_>, by: Instant) -> SendAnswer {
        if !leave.is_granted() {
            return SendAnswer::NotSent(ReasonCode::PermitExpired);
        }
        match self.run(&["stop", "--force", "--", &self.vm], by).await {
            Err(Failed::Start(_)) => SendAnswer::NotSent(ReasonCode::LabCommand),
            Err(Failed::Late | Failed::TooMuch | Failed::Io(_)) => SendAnswer::Unanswered,
            Ok(ended) if ended.status.success() => SendAnswer::Accepted,
            Ok(_) => SendAnswer::Declined,
        }
    }

    /// The one VM of exactly this name.
    async fn status(&self, by: Instant) -> Result<Listed, BmcError> {
        let wrong = |detail: String| BmcError {
            reason: ReasonCode::LabCommand,
            transient: false,
            detail: Scrub::default().text(format_args!("limactl list: {detail}")),
        };
        let ended = self.run(&["list", "--json"], by).await.map_err(|failed| match failed {
            Failed::Late => BmcError {
                reason: ReasonCode::Deadline,
                transient: true,
                detail: "limactl list did not end in time and was killed".to_owned(),
            },
            Failed::Start(why) => {
                wrong(format!("{} cannot be started: {why}", self.settings.limactl.display()))
            }
            Failed::TooMuch => wrong(format!("it prints more than {MOST_OUTPUT} bytes")),
            Failed::Io(why) => wrong(format!("its output cannot be read: {why}")),
        })?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.error);
            return Err(wrong(format!("{}: {}", ended.status, said.trim())));
        }
        let mut found = None;
        for line in serde_json::Deserializer::from_slice(&ended.output).into_iter::<Listed>() {
            let listed = line.map_err(|why| wrong(format!("its output is not understood: {why}")))?;
            if listed.name == self.vm && found.replace(listed).is_some() {
                return Err(wrong(format!("there are two VMs {}", self.vm)));
            }
        }
        found.ok_or_else(|| wrong(format!("there is no VM {}", self.vm)))
    }

    /// Runs the command to its end. At the deadline, or when it says too much, it is killed and waited for.
    async fn run(&self, arguments: &[&str], by: Instant) -> Result<Ended, Failed> {
        let mut command = Command::new(&self.settings.limactl);
        command.args(arguments).env_clear().current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let variables = [("PATH", &self.settings.path), ("HOME", &self.settings.home)];
        command.envs(variables.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))));
        let mut child = command.spawn().map_err(Failed::Start)?;
        let (output, error) = (child.stdout.take(), child.stderr.take());
        let told = async {
            tokio::try_join!(
                async { child.wait().await.map_err(Failed::Io) },
                bounded(output, MOST_OUTPUT),
                async { Ok(beginning(error, MOST_ERROR).await) },
            )
        };
        match timeout_at(by, told).await {
            Ok(Ok((status, output, error))) => Ok(Ended { status, output, error }),
            failed => {
                // It may have ended by itself in between, which is as good.
                drop(child.kill().await);
                Err(failed.map_or(Failed::Late, |told| told.err().unwrap_or(Failed::Late)))
            }
        }
    }
}

async fn bounded(from: Option<impl AsyncRead + Unpin>, most: usize) -> Result<Vec<u8>, Failed> {
    let mut read = Vec::new();
    if let Some(from) = from {
        from.take(most as u64 + 1).read_to_end(&mut read).await.map_err(Failed::Io)?;
    }
    if read.len() > most { Err(Failed::TooMuch) } else { Ok(read) }
}

/// The first `most` bytes; the rest is taken and dropped, so that whoever writes is not held up by it.
async fn beginning(from: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let mut read = Vec::new();
    if let Some(mut from) = from {
        // It is shown to people only: what was read before an error is good enough.
        drop((&mut from).take(most as u64).read_to_end(&mut read).await);
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    }
    read
}

/// Whether a VM may be touched. The map was checked for the same; here it is asked again, before a command is run.
pub(super) fn is_lab_vm(vm: &str, never: &[String]) -> Result<(), String> {
    let tail = vm.strip_prefix(PREFIX).unwrap_or_default();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if tail.is_empty() || vm.len() > 64 || vm.contains("..") || !tail.bytes().all(plain) {
        return Err(format!("`{vm}` is not the name of a lab VM: {PREFIX} and then letters, digits, - _ ."));
    }
    // On some file systems two spellings are one VM.
    if never.iter().any(|san| san.eq_ignore_ascii_case(vm)) {
        return Err(format!("`{vm}` serves the storage and is never stopped"));
    }
    Ok(())
}
