//! Each notice as one sentence for somebody who was just woken.

use std::fmt;

use apelora_fencing::event::Why;
use apelora_fencing::proof::SendAnswer;
use apelora_fencing::record::ProofKind;
use apelora_fencing::write::Outcome;

use super::{Notice, SteppedDown};

impl fmt::Display for SteppedDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine(Why::LeaseExpired) => "its lease could not be renewed in time",
            Self::Machine(Why::Deposed) => "another worker leads",
            Self::Machine(Why::OwnHostOffline) => {
                "the cluster reports the host that it runs on as Offline; it does not lead before that host is Online again"
            }
            Self::Stopped => "it was told to stop",
            Self::Fault => "a part of it failed; it starts again, and reads open power-offs to their end",
            Self::OwnHostLearnt => "it learnt on which member it runs, and starts again with that",
        })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elected { epoch, own_host: Some(host) } => {
                write!(
                    f,
                    "This worker leads (epoch {}); it runs on {host}, which it will not switch off.",
                    epoch.0
                )
            }
            Self::Elected { epoch, own_host: None } => {
                write!(f, "This worker leads (epoch {}); it runs on no member of the cluster.", epoch.0)
            }
            Self::SteppedDown { why } => write!(f, "This worker leads no more: {why}."),
            Self::Seen { member, status: Some(status) } => {
                write!(f, "The cluster reports {member} as {}.", status.as_str())
            }
            Self::Seen { member, status: None } => write!(f, "The cluster lists {member} no more."),
            Self::Grace { member, needed } => write!(
                f,
                "The cluster reports {member} as Offline; if it stays so for {} s, it will be judged for a power-off.",
                needed.as_secs()
            ),
            Self::Refused { member, reasons, sentence } => {
                write!(f, "{member} is not switched off: {sentence}")?;
                let others = reasons.len().saturating_sub(1);
                if others > 0 {
                    let words: Vec<_> = reasons.iter().map(|r| r.as_str()).collect();
                    write!(f, " All reasons: {}.", words.join(", "))?;
                }
                Ok(())
            }
            Self::Intent { member, record } => {
                write!(f, "Every guard holds: the intent to switch {member} off is recorded ({}).", record.0)
            }
            Self::Adopted { member, record } => write!(
                f,
                "A power-off of {member} that another leader began is read to its end; nothing is sent ({}).",
                record.0
            ),
            Self::Permitted { member } => write!(f, "The power-off of {member} is permitted."),
            Self::Sent { member, answer } => match answer {
                SendAnswer::Accepted => {
                    write!(f, "{member}'s BMC accepted the power-off; its power is read now.")
                }
                SendAnswer::Declined => {
                    write!(f, "{member}'s BMC declined the power-off; its power is read now.")
                }
                SendAnswer::Unanswered => {
                    write!(f, "{member}'s BMC did not answer the power-off; its power is read now.")
                }
                SendAnswer::Rejected(reason) => {
                    write!(f, "{member}'s BMC rejected the power-off. {}", reason.sentence())
                }
                SendAnswer::NotSent(reason) => {
                    write!(f, "No power-off was sent to {member}. {}", reason.sentence())
                }
            },
            Self::PowerRead { member, power } => write!(f, "{member}'s BMC reads {}.", power.as_str()),
            Self::BmcTrouble { member, provider, reason, detail } => {
                write!(f, "{member}'s BMC ({}): {}", provider.as_str(), reason.sentence())?;
                if !detail.is_empty() {
                    write!(f, " ({detail})")?;
                }
                write!(f, " {}", reason.remedy())
            }
            Self::Fenced { member, kind } => {
                let by = match kind {
                    Some(ProofKind::PowerOff) => " by its power",
                    Some(ProofKind::LeaseDead) => " by its storage lease",
                    Some(ProofKind::Person) => " by a person's word",
                    None => "",
                };
                write!(f, "{member} is proven off{by}: its instances may start elsewhere.")
            }
            Self::Ended { member, outcome: Outcome::Success, reason } => {
                write!(f, "The power-off of {member} succeeded. {}", reason.sentence())
            }
            Self::Ended { member, outcome, reason } => write!(
                f,
                "The power-off of {member} ended: {}. {} {}",
                outcome.as_str(),
                reason.sentence(),
                reason.remedy()
            ),
            Self::Returned { member } => write!(f, "{member} is back: what proved it off counts no more."),
            Self::Withdrawn { member } => {
                write!(f, "{member} was proven off, but its BMC reads On: look at it before anything else.")
            }
            Self::MapInvalid { problem } => {
                write!(f, "The BMC map is refused, so nothing is switched off: {problem}.")
            }
            Self::MapValid { members } => write!(f, "The BMC map is in force and names {members} members."),
            Self::Distrusted { member } => write!(
                f,
                "{member}'s BMC said Off while the cluster saw the member Online: its mapping is not believed any more. Check cables, address and UUID, then `apelora bmc trust {member} --reason TEXT`."
            ),
            Self::ClusterUnreadable { problem } => {
                write!(f, "The cluster's answer cannot be used, so nothing is decided: {problem}.")
            }
            Self::ClusterReadable { members } => {
                write!(f, "The cluster answers and lists {members} members.")
            }
            Self::StoreUnreadable { problem } => {
                write!(f, "The database cannot be read, so nothing is decided: {problem}.")
            }
            Self::StoreReadable => f.write_str("The database answers again."),
            Self::InstancesUnreadable { problem } => write!(
                f,
                "What runs where cannot be read from the cluster; what is stored of it grows old, and an instance that is new \
                 since is not restarted if its server fails: {problem}."
            ),
            Self::InstancesReadable => f.write_str("What runs where can be read from the cluster again."),
            Self::OwnHost { member } => write!(f, "This worker runs on {member}."),
            Self::Moved { project, instance, to } => {
                write!(f, "Instance {instance} (project {project}) was moved to {to}.")
            }
            Self::Started { project, instance, on } => {
                write!(f, "Instance {instance} (project {project}) runs again on {on}.")
            }
            Self::StartRefused { project, instance, problem } => {
                write!(f, "Instance {instance} (project {project}) does not run: {problem}.")
            }
            Self::RecoveryWaits { member, instances, why } => {
                write!(f, "The restart of {instances} instances that {member} ran waits: {why}.")
            }
            Self::Stays { project, instance, member, sentence } => {
                write!(f, "Instance {instance} (project {project}) of {member} is not restarted: {sentence}")
            }
            Self::GaveUp { project, instance, why, doubtful, .. } => {
                if *doubtful {
                    f.write_str("DANGER: ")?;
                }
                write!(f, "The restart of instance {instance} (project {project}) was given up: {why}.")
            }
            Self::Recovered { member, restarted, moved, stayed, gave_up } => {
                write!(f, "Everything that {member} ran is taken care of: {restarted} restarted elsewhere")?;
                let others = [(moved, "moved and not started"), (stayed, "stay"), (gave_up, "given up")];
                for (count, words) in others.into_iter().filter(|(count, _)| **count > 0) {
                    write!(f, ", {count} {words}")?;
                }
                f.write_str(".")
            }
            Self::MayRunTwice { member, instances, because } => write!(
                f,
                "DANGER: {member} is back, and {because}: it may still run what was started elsewhere meanwhile, which destroys its data. Look at it now, and stop there what runs twice: {}.",
                instances.join(", ")
            ),
        }
    }
}
