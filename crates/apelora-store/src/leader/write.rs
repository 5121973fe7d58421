//! Making a write of the leader true: what the store in memory changed, with everything that is told of it.

use std::collections::{BTreeMap, BTreeSet};

use apelora_fencing::memory::StoredMember;
use apelora_fencing::name::MemberName;
use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::write::{AuditAction, AuditRow, CommitError, Committed, Final, Intent, Write};
use serde_json::{Value, json};
use uuid::Uuid;

use super::audit::{self, About, Author};
use super::evidence::{self, Item};
use super::member::{self, FaultMark, FaultState};
use super::node::{self, Todo};
use super::proof::{self, NewRow};
use super::record::{self, End};
use super::scene::Scene;
use super::tx::{Fenced, Stop};
use super::work::{Mint, Work};
use super::{LeaderConfig, Warning, recovery, told};
use crate::engine::{DbTime, Fault};
use crate::table::audit as table;
use crate::table::change;

/// One write, as something that can be run again.
pub(super) struct Machine<'a> {
    pub(super) write: &'a Write,
    pub(super) author: &'a Author,
    pub(super) config: &'a LeaderConfig,
}

/// What came of it.
pub(super) struct Made {
    pub(super) answer: Committed,
    pub(super) audit: Vec<AuditRow>,
    pub(super) warnings: Vec<Warning>,
}

impl Work for Machine<'_> {
    type Out = Made;

    async fn run(&self, tx: &mut Fenced, mint: &mut Mint) -> Result<Made, Stop> {
        let Self { write, author, config } = self;
        let by = (author.epoch, author.holder);
        let scene = Scene::load(tx, by, write, &config.limits, &config.power_locking_types).await?;
        let mut model = scene.model.clone();
        let now = tx.now();
        let (answer, rows) = model.commit(now.as_duration(), by, write);
        let answer = answer.map_err(|error| match error {
            CommitError::Refused(reason) => Stop::Refused(reason),
            CommitError::Deposed | CommitError::Unknown | CommitError::Unavailable => Stop::Deposed,
        })?;
        let mut change = Change { tx, mint, author, write, scene: &scene, rows: &rows, warnings: Vec::new() };
        change.members(&model.members).await?;
        let todos = change.proofs(&model.members).await?;
        match write {
            Write::Intent(intent) => change.intent(intent).await?,
            Write::Permit(request) => record::permit(change.tx, request.record()).await?,
            Write::Adopt(id) if matches!(answer, Committed::Record(Some(_))) => {
                record::adopt(change.tx, *id, by).await?;
            }
            Write::Final(last) => {
                let status = model.records.iter().find(|r| r.id == last.record).map(|r| r.status);
                change.close(last, status).await?;
            }
            Write::Checked(checks) => {
                for check in checks {
                    told::note_check(change.tx, check).await?;
                }
            }
            _ => {}
        }
        let nodes = change.look_at_nodes(&todos, &config.host).await?;
        change.tell(&nodes).await?;
        change.make_nodes(nodes).await?;
        let warnings = change.warnings;
        Ok(Made { answer, audit: rows, warnings })
    }
}

/// What is to be done on the nodes of members, by name.
type Todos = BTreeMap<MemberName, Todo>;

/// A member's node on the way.
struct Place {
    mark: FaultMark,
    ready: Option<Box<node::Ready>>,
}

/// A write that was granted and is being written down.
struct Change<'a> {
    tx: &'a mut Fenced,
    mint: &'a mut Mint,
    author: &'a Author,
    write: &'a Write,
    scene: &'a Scene,
    rows: &'a [AuditRow],
    warnings: Vec<Warning>,
}

impl Change<'_> {
    /// Members that are new or were seen otherwise.
    async fn members(&mut self, after: &BTreeMap<MemberName, StoredMember>) -> Result<(), Fault> {
        // What has a row or a table of its own.
        let own = |member: &StoredMember| StoredMember { held: false, proof: None, ..member.clone() };
        for (name, to) in after {
            match self.scene.members.get(name) {
                None => member::insert(&mut self.tx.tx(), name, to).await?,
                Some(before) if own(&before.model) != own(to) => member::observe(self.tx, name, to).await?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Proofs that came, went, or that a restart builds on; and what follows for the members' nodes.
    async fn proofs(&mut self, after: &BTreeMap<MemberName, StoredMember>) -> Result<Todos, Fault> {
        let mut todos = Todos::new();
        for (name, to) in after {
            let Some(before) = self.scene.members.get(name) else { continue };
            let fault = &before.fault;
            match (&before.proof, &to.proof) {
                (Some(old), None) => {
                    proof::withdraw(self.tx, old).await?;
                    if fault.state == Some(FaultState::Due) {
                        let mark = FaultMark { state: None, ..fault.clone() };
                        member::mark_fault(&mut self.tx.tx(), name, &mark).await?;
                    }
                }
                (Some(old), Some(new)) if old.at.as_duration() == new.at && old.kind == new.kind => {
                    if new.recovery_started && !old.recovery_started {
                        proof::start_recovery(self.tx, old).await?;
                    }
                }
                (old, Some(new)) => {
                    let id = self.mint.next();
                    let (evidence, record) = self.evidence();
                    let row = NewRow {
                        id,
                        member: name,
                        incarnation: new.incarnation,
                        kind: new.kind,
                        record,
                        evidence: &evidence,
                        recovery_started: new.recovery_started,
                    };
                    proof::store(&mut self.tx.tx(), &row, old.as_ref()).await?;
                    if fault.incarnation != Some(new.incarnation) {
                        let names = record.map_or(id, |r| r.0).to_string();
                        let todo = Todo::Assert { names, incarnation: new.incarnation, kind: new.kind };
                        todos.insert(name.clone(), todo);
                    }
                }
                (None, None) => {}
            }
            if to.incarnation > before.model.incarnation {
                match (fault.state, &fault.names) {
                    (Some(FaultState::Asserted | FaultState::ReleaseDue), Some(names)) => {
                        todos.insert(name.clone(), Todo::Release { names: names.clone() });
                    }
                    (Some(FaultState::Due), _) => {
                        let mark = FaultMark { names: None, state: None, ..fault.clone() };
                        member::mark_fault(&mut self.tx.tx(), name, &mark).await?;
                    }
                    _ => {}
                }
            }
        }
        Ok(todos)
    }

    /// What a new proof of this write stands on.
    fn evidence(&self) -> (Value, Option<apelora_fencing::RecordId>) {
        match self.write {
            Write::Proof(new) => (audit::of_ground(&new.ground).0, None),
            Write::Final(last) => {
                let mut evidence = last.proof.as_ref().map_or(Value::Null, audit::of_power_off);
                if let (Some(record), Value::Object(evidence)) = (&self.scene.record, &mut evidence) {
                    let off = audit::off_times(record, last, self.tx.now());
                    evidence.insert("provider".to_owned(), record.told.provider.as_str().into());
                    evidence.insert("target".to_owned(), record.told.target.as_str().into());
                    evidence.insert("mapping_sha256".to_owned(), record.told.mapping_sha256.as_str().into());
                    evidence.insert("first_off_at".to_owned(), audit::utc(off.map(|(first, _)| first)));
                    evidence.insert("second_off_at".to_owned(), audit::utc(off.map(|(_, second)| second)));
                    evidence.insert("sent".to_owned(), last.sent.into());
                }
                (evidence, Some(last.record))
            }
            _ => (json!({}), None),
        }
    }

    async fn intent(&mut self, intent: &Intent) -> Result<(), Fault> {
        let member = self.scene.members.get(&intent.member);
        let last_online = member.and_then(|m| m.model.last_online_at).map(DbTime::from_duration);
        let last_sent = self.scene.last_sent.as_ref().and_then(|r| r.times.send);
        let by = (self.author.epoch, self.author.holder);
        record::insert(self.tx, intent, by, last_online, last_sent).await?;
        let now = self.tx.now();
        let provider = intent.provider.as_str();
        evidence::insert(self.tx, intent.record, provider, now, 0, &[Item::of_intent(intent)]).await
    }

    async fn close(&mut self, last: &Final, status: Option<RecordStatus>) -> Result<(), Fault> {
        let (Some(record), Some(status)) = (&self.scene.record, status) else { return Ok(()) };
        let reason = self.rows.iter().find_map(|row| row.reason).unwrap_or(last.reason);
        let now = self.tx.now();
        let end = End {
            status,
            reason: reason.as_str(),
            sent: last.sent,
            first_off: audit::off_times(record, last, now).map(|(first, _)| first),
            readings: evidence::count(&last.evidence),
        };
        record::close(self.tx, last.record, &end).await?;
        let items: Vec<Item> = last.evidence.iter().map(Item::of).collect();
        let base = audit::evidence_base(record, last, now);
        let first = evidence::length(self.tx, last.record).await?;
        evidence::insert(self.tx, last.record, &record.told.provider, base, first, &items).await
    }

    /// Locks the nodes, and plans.
    async fn look_at_nodes(
        &mut self,
        todos: &Todos,
        host: &str,
    ) -> Result<BTreeMap<MemberName, Place>, Fault> {
        let mut places = BTreeMap::new();
        for (name, todo) in todos {
            let stamp = self.mint.stamp(self.tx.now(), host);
            let found = node::look(&mut self.tx.tx(), name, todo, stamp).await?;
            let before = self.scene.members.get(name).map(|m| m.fault.clone()).unwrap_or_default();
            let (mark, ready, warning) = node::settle(&before, todo, found);
            self.warnings.extend(warning);
            places.insert(name.clone(), Place { mark, ready });
        }
        Ok(places)
    }

    /// The audit trail and the change feed.
    async fn tell(&mut self, places: &BTreeMap<MemberName, Place>) -> Result<(), Fault> {
        let now = self.tx.now();
        let at = now.second();
        let mut rows = Vec::with_capacity(self.rows.len());
        for (i, told) in self.rows.iter().enumerate() {
            let mut about = self.about(i, told).await?;
            if let Some(ready) = places.get(&told.member).and_then(|place| place.ready.as_ref()) {
                about.node = ready.names();
            }
            rows.push(self.author.row(self.mint.next(), at, told, about));
        }
        table::insert_rows(self.tx.conn(), rows).await?;
        if matches!(self.write, Write::ReadBack(_)) {
            return Ok(());
        }
        let mut subjects: BTreeSet<&MemberName> = self.scene.members.keys().collect();
        subjects.extend(self.scene.model.members.keys());
        subjects.extend(self.rows.iter().map(|row| &row.member));
        subjects.extend(self.scene.record.iter().map(|record| &record.told.member));
        if let Write::Observed(seen) = self.write {
            subjects.extend(seen.iter().map(|o| &o.member));
        }
        note(self.tx, self.mint, subjects, now).await
    }

    async fn about(&mut self, index: usize, told: &AuditRow) -> Result<About, Fault> {
        let scene = self.scene;
        let before = scene.members.get(&told.member);
        let latest = before.and_then(|member| member.proof.as_ref());
        Ok(match (self.write, told.action) {
            (Write::Refused(refusals), _) => refusals.get(index).map(audit::of_refusal).unwrap_or_default(),
            (Write::Final(last), AuditAction::PowerOff) => {
                let Some(record) = &scene.record else { return Ok(About::default()) };
                let now = self.tx.now();
                let inventory = recovery::inventory(self.tx.conn(), Some(&told.member), now).await?;
                let instances: Vec<String> =
                    inventory.iter().map(|i| format!("{}/{}", i.instance.project, i.instance.name)).collect();
                audit::of_final(record, last, told, now, &instances)
            }
            (_, AuditAction::Fenced) => {
                let (mut evidence, record) = self.evidence();
                let (kind, hardware_uuid) = match self.write {
                    Write::Proof(new) => (new.ground.kind(), audit::of_ground(&new.ground).1),
                    _ => (
                        ProofKind::PowerOff,
                        scene.record.as_ref().and_then(|r| r.told.hardware_uuid.clone()),
                    ),
                };
                let life = match self.write {
                    Write::Proof(new) => Some(new.incarnation),
                    _ => scene.record.as_ref().map(|r| r.told.incarnation),
                };
                let standing = latest.filter(|p| Some(p.incarnation) == life).map(|p| p.kind.as_str());
                if let Value::Object(evidence) = &mut evidence {
                    evidence.insert("kind".to_owned(), kind.as_str().into());
                    evidence.insert("incarnation".to_owned(), life.map(|life| life.0).into());
                    evidence.insert("record".to_owned(), record.map(|r| r.0.to_string()).into());
                    // A proof that stood already is kept: a person's word, say.
                    evidence.insert("stood_already".to_owned(), standing.into());
                }
                About {
                    summary: audit::fenced_summary(&told.member, kind),
                    evidence,
                    hardware_uuid,
                    ..About::default()
                }
            }
            (_, AuditAction::Returned | AuditAction::ProofWithdrawn) => About {
                summary: audit::plain_summary(told),
                evidence: json!({
                    "proof": latest.map(|p| p.id.to_string()),
                    "kind": latest.map(|p| p.kind.as_str()),
                    "record": latest.and_then(|p| p.record).map(|r| r.0.to_string()),
                    "incarnation": latest.map(|p| p.incarnation.0),
                    "proven_at": audit::utc(latest.map(|p| p.at)),
                    "recovery_started": latest.map(|p| p.recovery_started),
                    "read": match self.write {
                        Write::Withdraw(withdrawal) => Some(withdrawal.power.as_str()),
                        _ => None,
                    },
                }),
                ..About::default()
            },
            (Write::Checked(checks), action) => {
                let check = checks.iter().rfind(|check| check.member == told.member);
                let found = check.map(|check| told::found_word(check.found));
                let failed = action == AuditAction::BmcChecked && found != Some("good");
                About {
                    summary: audit::plain_summary(told),
                    evidence: json!({ "found": found }),
                    outcome: failed.then_some("failed"),
                    ..About::default()
                }
            }
            _ => About { summary: audit::plain_summary(told), evidence: json!({}), ..About::default() },
        })
    }

    /// Writes what was planned on nodes, and how that stands.
    async fn make_nodes(&mut self, places: BTreeMap<MemberName, Place>) -> Result<(), Fault> {
        for (name, place) in places {
            if let Some(ready) = place.ready {
                node::make(&mut self.tx.tx(), ready).await?;
            }
            member::mark_fault(&mut self.tx.tx(), &name, &place.mark).await?;
        }
        Ok(())
    }
}

/// Writes into the change feed that something about these members changed. The first row has the id of the change.
async fn note(
    tx: &mut Fenced,
    mint: &mut Mint,
    members: BTreeSet<&MemberName>,
    now: DbTime,
) -> Result<(), Fault> {
    let mut id: Option<Uuid> = Some(mint.change());
    for member in members {
        let id = id.take().unwrap_or_else(|| mint.next());
        change::insert(tx.conn(), id, change::MEMBER, member.as_str(), now.second()).await?;
    }
    Ok(())
}
