//! The members that instances may be moved to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_fencing::restart::Room;
use apelora_fencing::view::{ClusterView, Status};
use apelora_incus::{Client, Member};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::shell::Outside;

/// What the member list may take.
const MEMBERS_LIMIT: Duration = Duration::from_secs(5);
/// What asking one member for its free memory may take. Whoever does not answer is taken last.
const STATE_LIMIT: Duration = Duration::from_secs(3);
/// What all of them together may take.
const STATES_LIMIT: Duration = Duration::from_secs(20);
/// What the nodes' maintenance may take.
const NODES_LIMIT: Duration = Duration::from_secs(5);
/// So many members are asked at once.
const WIDTH: usize = 8;

/// Reads them. `view` is the member list that was judged: a member has to be Online in both. The number of instances is
/// not known here.
pub(super) async fn read(outside: &Outside, view: &ClusterView) -> Result<Vec<Room>, String> {
    let client = outside.cluster.client().ok_or("there is no endpoint of the cluster")?;
    let listed =
        client.members(Instant::now() + MEMBERS_LIMIT).await.map_err(|failure| failure.to_string())?;
    let is_online = |member: &Member| {
        let judged = view.status(&member.name.as_str().into());
        member.status == Status::Online.as_str() && judged == Some(&Status::Online)
    };
    let online: BTreeSet<MemberName> =
        listed.iter().filter(|m| is_online(m)).map(|m| m.name.as_str().into()).collect();
    let maintained = timeout(NODES_LIMIT, outside.database.in_maintenance(&online)).await;
    let maintained = maintained.map_err(|_| "the nodes could not be read in time")??;
    let wanted = online.iter().filter(|member| !maintained.contains(*member)).cloned().collect();
    let free = free_memory(&client, wanted).await;
    let room = |member: Member| {
        let name = MemberName::from(member.name.as_str());
        Room {
            online: online.contains(&name),
            in_maintenance: maintained.contains(&name),
            architectures: architectures(member.architecture),
            free_memory: free.get(&name).copied(),
            instances: 0,
            member: name,
        }
    };
    Ok(listed.into_iter().map(room).collect())
}

/// What a server of this architecture runs. The list names one; 32-bit instances run on the 64-bit servers of the same
/// maker.
fn architectures(own: String) -> Vec<String> {
    let also = match own.as_str() {
        "x86_64" => Some("i686".to_owned()),
        _ => None,
    };
    std::iter::once(own).chain(also).collect()
}

/// The memory that is free on each of these members, as far as they say so in time.
async fn free_memory(client: &Client, members: Vec<MemberName>) -> BTreeMap<MemberName, u64> {
    let tasks = members.len().min(WIDTH);
    let waiting = Arc::new(Mutex::new(members.into_iter()));
    let mut asking = JoinSet::new();
    for _ in 0..tasks {
        let (client, waiting) = (client.another(), Arc::clone(&waiting));
        asking.spawn(async move {
            let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let mut found = Vec::new();
            while let Some(member) = next() {
                if let Ok(state) = client.member_state(member.as_str(), Instant::now() + STATE_LIMIT).await {
                    // Buffers are given up when somebody needs the memory.
                    found.push((member, state.free_memory.saturating_add(state.buffered_memory)));
                }
            }
            found
        });
    }
    let mut free = BTreeMap::new();
    let all = async {
        while let Some(found) = asking.join_next().await {
            free.extend(found.into_iter().flatten());
        }
    };
    let _ = timeout(STATES_LIMIT, all).await;
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_64_bits_runs_what_one_of_32_bits_ran() {
        assert_eq!(architectures("x86_64".into()), ["x86_64", "i686"]);
        assert_eq!(architectures("aarch64".into()), ["aarch64"]);
    }
}
