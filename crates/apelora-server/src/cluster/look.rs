//! One look at the cluster: what the database says, and what the leader reported last.
//!
//! The report is a document of another process, which may be newer, older or gone. What it says counts as current only
//! while its latest pass is young; after that it is shown as what it is, the last thing that was known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apelora_fencing::name::MemberName;
use apelora_fencing::status::{MappedStatus, MemberStatus, PassStatus, Status};
use apelora_store::{FenceRecord, LeaseState, RecordQuery, StatusRow, StoredMember};
use serde_json::Value;

use super::figures::Figures;
use super::view::{Leader, secs};
use crate::app::{App, store_error};
use crate::error::ApiError;

/// A report is current no longer than this after its latest pass: the life of the leader lease, in which another leader
/// takes over.
const CURRENT: Duration = Duration::from_secs(30);

/// The report, with the judged world as it came.
type Report = Status<Value>;

/// What was seen.
pub(super) struct Look {
    stored: BTreeMap<MemberName, StoredMember>,
    /// The power-off in progress.
    open: Option<FenceRecord>,
    lease: LeaseState,
    row: Option<StatusRow>,
    report: Option<Report>,
    /// Why the report cannot be read.
    problem: Option<String>,
}

impl App {
    /// What is counted for alerts.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn figures(&self) -> Result<Figures, ApiError> {
        Ok(Figures::of(&self.look().await?))
    }

    /// Looks once. What is read one after the other may differ by a pass.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn look(&self) -> Result<Look, ApiError> {
        let store = self.store();
        let row = store.leader_status().await.map_err(store_error)?;
        let lease = store.lease().await.map_err(store_error)?;
        let open = RecordQuery { open: true, limit: 1, ..RecordQuery::default() };
        let open = store.fence_records(&open).await.map_err(store_error)?.pop();
        let stored = store.stored_members().await.map_err(store_error)?;
        Ok(Look::new(stored, open, lease, row))
    }
}

impl Look {
    fn new(
        stored: Vec<StoredMember>,
        open: Option<FenceRecord>,
        lease: LeaseState,
        row: Option<StatusRow>,
    ) -> Self {
        let stored = stored.into_iter().map(|known| (known.member.clone(), known)).collect();
        let (report, problem) = match row.as_ref().map(|row| serde_json::from_str::<Report>(&row.text)) {
            None => (None, None),
            Some(Ok(report)) => (Some(report), None),
            Some(Err(why)) => (None, Some(why.to_string())),
        };
        Self { stored, open, lease, row, report, problem }
    }

    pub(super) const fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    fn pass(&self) -> Option<&PassStatus<Value>> {
        self.report.as_ref()?.pass.as_ref()
    }

    /// How long ago what the report tells was the case; ages in it are to be added.
    pub(super) fn report_age(&self) -> Option<Duration> {
        self.row.as_ref().map(|row| row.age)
    }

    /// How long ago the latest pass was judged.
    pub(super) fn pass_age(&self) -> Option<Duration> {
        Some(self.report_age()?.saturating_add(Duration::from_millis(self.pass()?.age_ms)))
    }

    /// Whether the latest pass still says how things are.
    pub(super) fn is_current(&self) -> bool {
        self.pass_age().is_some_and(|age| age <= CURRENT)
    }

    /// The judged world, as the leader wrote it.
    pub(super) fn world(&self) -> Option<&Value> {
        self.pass().map(|pass| &pass.world)
    }

    /// The status word that the cluster gave to the member in the latest pass.
    pub(super) fn status_word(&self, member: &MemberName) -> Option<&str> {
        let members = self.world()?["members"].as_array()?;
        members.iter().find(|known| known["name"] == member.as_str())?["status"].as_str()
    }

    /// What was decided about the member.
    pub(super) fn judged(&self, member: &MemberName) -> Option<&MemberStatus> {
        self.report.as_ref()?.members.iter().find(|known| known.member == *member)
    }

    pub(super) fn mapped(&self, member: &MemberName) -> Option<&MappedStatus> {
        self.report.as_ref()?.map.members.iter().find(|known| known.member == *member)
    }

    pub(super) fn stored(&self, member: &MemberName) -> Option<&StoredMember> {
        self.stored.get(member)
    }

    /// The power-off of the member that is in progress.
    pub(super) fn open(&self, member: &MemberName) -> Option<&FenceRecord> {
        self.open.as_ref().filter(|open| open.member == *member)
    }

    /// Every member that is stored, was judged or is mapped.
    pub(super) fn names(&self) -> BTreeSet<MemberName> {
        let report = self.report.iter();
        let judged = report.clone().flat_map(|report| report.members.iter().map(|known| &known.member));
        let mapped = report.flat_map(|report| report.map.members.iter().map(|known| &known.member));
        self.stored.keys().chain(judged).chain(mapped).cloned().collect()
    }

    /// Whether some worker holds the lease.
    pub(super) const fn leads(&self) -> bool {
        self.lease.expires_in.is_some()
    }

    /// Who leads, and whether what it reported is current.
    pub(super) fn leader(&self) -> Leader {
        let leads = self.leads();
        Leader {
            state: if leads { "leading" } else { "none" },
            holder: self.lease.holder.filter(|_| leads).map(|holder| holder.0.to_string()),
            epoch: leads.then_some(self.lease.epoch.0),
            lease_expires_in_secs: self.lease.expires_in.map(secs),
            worker: self.report.as_ref().map(|report| report.worker.clone()),
            dry_run: self.report.as_ref().map(|report| report.dry_run),
            status_age_secs: self.report_age().map(secs),
            status_epoch: self.row.as_ref().map(|row| row.epoch.0),
            pass_age_secs: self.pass_age().map(secs),
            current: self.is_current(),
            responder: self.pass().and_then(|pass| pass.responder.clone()).map(|member| member.to_string()),
            second: self.pass().and_then(|pass| pass.second.clone()).map(|member| member.to_string()),
            problem: self.pass().and_then(|pass| pass.problem.clone()),
            sentence: self.sentence(leads),
        }
    }

    fn sentence(&self, leads: bool) -> String {
        let epoch = self.lease.epoch.0;
        let Some(row) = &self.row else {
            return if leads {
                format!("A worker has taken the lead (epoch {epoch}) and has not reported yet.")
            } else {
                "No worker has ever led: nothing is watched. Start `apelora worker`.".to_owned()
            };
        };
        let Some(report) = &self.report else {
            let why = self.problem.as_deref().unwrap_or("no reason given");
            return format!(
                "The report of the worker that leads cannot be read ({why}): bring server and worker to one version."
            );
        };
        let worker = &report.worker;
        let Some(pass) = self.pass_age() else {
            return format!("Worker {worker} has taken the lead and has not judged the cluster yet.");
        };
        let age = ago(pass);
        let mut sentence = match (leads, self.is_current()) {
            (true, true) if row.epoch == self.lease.epoch => {
                format!("Worker {worker} leads (epoch {epoch}); its last pass was {age}.")
            }
            (true, true) => format!(
                "A worker has taken the lead (epoch {epoch}) and has not reported yet; the last pass of {worker} was {age}."
            ),
            (true, false) => format!(
                "A worker leads (epoch {epoch}), and its last pass was {age}: look at its log. What is shown is old."
            ),
            (false, true) => format!("No worker leads at the moment; the last pass of {worker} was {age}."),
            (false, false) => format!(
                "No worker leads, and the last pass was {age}: nothing is watched and what is shown is old. Start \
                 `apelora worker`, or look at its log."
            ),
        };
        if report.dry_run {
            sentence.push_str(" It runs with --dry-run and switches nothing off.");
        }
        if let Some(problem) = self.pass().and_then(|pass| pass.problem.as_ref()) {
            sentence.push_str(" The members could not be read: ");
            sentence.push_str(problem);
        }
        sentence
    }
}

/// An age in words.
fn ago(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s ago"),
        seconds @ 120..7_200 => format!("{} min ago", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use apelora_fencing::name::{Epoch, HolderId};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const HOLDER: HolderId = HolderId(Uuid::nil());

    /// A look at a report of this age, whose pass was this old when it was written.
    fn look(age: Duration, pass: Option<u64>, leads: bool, report_epoch: u64) -> Look {
        let world = json!({"members": [{"name": "s1", "status": "Online"}]});
        let pass = pass.map(|age_ms| {
            json!({"age_ms": age_ms, "responder": null, "second": null, "problem": null, "world": world})
        });
        let text = json!({
            "worker": "w1", "dry_run": false, "pass": pass, "in_progress": null, "members": [], "settings": [],
            "map": {"condition": "none", "sha256": null, "problem": null, "warnings": [], "members": []},
        });
        let lease = LeaseState {
            holder: Some(HOLDER),
            host: "w1".to_owned(),
            epoch: Epoch(3),
            expires_in: leads.then_some(Duration::from_secs(20)),
        };
        let row = StatusRow { age, holder: HOLDER, epoch: Epoch(report_epoch), text: text.to_string() };
        Look::new(Vec::new(), None, lease, Some(row))
    }

    #[test]
    fn a_report_is_current_for_thirty_seconds_after_its_pass() {
        let secs = Duration::from_secs;
        for (age, pass, current) in [
            (secs(0), Some(0), true),
            (secs(25), Some(5_000), true),
            (secs(25), Some(5_001), false),
            (Duration::from_nanos(30_000_000_001), Some(0), false),
            (secs(0), Some(u64::MAX), false),
            (Duration::MAX, Some(u64::MAX), false),
            (secs(0), None, false),
        ] {
            for leads in [true, false] {
                let look = look(age, pass, leads, 3);
                assert_eq!(look.is_current(), current, "{age:?} {pass:?}");
                assert_eq!(look.leader().current, current, "{age:?} {pass:?}");
            }
        }
    }

    #[test]
    fn the_sentence_says_who_leads_and_how_old_it_is() {
        let sentence =
            |age, pass, leads, epoch| look(Duration::from_secs(age), pass, leads, epoch).leader().sentence;
        assert_eq!(
            sentence(3, Some(1_000), true, 3),
            "Worker w1 leads (epoch 3); its last pass was 4 s ago."
        );
        for (said, words) in [
            (sentence(3, Some(0), true, 2), "has taken the lead (epoch 3) and has not reported yet"),
            (sentence(3, None, true, 3), "has not judged the cluster yet"),
            (sentence(31, Some(0), true, 3), "look at its log. What is shown is old"),
            (
                sentence(3, Some(0), false, 3),
                "No worker leads at the moment; the last pass of w1 was 3 s ago",
            ),
            (sentence(200, Some(0), false, 3), "the last pass was 3 min ago: nothing is watched"),
            (sentence(10_000, Some(0), false, 3), "the last pass was 2 h ago"),
            (sentence(1_000_000, Some(0), false, 3), "the last pass was 11 days ago"),
        ] {
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_member_that_the_world_does_not_name_has_no_status() {
        let look = look(Duration::ZERO, Some(0), true, 3);
        assert_eq!(look.status_word(&"s1".into()), Some("Online"));
        assert_eq!(look.status_word(&"s2".into()), None);
    }
}
