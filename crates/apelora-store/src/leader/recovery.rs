//! What restarts where: `apelora_recovery`, one row for each restart, and `apelora_inventory`, what ran on each member
//! while it was healthy.

use std::collections::BTreeMap;

use apelora_fencing::name::{Incarnation, MemberName};
use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::restart::{Evacuate, Instance};
use sea_query::{Cond, Expr, ExprTrait, OnConflict, Order, Query, SelectStatement};
use serde_json::{Value, json};
use uuid::Uuid;

use super::tx::{Fenced, number};
use super::{StoredInstance, StoredRecovery, proof};
use crate::Kind;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::table::{CHUNK, Reader};

const RECOVERY: &str = "apelora_recovery";
const INVENTORY: &str = "apelora_inventory";

const COLUMNS: [(&str, Kind); 11] = [
    ("member", Kind::Text),
    ("incarnation", Kind::Int),
    ("project", Kind::Text),
    ("instance", Kind::Text),
    ("target", Kind::Text),
    ("start", Kind::Bool),
    ("step", Kind::Text),
    ("attempts", Kind::Int),
    ("detail", Kind::Text),
    ("created_at", Kind::Int),
    ("updated_at", Kind::Int),
];

/// Which restart it is: the same for the same member, life, project and instance.
fn id(row: &RecoveryRow) -> String {
    let name = format!("{}\0{}\0{}\0{}", row.member, row.incarnation.0, row.project, row.instance);
    Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(RECOVERY);
    select
}

async fn fetch(conn: &mut Conn, select: &SelectStatement, now: DbTime) -> Result<Vec<StoredRecovery>, Fault> {
    let rows = conn.fetch(conn.engine().build(select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(RECOVERY, row);
            let recovery = RecoveryRow {
                member: row.text()?.as_str().into(),
                incarnation: Incarnation(row.count()?),
                project: row.text()?,
                instance: row.text()?,
                target: row.opt_text().as_deref().map(MemberName::from),
                start: row.bool(),
                step: step_of(&row.text()?)?,
                attempts: u32::try_from(row.count()?).unwrap_or(u32::MAX),
                detail: row.text()?,
            };
            let (created, updated) = (DbTime(row.int()?), DbTime(row.int()?));
            Ok(StoredRecovery { row: recovery, created_at: created.utc(), age: now.since(updated) })
        })
        .collect()
}

fn step_of(word: &str) -> Result<Step, Fault> {
    Step::from_word(word).ok_or_else(|| Fault::corrupt(format!("{RECOVERY}: '{word}' is no step")))
}

/// The restarts of one member, or of all, the oldest first.
pub(super) async fn list(
    conn: &mut Conn,
    member: Option<&MemberName>,
    now: DbTime,
) -> Result<Vec<StoredRecovery>, Fault> {
    let mut select = select();
    select.and_where_option(member.map(|member| Expr::col("member").eq(member.as_str())));
    fetch(conn, select.order_by("seq", Order::Asc), now).await
}

/// Stores how far a restart is; how far it was.
pub(super) async fn note(tx: &mut Fenced, row: &RecoveryRow) -> Result<Option<Step>, Fault> {
    let now = tx.now();
    let found = select().and_where(Expr::col("id").eq(id(row))).take();
    let before = fetch(tx.conn(), &found, now).await?.pop();
    let mut insert = Query::insert();
    insert.into_table(RECOVERY).columns(["id"].into_iter().chain(COLUMNS.map(|(name, _)| name))).on_conflict(
        OnConflict::column("id")
            .update_columns(["target", "start", "step", "attempts", "detail", "updated_at"])
            .to_owned(),
    );
    insert
        .values([
            id(row).into(),
            row.member.as_str().into(),
            number(row.incarnation.0).into(),
            row.project.clone().into(),
            row.instance.clone().into(),
            row.target.as_ref().map(|target| target.as_str().to_owned()).into(),
            row.start.into(),
            row.step.as_str().into(),
            i64::from(row.attempts).into(),
            row.detail.clone().into(),
            now.0.into(),
            now.0.into(),
        ])
        .map_err(|e| Fault::new(Class::Other, e))?;
    let conn = tx.conn();
    conn.execute(conn.engine().build(&insert)).await?;
    Ok(before.map(|before| before.row.step))
}

/// Restarts that ended before this time and that nobody asks for any more: their member was proven off in a later life.
///
/// Until then the rows of a life are needed, also when the member is back: what is dealt with already is not begun again
/// (apelora-worker, `recovery/runner.rs`), and a member that runs on is told with what was started elsewhere (`back.rs`).
fn over(before: DbTime) -> Cond {
    let column = |name: &'static str| Expr::col((RECOVERY, name));
    let later = Query::select()
        .expr(Expr::val(1))
        .from(proof::TABLE)
        .and_where(Expr::col((proof::TABLE, "member")).eq(column("member")))
        .and_where(Expr::col((proof::TABLE, "incarnation")).gt(column("incarnation")))
        .take();
    let ends = Step::ALL.into_iter().filter(|step| step.is_end()).map(Step::as_str);
    Cond::all()
        .add(column("step").is_in(ends))
        .add(column("updated_at").lt(before.0))
        .add(Expr::exists(later))
}

/// Deletes such restarts, at most `limit` of them, the oldest first; the number deleted.
pub(super) async fn delete_over(conn: &mut Conn, before: DbTime, limit: u64) -> Result<u64, Fault> {
    let engine = conn.engine();
    let mut select = Query::select();
    select.column("seq").from(RECOVERY).cond_where(over(before)).order_by("seq", Order::Asc).limit(limit);
    let rows = conn.fetch(engine.build(&select), &[Kind::Int]).await?;
    let seqs = rows.into_iter().map(|row| Reader::new(RECOVERY, row).int()).collect::<Result<Vec<_>, _>>()?;
    let mut deleted = 0;
    for seqs in seqs.chunks(CHUNK) {
        let mut delete = Query::delete();
        delete.from_table(RECOVERY).and_where(Expr::col("seq").is_in(seqs.iter().copied()));
        deleted += conn.execute(engine.build(delete.cond_where(over(before)))).await?;
    }
    Ok(deleted)
}

const fn evacuate_word(evacuate: Evacuate) -> &'static str {
    match evacuate {
        Evacuate::Auto => "auto",
        Evacuate::Migrate => "migrate",
        Evacuate::Stop => "stop",
    }
}

fn instance_json(instance: &Instance) -> Value {
    json!({
        "project": instance.project,
        "name": instance.name,
        "architecture": instance.architecture,
        "autostart": instance.autostart,
        "priority": instance.priority,
        "was_running": instance.was_running,
        "evacuate": evacuate_word(instance.evacuate),
        "ephemeral": instance.ephemeral,
        "shared_storage": instance.shared_storage,
        "local_device": instance.local_device,
        "has_backups": instance.has_backups,
        "memory": instance.memory,
    })
}

fn instance(member: &MemberName, value: &Value) -> Option<Instance> {
    Some(Instance {
        project: value["project"].as_str()?.to_owned(),
        name: value["name"].as_str()?.to_owned(),
        member: member.clone(),
        architecture: value["architecture"].as_str()?.to_owned(),
        autostart: value["autostart"].as_bool(),
        priority: value["priority"].as_i64().unwrap_or(0),
        was_running: value["was_running"].as_bool()?,
        evacuate: Evacuate::from_word(value["evacuate"].as_str()),
        ephemeral: value["ephemeral"].as_bool()?,
        shared_storage: value["shared_storage"].as_bool()?,
        local_device: value["local_device"].as_bool()?,
        has_backups: value["has_backups"].as_bool()?,
        memory: value["memory"].as_u64(),
    })
}

/// Stores what runs on a member, in place of what was stored of it.
pub(super) async fn note_inventory(
    tx: &mut Fenced,
    member: &MemberName,
    instances: &[Instance],
) -> Result<(), Fault> {
    let list: Vec<Value> = instances.iter().map(instance_json).collect();
    let mut insert = Query::insert();
    insert
        .into_table(INVENTORY)
        .columns(["member", "instances", "at"])
        .on_conflict(OnConflict::column("member").update_columns(["instances", "at"]).to_owned());
    insert
        .values([member.as_str().into(), Value::from(list).to_string().into(), tx.now().0.into()])
        .map_err(|e| Fault::new(Class::Other, e))?;
    let conn = tx.conn();
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

/// The instances of one member, or of all. One that is stored of two members, because it moved in between, is told as
/// it was seen last.
pub(super) async fn inventory(
    conn: &mut Conn,
    member: Option<&MemberName>,
    now: DbTime,
) -> Result<Vec<StoredInstance>, Fault> {
    let mut select = Query::select();
    select.columns(["member", "instances", "at"]).from(INVENTORY).order_by("at", Order::Asc);
    select.and_where_option(member.map(|member| Expr::col("member").eq(member.as_str())));
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Text, Kind::Json, Kind::Int]).await?;
    let mut instances = BTreeMap::new();
    for row in rows {
        let mut row = Reader::new(INVENTORY, row);
        let member = MemberName::from(row.text()?.as_str());
        let corrupt = |what: &str| Fault::corrupt(format!("{INVENTORY}: instances of {member}: {what}"));
        let list: Vec<Value> =
            serde_json::from_str(&row.text()?).map_err(|error| corrupt(&error.to_string()))?;
        let age = now.since(DbTime(row.int()?));
        for value in &list {
            let instance = instance(&member, value).ok_or_else(|| corrupt("a part is missing"))?;
            let key = (instance.project.clone(), instance.name.clone());
            instances.insert(key, StoredInstance { instance, age });
        }
    }
    Ok(instances.into_values().collect())
}
