//! Members of the cluster.

use serde::Deserialize;

use crate::strict::{Object, list};

/// A line of the member list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// Its name.
    #[serde(rename = "server_name")]
    pub name: String,
    /// Its address in the cluster, `https://IP:8443`; see [`endpoint`](crate::endpoint).
    pub url: String,
    /// The word as it came: `Online`, `Offline`, `Evacuated`, `Blocked`, or one that this crate does not know.
    pub status: String,
    /// For people only: the age in it counts by the answering member's clock, and also the time in which nobody could
    /// write heartbeats.
    pub message: String,
    /// Whether it holds a role in the cluster's database.
    pub database: bool,
    /// Its roles.
    #[serde(deserialize_with = "list")]
    pub roles: Vec<String>,
    /// Its failure domain; `default` when nobody set one.
    pub failure_domain: String,
    /// Its CPU architecture.
    pub architecture: String,
}

impl Member {
    /// Whether it leads the cluster's database by the word of the member that answered.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.roles.iter().any(|role| role == "database-leader")
    }
}

/// What a member has and uses, by its own word: the request is forwarded to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberResources {
    /// Memory, in bytes.
    pub total_memory: u64,
    /// Memory that nobody uses, in bytes.
    pub free_memory: u64,
    /// Memory used for buffers, which is given up when it is needed, in bytes.
    pub buffered_memory: u64,
    /// How long it has been up, in seconds.
    pub uptime: i64,
}

#[derive(Deserialize)]
pub(crate) struct MemberState {
    sysinfo: Object<SysInfo>,
}

#[derive(Deserialize)]
struct SysInfo {
    uptime: i64,
    total_ram: u64,
    free_ram: u64,
    buffered_ram: u64,
}

impl From<MemberState> for MemberResources {
    fn from(MemberState { sysinfo: Object(sysinfo) }: MemberState) -> Self {
        Self {
            total_memory: sysinfo.total_ram,
            free_memory: sysinfo.free_ram,
            buffered_memory: sysinfo.buffered_ram,
            uptime: sysinfo.uptime,
        }
    }
}
