//! A person's word: that a member is off, or that its mapping can be trusted again. It needs no lease and locks the member
//! first, so that it stands before or after each of the leader's writes about that member, and never in the middle.

use std::collections::{BTreeMap, BTreeSet};

use apelora_fencing::Limits;
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::name::{Incarnation, MemberName};
use apelora_fencing::reason::ReasonCode;
use apelora_fencing::record::ProofKind;
use apelora_fencing::write::{AuditAction, AuditRow, Found};
use apelora_maintenance::{Authority, Scope, Stamp};
use serde_json::json;
use uuid::Uuid;

use super::audit::fenced_summary;
use super::member::{self, Member};
use super::node::{self, Todo};
use super::proof::{self, NewRow};
use super::tx::{Order, Tx};
use super::{Warning, lease, told};
use crate::engine::{Class, Conn, DbTime, Fault, clock};
use crate::table::{audit, change};
use crate::transact::{Failure, Stop, Work};
use crate::{Cause, Store, StoreError};

/// A person's word that a member is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonsWord {
    /// The member, typed in full by the person.
    pub member: MemberName,
    /// The life of it that was shown to the person.
    pub shown: Incarnation,
    /// Why the person knows.
    pub reason: String,
    /// Who it is.
    pub by: Authority,
}

/// A person's word that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    /// The audit rows that were written.
    pub audit: Vec<AuditRow>,
    /// What somebody should be told in the log.
    pub warnings: Vec<Warning>,
}

/// A person's word was not taken, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// It does not apply. Nothing was written.
    #[error("{}", .0.sentence())]
    Refused(ReasonCode),
    /// Nothing was written; trying again later helps.
    #[error("The database is not available at the moment. Please retry")]
    Unavailable(#[source] Cause),
    /// Nothing was written, and trying again does not help.
    #[error("The database could not make the change. The service's log has the cause")]
    Failed(#[source] Cause),
    /// The database did not answer the commit and could not be asked again in time.
    #[error("The database did not confirm the change. It was made whole or not at all: look before retrying")]
    Unknown(#[source] Cause),
}

impl From<Failure<ReasonCode>> for ConfirmError {
    fn from(failure: Failure<ReasonCode>) -> Self {
        match failure {
            Failure::Refused(reason) => Self::Refused(reason),
            Failure::Charset => Self::Failed(Cause::new("a character that an adopted table cannot store")),
            Failure::Unavailable(cause) => Self::Unavailable(cause),
            Failure::Failed(cause) => Self::Failed(cause),
            Failure::Unknown(cause) => Self::Unknown(cause),
        }
    }
}

impl Store {
    /// Takes a person's word that a member is off: it is fenced from then on, whatever a power-off in progress comes to
    /// (PROOF-PERSON-WINS). `stamp` is used for this one change only.
    ///
    /// # Errors
    /// [`ConfirmError::Refused`] with `seen_online` when the member was Online when a leader last looked, with
    /// `back_online` when another life of it was shown to the person; else of the database.
    pub async fn confirm_off(&self, word: &PersonsWord, stamp: &Stamp) -> Result<Confirmed, ConfirmError> {
        let mut work = ConfirmOff { word, stamp, offset: self.clock_offset() };
        Ok(self.transact(&mut work).await?)
    }

    /// A person trusts a member's mapping again; whether it was distrusted. `stamp` is used for this one change only.
    ///
    /// # Errors
    /// [`ConfirmError::Refused`] with `distrusted` while the latest drill of the member's BMC, as it is stored,
    /// contradicts the cluster; else of the database.
    pub async fn trust(
        &self,
        member: &MemberName,
        by: &Authority,
        reason: &str,
        stamp: &Stamp,
    ) -> Result<bool, ConfirmError> {
        let mut work = Trust { member, by, reason, stamp, offset: self.clock_offset() };
        Ok(self.transact(&mut work).await?)
    }

    /// Notes that the database was restored or lost commits just now: until the loop guard's time has passed, every member
    /// that is not seen Online meanwhile counts as powered off at this moment.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn note_history_gap(&self) -> Result<(), StoreError> {
        Ok(self.transact(&mut NoteGap { offset: self.clock_offset() }).await?)
    }

    /// Notes that the database was just restored from a backup, and makes that safe; the number of members.
    ///
    /// What happened since the backup is not in it: a power-off, or that a member came back and lives. So beside
    /// [`Self::note_history_gap`] every stored life of a member ends, and with it what any proof in the backup proves; and
    /// the lease begins a new epoch that nobody holds, so that a worker which still runs writes nothing more. All of it
    /// only ever keeps the leader from acting.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn note_restored(&self) -> Result<u64, StoreError> {
        Ok(self.transact(&mut NoteRestored { offset: self.clock_offset() }).await?)
    }
}

/// A row about what a person did.
fn row(
    uuid: Uuid,
    stamp: &Stamp,
    by: &Authority,
    action: &'static str,
    member: &MemberName,
    (summary, evidence): (String, serde_json::Value),
) -> audit::Row {
    audit::Row {
        uuid,
        at: stamp.at,
        user: by.user.clone(),
        project: by.project.clone(),
        scope: by.scope.map_or("", |scope| scope.as_str()),
        epoch: None,
        action,
        outcome: "success",
        reason_code: None,
        node_uuid: None,
        node_name: None,
        member: Some(member.as_str().to_owned()),
        hardware_uuid: None,
        summary,
        evidence: evidence.to_string(),
    }
}

/// The ids of a change's rows.
fn id(stamp: &Stamp, name: &str) -> Uuid {
    Uuid::new_v5(&stamp.change, name.as_bytes())
}

/// A member under its lock, and the time by the database's clock.
pub(super) struct Held {
    now: DbTime,
    order: Order,
    members: BTreeMap<MemberName, Member>,
}

async fn lock(conn: &mut Conn, name: &MemberName, make: bool, offset: i64) -> Result<Held, Fault> {
    let mut order = Order::new();
    let names = BTreeSet::from([name.clone()]);
    let mut tx = Tx::of_a_person(conn, &mut order, DbTime::default());
    let mut members = member::lock(&mut tx, &names).await?;
    if make && members.is_empty() {
        // A row to lock; it goes again if the word is refused.
        let new = Member::default();
        member::insert(&mut tx, name, &new.model).await.map_err(made_meanwhile)?;
        members.insert(name.clone(), new);
    }
    let now = clock::read(conn, offset).await?;
    Ok(Held { now, order, members })
}

/// A leader that sees the member for the first time at this moment: with its row there, it is run again.
fn made_meanwhile(mut fault: Fault) -> Fault {
    if matches!(fault.class, Class::Unique(_)) {
        fault.class = Class::Serialization;
    }
    fault
}

struct ConfirmOff<'a> {
    word: &'a PersonsWord,
    stamp: &'a Stamp,
    offset: i64,
}

impl Work for ConfirmOff<'_> {
    type Locked = Held;
    type Out = Confirmed;
    type Refusal = ReasonCode;

    fn change(&self) -> Uuid {
        self.stamp.change
    }

    async fn lock(&mut self, conn: &mut Conn) -> Result<Held, Fault> {
        lock(conn, &self.word.member, true, self.offset).await
    }

    async fn write(&mut self, conn: &mut Conn, held: Held) -> Result<Confirmed, Stop<ReasonCode>> {
        let PersonsWord { member: name, shown, reason, by } = self.word;
        let stamp = self.stamp;
        let Held { now, mut order, members } = held;
        let mut model = MemoryStore::new(&Limits::PRODUCTION);
        model.members = members.iter().map(|(name, m)| (name.clone(), m.model.clone())).collect();
        let told = model.confirm_off(now.as_duration(), name, *shown).map_err(Stop::Refused)?;
        let before = members.get(name).cloned().unwrap_or_default();
        let recovery_started =
            model.members.get(name).and_then(|m| m.proof).is_some_and(|proof| proof.recovery_started);
        let id_of_proof = id(stamp, "proof");
        let evidence = json!({
            "user": by.user,
            "project": by.project,
            "scope": by.scope.map(Scope::as_str),
            "reason": reason,
            "incarnation": shown.0,
        });
        let new = NewRow {
            id: id_of_proof,
            member: name,
            incarnation: *shown,
            kind: ProofKind::Person,
            record: None,
            evidence: &evidence,
            recovery_started,
        };
        let mut tx = Tx::of_a_person(conn, &mut order, now);
        proof::store(&mut tx, &new, before.proof.as_ref()).await?;

        let mut warnings = Vec::new();
        let mut place = None;
        if before.fault.incarnation != Some(*shown) {
            let todo =
                Todo::Assert { names: id_of_proof.to_string(), incarnation: *shown, kind: ProofKind::Person };
            let stamp = Stamp { change: id(stamp, "node"), ..stamp.clone() };
            let found = node::look(&mut tx, name, &todo, stamp).await?;
            let (mark, ready, warning) = node::settle(&before.fault, &todo, found);
            warnings.extend(warning);
            place = Some((mark, ready));
        }
        let node = place.as_ref().and_then(|(_, ready)| ready.as_ref()).map(|ready| ready.names());
        let (node_uuid, node_name) = node.unwrap_or_default();
        let rows = told.iter().map(|told| {
            let summary = match told.action {
                AuditAction::Fenced => fenced_summary(name, ProofKind::Person),
                _ => format!("{} confirms that {name} is off.", by.user),
            };
            let mut evidence = evidence.clone();
            evidence["proof"] = id_of_proof.to_string().into();
            evidence["kind"] = ProofKind::Person.as_str().into();
            let action = told.action.as_str();
            let row = row(id(stamp, action), stamp, by, action, name, (summary, evidence));
            audit::Row { node_uuid: node_uuid.clone(), node_name: node_name.clone(), ..row }
        });
        audit::insert_rows(tx.conn(), rows.collect()).await?;
        if let Some((mark, ready)) = place {
            if let Some(ready) = ready {
                node::make(&mut tx, ready).await?;
            }
            member::mark_fault(&mut tx, name, &mark).await?;
        }
        change::insert(tx.conn(), stamp.change, change::MEMBER, name.as_str(), stamp.at).await?;
        Ok(Confirmed { audit: told, warnings })
    }
}

struct Trust<'a> {
    member: &'a MemberName,
    by: &'a Authority,
    reason: &'a str,
    stamp: &'a Stamp,
    offset: i64,
}

impl Work for Trust<'_> {
    type Locked = Held;
    type Out = bool;
    type Refusal = ReasonCode;

    fn change(&self) -> Uuid {
        self.stamp.change
    }

    async fn lock(&mut self, conn: &mut Conn) -> Result<Held, Fault> {
        lock(conn, self.member, false, self.offset).await
    }

    async fn write(&mut self, conn: &mut Conn, held: Held) -> Result<bool, Stop<ReasonCode>> {
        let Self { member: name, by, reason, stamp, .. } = self;
        let Held { now, mut order, members } = held;
        if !members.get(*name).is_some_and(|member| member.model.distrusted) {
            return Ok(false);
        }
        // Nobody's word makes the BMC another one: it must have been read otherwise since.
        if let Some(last) = told::checks(conn, now).await?.remove(*name)
            && last.found == told::found_word(Found::Contradiction)
        {
            return Err(Stop::Refused(ReasonCode::Distrusted));
        }
        let mut tx = Tx::of_a_person(conn, &mut order, now);
        member::trust(&mut tx, name).await?;
        let told =
            (format!("{} trusts the BMC map's entry of {name} again.", by.user), json!({ "reason": reason }));
        let told = row(id(stamp, TRUSTED), stamp, by, TRUSTED, name, told);
        audit::insert_rows(tx.conn(), vec![told]).await?;
        change::insert(tx.conn(), stamp.change, change::MEMBER, name.as_str(), stamp.at).await?;
        Ok(true)
    }
}

/// A person clears a distrusted mapping.
const TRUSTED: &str = "cluster.bmc.trusted";

struct NoteGap {
    offset: i64,
}

impl Work for NoteGap {
    type Locked = ();
    type Out = ();
    type Refusal = std::convert::Infallible;

    /// Done twice, it comes to the same: there is no id to look for.
    fn change(&self) -> Uuid {
        Uuid::nil()
    }

    async fn lock(&mut self, _conn: &mut Conn) -> Result<(), Fault> {
        Ok(())
    }

    async fn write(&mut self, conn: &mut Conn, (): ()) -> Result<(), Stop<Self::Refusal>> {
        Ok(told::note_gap(conn, self.offset).await?)
    }
}

struct NoteRestored {
    offset: i64,
}

impl Work for NoteRestored {
    type Locked = ();
    type Out = u64;
    type Refusal = std::convert::Infallible;

    /// Done twice, one more life ends and nothing else changes: there is no id to look for.
    fn change(&self) -> Uuid {
        Uuid::nil()
    }

    /// The lease before the members, as everybody locks them.
    async fn lock(&mut self, conn: &mut Conn) -> Result<(), Fault> {
        lease::oust(conn).await
    }

    async fn write(&mut self, conn: &mut Conn, (): ()) -> Result<u64, Stop<Self::Refusal>> {
        let members = member::end_lives(conn).await?;
        told::note_gap(conn, self.offset).await?;
        Ok(members)
    }
}
