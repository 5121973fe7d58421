//! One pass: the cluster, the leases, the database and the map are read, in this order, each within its own limit.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::Ticket;
use apelora_fencing::event::Pass;
use apelora_fencing::map::MapState;
use apelora_fencing::name::RecordId;
use tokio::time::{Instant, timeout};

use super::answer::{Answer, Answers};
use super::outside::Outside;
use crate::bmc_map::LoadedMap;
use crate::observe::Sight;

/// What the storage leases may take.
const LEASES_LIMIT: Duration = Duration::from_secs(1);
/// What the database may take.
const STORED_LIMIT: Duration = Duration::from_secs(3);
/// What the map's file may take.
const MAP_LIMIT: Duration = Duration::from_millis(3_400);

/// A pass, and what the machine does not need to know about it.
pub(crate) struct Passed {
    /// What the machine judges.
    pub(crate) pass: Pass,
    /// Why the database could not be read.
    pub(crate) stored_problem: Option<String>,
    /// Why the map is refused.
    pub(crate) map_problem: Option<String>,
    /// What is odd about the map although it is valid.
    pub(crate) map_warnings: Vec<String>,
    /// The member that this worker runs on by what was just seen.
    pub(crate) own_host: Option<apelora_fencing::MemberName>,
}

/// Reads everything for the pass with this ticket.
pub(super) async fn gather(outside: Arc<Outside>, ticket: Ticket, answers: Answers) {
    let Sight { view, second, healing, own_host } = outside.cluster.look(&outside.clock).await;
    let leases = outside.leases.read(&*outside.clock, Instant::now() + LEASES_LIMIT).await;
    let (stored, stored_problem) = match timeout(STORED_LIMIT, outside.database.persisted()).await {
        Ok(Ok(stored)) => (Some(stored), None),
        Ok(Err(problem)) => (None, Some(problem)),
        Err(_) => (None, Some(format!("it did not answer within {} s", STORED_LIMIT.as_secs()))),
    };
    let loaded = timeout(MAP_LIMIT, outside.map.load()).await.unwrap_or_else(|_| LoadedMap {
        state: MapState::Invalid,
        problem: Some("the file could not be read in time".into()),
        warnings: Vec::new(),
    });
    let fresh_id = RecordId((outside.ids)());
    let pass = Pass { ticket, view, second, healing, leases, stored, map: loaded.state, fresh_id };
    let (map_problem, map_warnings) = (loaded.problem, loaded.warnings);
    let passed = Passed { pass, stored_problem, map_problem, map_warnings, own_host };
    answers.send(Answer::Passed(Box::new(passed)));
}
