//! What really happened, whatever the cluster's API says.

use std::fmt;

use tokio::time::Instant;

/// Something that happened to a machine or an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// When, by tokio's clock.
    pub at: Instant,
    /// What.
    pub what: What,
}

/// What happened. `Display` is one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A machine got power.
    PowerOn(String),
    /// A machine lost its power, and with it everything that ran on it.
    PowerOff(String),
    /// A machine's operating system is up, and its member answers.
    Booted(String),
    /// A machine's operating system died.
    Crashed(String),
    /// A machine stands still.
    Hung(String),
    /// A machine that stood still runs on.
    Thawed(String),
    /// A machine is off the cluster's network.
    Cut(String),
    /// A machine is on the cluster's network again.
    Joined(String),
    /// A member's daemon died; its instances run on.
    DaemonDied(String),
    /// A member's daemon runs again.
    DaemonStarted(String),
    /// A member leads the database.
    Leads(String),
    /// No member can lead the database.
    QuorumLost,
    /// An instance was moved in the database.
    Moved {
        /// The instance.
        instance: InstanceName,
        /// Where it was.
        from: String,
        /// Where it is.
        to: String,
    },
    /// An instance runs.
    Started {
        /// The instance.
        instance: InstanceName,
        /// Where.
        on: String,
    },
    /// An instance was not started, because its volume is in use.
    Locked {
        /// The instance.
        instance: InstanceName,
        /// Where it was to start.
        on: String,
        /// Who holds the lease of its volume.
        held_by: String,
    },
    /// An instance no longer runs.
    Stopped {
        /// The instance.
        instance: InstanceName,
        /// Where it ran.
        on: String,
    },
    /// An instance runs on two machines at once: what must never happen.
    RanTwice {
        /// The instance.
        instance: InstanceName,
        /// All machines on which it runs.
        on: Vec<String>,
    },
}

/// A project and a name in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceName {
    /// The project.
    pub project: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.project, self.name)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PowerOn(machine) => write!(f, "{machine} has power."),
            Self::PowerOff(machine) => write!(f, "{machine} has lost its power."),
            Self::Booted(machine) => write!(f, "{machine} is up."),
            Self::Crashed(machine) => write!(f, "The operating system of {machine} has died."),
            Self::Hung(machine) => write!(f, "{machine} stands still."),
            Self::Thawed(machine) => write!(f, "{machine} runs on."),
            Self::Cut(machine) => write!(f, "{machine} is off the cluster's network."),
            Self::Joined(machine) => write!(f, "{machine} is on the cluster's network again."),
            Self::DaemonDied(machine) => write!(f, "The daemon of {machine} has died."),
            Self::DaemonStarted(machine) => write!(f, "The daemon of {machine} runs again."),
            Self::Leads(machine) => write!(f, "{machine} leads the cluster's database."),
            Self::QuorumLost => write!(f, "The cluster's database has no quorum."),
            Self::Moved { instance, from, to } => {
                write!(f, "The cluster has moved {instance} from {from} to {to} in its database.")
            }
            Self::Started { instance, on } => write!(f, "{instance} runs on {on}."),
            Self::Locked { instance, on, held_by } => {
                write!(f, "{instance} does not start on {on}: {held_by} holds its volume.")
            }
            Self::Stopped { instance, on } => write!(f, "{instance} no longer runs on {on}."),
            Self::RanTwice { instance, on } => {
                write!(f, "{instance} RUNS TWICE: on {}.", on.join(" and on "))
            }
        }
    }
}
