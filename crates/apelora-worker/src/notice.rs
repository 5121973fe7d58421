//! What a person wants to follow: one sentence for each thing that happens, logged in one place.

use std::fmt;
use std::time::Duration;

use apelora_fencing::event::Why;
use apelora_fencing::map::Provider;
use apelora_fencing::proof::{PowerWord, SendAnswer};
use apelora_fencing::record::ProofKind;
use apelora_fencing::view::Status;
use apelora_fencing::write::Outcome;
use apelora_fencing::{Epoch, MemberName, ReasonCode, RecordId};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

/// Something that happened. `Display` is one sentence for somebody who was just woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This worker leads now.
    Elected {
        /// Its fencing token.
        epoch: Epoch,
        /// The member that it runs on, if it runs on one.
        own_host: Option<MemberName>,
    },
    /// This worker leads no more.
    SteppedDown {
        /// Why.
        why: SteppedDown,
    },
    /// The cluster gives a member another status than before.
    Seen {
        /// Whom.
        member: MemberName,
        /// Its status now; absent when it is not listed any more.
        status: Option<Status>,
    },
    /// A member is Offline, and the time until it may be switched off runs.
    Grace {
        /// Whom.
        member: MemberName,
        /// How long it must be Offline without interruption.
        needed: Duration,
    },
    /// A member that is Offline long enough is not switched off.
    Refused {
        /// Whom.
        member: MemberName,
        /// Why, complete.
        reasons: Vec<ReasonCode>,
        /// The first reason with its numbers.
        sentence: String,
    },
    /// The intent to switch a member off is in the database.
    Intent {
        /// Whom.
        member: MemberName,
        /// Under which record.
        record: RecordId,
    },
    /// A record of an earlier leader is read to its end.
    Adopted {
        /// Whose.
        member: MemberName,
        /// Which record.
        record: RecordId,
    },
    /// The permit to send is in the database.
    Permitted {
        /// Whom it is about.
        member: MemberName,
    },
    /// The power-off was requested, or was not.
    Sent {
        /// Of whom.
        member: MemberName,
        /// What the BMC said.
        answer: SendAnswer,
    },
    /// A BMC was read in the course of a power-off.
    PowerRead {
        /// Whose.
        member: MemberName,
        /// What it said.
        power: PowerWord,
    },
    /// A BMC could not be reached or read.
    BmcTrouble {
        /// Whose.
        member: MemberName,
        /// Through what.
        provider: Provider,
        /// Why.
        reason: ReasonCode,
        /// Bounded and scrubbed.
        detail: String,
    },
    /// A member is proven off: its instances may start elsewhere.
    Fenced {
        /// Whom.
        member: MemberName,
        /// By what, where this worker knows it.
        kind: Option<ProofKind>,
    },
    /// A record has ended.
    Ended {
        /// Whose.
        member: MemberName,
        /// How.
        outcome: Outcome,
        /// Why.
        reason: ReasonCode,
    },
    /// A member that was proven off is back.
    Returned {
        /// Whom.
        member: MemberName,
    },
    /// A proof was contradicted by its BMC.
    Withdrawn {
        /// Whose.
        member: MemberName,
    },
    /// The BMC map is refused as a whole.
    MapInvalid {
        /// What is wrong, naming member and key.
        problem: String,
    },
    /// The BMC map is in force.
    MapValid {
        /// How many members it names.
        members: usize,
    },
    /// A member's mapping is not believed any more.
    Distrusted {
        /// Whose.
        member: MemberName,
    },
    /// The cluster's answer cannot be used.
    ClusterUnreadable {
        /// Why.
        problem: String,
    },
    /// The cluster answers again.
    ClusterReadable {
        /// How many members it lists.
        members: usize,
    },
    /// The database cannot be read: nothing is decided.
    StoreUnreadable {
        /// Why.
        problem: String,
    },
    /// The database answers again.
    StoreReadable,
    /// The worker turned out to run on another member than it knew, and starts its leadership again.
    OwnHost {
        /// Which.
        member: MemberName,
    },
    /// An instance was moved to another member.
    Moved {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// Where it is now.
        to: MemberName,
    },
    /// An instance runs again.
    Started {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// Where.
        on: MemberName,
    },
    /// An instance could not be moved or started.
    StartRefused {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// Why, and what to do.
        problem: String,
    },
    /// An instance of a member that is proven off is not restarted elsewhere.
    Stays {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// The member that ran it.
        member: MemberName,
        /// Why, as a sentence.
        sentence: String,
    },
    /// The restart of an instance ended without success.
    GaveUp {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// The member that ran it.
        member: MemberName,
        /// Why.
        why: String,
        /// Whether it may run on a server that is back, so that starting it elsewhere would damage its data.
        doubtful: bool,
    },
    /// Everything that a member ran is taken care of.
    Recovered {
        /// The member.
        member: MemberName,
        /// How many instances run elsewhere.
        restarted: usize,
        /// How many were moved and not started, as they are configured.
        moved: usize,
        /// How many stay where they are.
        stayed: usize,
        /// How many were given up.
        gave_up: usize,
    },
    /// A member is back that was not restarted since what it ran was started elsewhere.
    MayRunTwice {
        /// The member.
        member: MemberName,
        /// What was started or moved elsewhere, as `project/name`.
        instances: Vec<String>,
        /// How that was found.
        because: String,
    },
}

/// Why a worker leads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteppedDown {
    /// The machine says so.
    Machine(Why),
    /// The worker was told to stop.
    Stopped,
    /// The worker learnt on which member it runs.
    OwnHostLearnt,
    /// A task failed in a way that must not happen.
    Fault,
}

impl SteppedDown {
    /// Whether the lease may still be held, so that it is let go.
    pub(crate) const fn may_resign(self) -> bool {
        !matches!(self, Self::Machine(Why::Deposed))
    }
}

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
                "{member} is Offline; if it stays so for {} s, it will be judged for a power-off.",
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
            Self::Stays { project, instance, member, sentence } => {
                write!(f, "Instance {instance} (project {project}) of {member} is not restarted: {sentence}")
            }
            Self::GaveUp { project, instance, why, doubtful, .. } => {
                if *doubtful {
                    f.write_str("DANGER: ")?;
                }
                write!(f, "The restart of instance {instance} (project {project}) was given up: {why}.")
            }
            Self::Recovered { member, restarted, moved, stayed, gave_up } => write!(
                f,
                "Everything that {member} ran is taken care of: {restarted} restarted elsewhere, {moved} moved and not started, {stayed} stay, {gave_up} given up."
            ),
            Self::MayRunTwice { member, instances, because } => write!(
                f,
                "DANGER: {member} is back, and {because}: it may still run what was started elsewhere meanwhile, which destroys its data. Look at it now, and stop there what runs twice: {}.",
                instances.join(", ")
            ),
        }
    }
}

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Notice {
    /// The stable word of its kind, for those who filter logs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Elected { .. } => "elected",
            Self::SteppedDown { .. } => "stepped_down",
            Self::Seen { .. } => "seen",
            Self::Grace { .. } => "grace",
            Self::Refused { .. } => "refused",
            Self::Intent { .. } => "intent",
            Self::Adopted { .. } => "adopted",
            Self::Permitted { .. } => "permitted",
            Self::Sent { .. } => "sent",
            Self::PowerRead { .. } => "power_read",
            Self::BmcTrouble { .. } => "bmc_trouble",
            Self::Fenced { .. } => "fenced",
            Self::Ended { .. } => "ended",
            Self::Returned { .. } => "returned",
            Self::Withdrawn { .. } => "withdrawn",
            Self::MapInvalid { .. } => "map_invalid",
            Self::MapValid { .. } => "map_valid",
            Self::Distrusted { .. } => "distrusted",
            Self::ClusterUnreadable { .. } => "cluster_unreadable",
            Self::ClusterReadable { .. } => "cluster_readable",
            Self::StoreUnreadable { .. } => "store_unreadable",
            Self::StoreReadable => "store_readable",
            Self::OwnHost { .. } => "own_host",
            Self::Moved { .. } => "moved",
            Self::Started { .. } => "started",
            Self::StartRefused { .. } => "start_refused",
            Self::Stays { .. } => "stays",
            Self::GaveUp { .. } => "gave_up",
            Self::Recovered { .. } => "recovered",
            Self::MayRunTwice { .. } => "may_run_twice",
        }
    }

    fn level(&self) -> Level {
        match self {
            Self::Elected { .. }
            | Self::Adopted { .. }
            | Self::Permitted { .. }
            | Self::PowerRead { .. }
            | Self::Returned { .. }
            | Self::MapValid { .. }
            | Self::ClusterReadable { .. }
            | Self::StoreReadable
            | Self::OwnHost { .. }
            | Self::Moved { .. }
            | Self::Started { .. }
            | Self::Recovered { gave_up: 0, .. } => Level::Info,
            Self::SteppedDown { why: SteppedDown::Stopped | SteppedDown::OwnHostLearnt } => Level::Info,
            Self::Seen { status, .. } => {
                if status.as_ref().is_some_and(Status::is_alive) {
                    Level::Info
                } else {
                    Level::Warn
                }
            }
            Self::SteppedDown { .. }
            | Self::Grace { .. }
            | Self::Refused { .. }
            | Self::Intent { .. }
            | Self::Sent { .. }
            | Self::BmcTrouble { .. }
            | Self::Fenced { .. }
            | Self::ClusterUnreadable { .. }
            | Self::StoreUnreadable { .. }
            | Self::StartRefused { .. }
            | Self::Stays { .. }
            | Self::Recovered { .. }
            | Self::GaveUp { doubtful: false, .. } => Level::Warn,
            Self::Ended { outcome: Outcome::Success, .. } => Level::Info,
            Self::Ended { outcome: Outcome::Refused, .. } => Level::Warn,
            Self::Ended { outcome: Outcome::Failed, .. }
            | Self::Withdrawn { .. }
            | Self::MapInvalid { .. }
            | Self::Distrusted { .. }
            | Self::GaveUp { .. }
            | Self::MayRunTwice { .. } => Level::Error,
        }
    }
}

/// Where notices go: the log, and a listener if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    listener: Option<mpsc::UnboundedSender<Notice>>,
}

impl Notices {
    pub(crate) const fn new(listener: Option<mpsc::UnboundedSender<Notice>>) -> Self {
        Self { listener }
    }

    /// Says it.
    pub(crate) fn tell(&self, notice: Notice) {
        let kind = notice.word();
        match notice.level() {
            Level::Info => info!(kind, "{notice}"),
            Level::Warn => warn!(kind, "{notice}"),
            Level::Error => error!(kind, "{notice}"),
        }
        if let Some(listener) = &self.listener {
            // Whoever listened may have gone.
            let _ = listener.send(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_a_sentence_that_names_the_member_and_the_remedy() {
        let ended =
            Notice::Ended { member: "s3".into(), outcome: Outcome::Failed, reason: ReasonCode::NeverOff };
        let text = ended.to_string();
        assert!(text.contains("s3") && text.contains("confirm it by hand"), "{text}");
        let refused = Notice::Refused {
            member: "s2".into(),
            reasons: vec![ReasonCode::NotMinority, ReasonCode::LeaseTooShort],
            sentence: "Half of them.".into(),
        };
        assert_eq!(
            refused.to_string(),
            "s2 is not switched off: Half of them. All reasons: not_minority, lease_too_short."
        );
    }

    #[test]
    fn it_is_as_loud_as_it_matters() {
        let seen = |status| Notice::Seen { member: "s1".into(), status };
        assert_eq!(seen(Some(Status::Online)).level(), Level::Info);
        assert_eq!(seen(Some(Status::Offline)).level(), Level::Warn);
        assert_eq!(seen(None).level(), Level::Warn);
        assert_eq!(Notice::Distrusted { member: "s1".into() }.level(), Level::Error);
    }

    #[test]
    fn a_listener_that_went_away_does_no_harm() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let notices = Notices::new(Some(sender));
        drop(receiver);
        notices.tell(Notice::StoreReadable);
    }
}
