//! What a pass, the control plane and commands read. A reading that needs several statements is of one moment.

use std::collections::BTreeSet;

use apelora_fencing::name::{MemberName, RecordId};
use apelora_fencing::record::{MemberRow, OpenRecord, Persisted, ProofRow, SendRow};
use apelora_maintenance::registry;
use sea_query::{Expr, ExprTrait, Query};

use super::member::Member;
use super::{
    EvidenceRow, FenceRecord, LeaderConfig, LeaseState, ProofQuery, RecordQuery, StatusRow, StoredInstance,
    StoredMember, StoredProof, StoredRecovery, evidence, lease, member, proof, record, recovery, told,
};
use crate::engine::{Conn, DbTime, Fault, clock};
use crate::table::Reader;
use crate::{Kind, Store, StoreError};

impl Store {
    /// Everything that a pass reads, as of one moment; ages by the database's clock.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn persisted(&self, config: &LeaderConfig) -> Result<Persisted, StoreError> {
        let mut conn = self.reader().await?;
        conn.begin_snapshot().await?;
        let read = async {
            let now = clock::read(&mut conn, self.clock_offset()).await?;
            let members = member::read_all(&mut conn).await?;
            let held = held(&mut conn, &config.power_locking_types).await?;
            let since = DbTime::from_duration(now.as_duration().saturating_sub(config.limits.loop_guard));
            Ok(Persisted {
                members: members
                    .iter()
                    .map(|(name, m)| (name.clone(), row(m, held.contains(name), now)))
                    .collect(),
                open: record::read_open(&mut conn).await?.map(|open| {
                    let uuid = open.uuid();
                    let (told, model) = (open.model(), open.told);
                    OpenRecord {
                        id: model.id,
                        member: model.member,
                        uuid,
                        incarnation: model.incarnation,
                        status: model.status,
                        map: told.map,
                        epoch: told.epoch,
                        holder: told.holder,
                    }
                }),
                sends: record::sent_after(&mut conn, since)
                    .await?
                    .into_iter()
                    .filter_map(|sent| {
                        Some(SendRow {
                            uuid: sent.uuid(),
                            age: now.since(sent.times.send?),
                            open: sent.told.status.is_open(),
                            member: sent.told.member,
                        })
                    })
                    .collect(),
                history_gap: told::gap(&mut conn).await?.map(|at| now.since(at)),
            })
        };
        let persisted: Result<Persisted, Fault> = read.await;
        conn.rollback().await;
        Ok(persisted?)
    }

    /// The lease.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn lease(&self) -> Result<LeaseState, StoreError> {
        Ok(lease::read(&mut self.reader().await?, self.clock_offset()).await?)
    }

    /// What the leader last published; `None` before the first time.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn leader_status(&self) -> Result<Option<StatusRow>, StoreError> {
        Ok(told::status(&mut self.reader().await?, self.clock_offset()).await?)
    }

    /// The members that are stored, by name.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn stored_members(&self) -> Result<Vec<StoredMember>, StoreError> {
        let types: Vec<String> =
            registry::TYPES.iter().filter(|t| t.locks_power).map(|t| t.name.to_owned()).collect();
        let mut conn = self.reader().await?;
        conn.begin_snapshot().await?;
        let read = async {
            let now = clock::read(&mut conn, self.clock_offset()).await?;
            let members = member::read_all(&mut conn).await?;
            let held = held(&mut conn, &types).await?;
            let mut checks = told::checks(&mut conn, now).await?;
            let stored = members.into_iter().map(|(name, m)| StoredMember {
                row: row(&m, held.contains(&name), now),
                proof: m.proof.map(|proof| proof.told(now)),
                check: checks.remove(&name),
                member: name,
            });
            Ok(stored.collect())
        };
        let members: Result<Vec<StoredMember>, Fault> = read.await;
        conn.rollback().await;
        Ok(members?)
    }

    /// A page of proofs, newest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn proofs(&self, query: &ProofQuery) -> Result<Vec<StoredProof>, StoreError> {
        let mut conn = self.reader().await?;
        let now = clock::read(&mut conn, self.clock_offset()).await?;
        let proofs = proof::list(&mut conn, query).await?;
        Ok(proofs.into_iter().map(|proof| proof.told(now)).collect())
    }

    /// A page of fence records, newest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn fence_records(&self, query: &RecordQuery) -> Result<Vec<FenceRecord>, StoreError> {
        let records = record::list(&mut self.reader().await?, query).await?;
        Ok(records.into_iter().map(|record| record.told).collect())
    }

    /// One fence record with its evidence, in order.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn fence_record(
        &self,
        id: RecordId,
    ) -> Result<Option<(FenceRecord, Vec<EvidenceRow>)>, StoreError> {
        let mut conn = self.reader().await?;
        conn.begin_snapshot().await?;
        let read = async {
            let Some(record) = record::read(&mut conn, id).await? else { return Ok(None) };
            Ok(Some((record.told, evidence::of_record(&mut conn, id).await?)))
        };
        let record: Result<Option<_>, Fault> = read.await;
        conn.rollback().await;
        Ok(record?)
    }

    /// The restarts of instances, of one member or of all, the oldest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn recoveries(&self, member: Option<&MemberName>) -> Result<Vec<StoredRecovery>, StoreError> {
        let mut conn = self.reader().await?;
        let now = clock::read(&mut conn, self.clock_offset()).await?;
        Ok(recovery::list(&mut conn, member, now).await?)
    }

    /// The instances of all members as they were last stored, by project and name.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn inventory(&self) -> Result<Vec<StoredInstance>, StoreError> {
        let mut conn = self.reader().await?;
        let now = clock::read(&mut conn, self.clock_offset()).await?;
        Ok(recovery::inventory(&mut conn, None, now).await?)
    }
}

/// As a pass reads it.
fn row(member: &Member, held: bool, now: DbTime) -> MemberRow {
    let model = &member.model;
    MemberRow {
        incarnation: model.incarnation,
        online: model.online,
        last_online: model.last_online_at.map(|at| now.since(DbTime::from_duration(at))),
        proof: member.proof.as_ref().map(|proof| ProofRow {
            kind: proof.kind,
            incarnation: proof.incarnation,
            age: now.since(proof.at),
            recovery_started: proof.recovery_started,
        }),
        held,
        distrusted: model.distrusted,
        leases: model.leases.clone(),
    }
}

/// The names of the nodes on which an active entry of one of these types stands.
async fn held(conn: &mut Conn, types: &[String]) -> Result<BTreeSet<MemberName>, Fault> {
    if types.is_empty() {
        return Ok(BTreeSet::new());
    }
    let select = Query::select()
        .distinct()
        .column(("nodes", "name"))
        .from("nodes")
        .inner_join("node_maintenance", Expr::col(("nodes", "id")).equals(("node_maintenance", "node_id")))
        .and_where(Expr::col(("node_maintenance", "type")).is_in(types.iter().map(String::as_str)))
        .and_where(Expr::col(("nodes", "name")).is_not_null())
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Text]).await?;
    rows.into_iter().map(|row| Ok(Reader::new("nodes", row).text()?.as_str().into())).collect()
}
