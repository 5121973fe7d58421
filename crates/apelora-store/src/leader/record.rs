//! `apelora_fence_record`: one row for each power-off that was begun. Rows are never removed.

use std::time::Duration;

use apelora_fencing::identity::SystemUuid;
use apelora_fencing::map::MapSha;
use apelora_fencing::memory::RecordRow;
use apelora_fencing::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};
use apelora_fencing::record::RecordStatus;
use apelora_fencing::write::Intent;
use sea_query::{Cond, Expr, ExprTrait, Order, Query, SelectStatement};

use super::tx::{Fenced, Level, number};
use super::{FenceRecord, RecordQuery};
use crate::Kind;
use crate::engine::clock::micros;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::table::Reader;

const TABLE: &str = "apelora_fence_record";

const COLUMNS: [(&str, Kind); 31] = [
    ("seq", Kind::Int),
    ("id", Kind::Text),
    ("member", Kind::Text),
    ("hardware_uuid", Kind::Text),
    ("incarnation", Kind::Int),
    ("status", Kind::Text),
    ("reason_code", Kind::Text),
    ("sent", Kind::Bool),
    ("provider", Kind::Text),
    ("target", Kind::Text),
    ("mapping_sha256", Kind::Text),
    ("offline_ms", Kind::Int),
    ("members_total", Kind::Int),
    ("members_offline", Kind::Int),
    ("lease_remaining_ms", Kind::Int),
    ("incus_responder", Kind::Text),
    ("incus_second", Kind::Text),
    ("last_online_at", Kind::Int),
    ("last_power_off_at", Kind::Int),
    ("epoch", Kind::Int),
    ("holder", Kind::Text),
    ("adopted_epoch", Kind::Int),
    ("adopted_holder", Kind::Text),
    ("intent_at", Kind::Int),
    ("adopted_at", Kind::Int),
    ("permit_at", Kind::Int),
    ("send_at", Kind::Int),
    ("first_off_at", Kind::Int),
    ("final_at", Kind::Int),
    ("off_readings", Kind::Int),
    ("other_readings", Kind::Int),
];

/// A record as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Everything that is told to others.
    pub(super) told: FenceRecord,
    pub(super) times: Times,
    map: MapSha,
}

/// Its times by the database's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) last_online: Option<DbTime>,
    pub(super) last_power_off: Option<DbTime>,
    pub(super) intent: DbTime,
    pub(super) adopted: Option<DbTime>,
    pub(super) permit: Option<DbTime>,
    pub(super) send: Option<DbTime>,
}

impl Record {
    /// As decisions are made on it.
    pub(super) fn model(&self) -> RecordRow {
        let FenceRecord { id, member, incarnation, status, made_by, adopted_by, .. } = &self.told;
        let (epoch, holder) = adopted_by.unwrap_or(*made_by);
        RecordRow {
            id: *id,
            member: member.clone(),
            uuid: self.uuid(),
            incarnation: *incarnation,
            status: *status,
            map: self.map,
            epoch,
            holder,
            send_at: self.times.send.map(DbTime::as_duration),
        }
    }

    /// The mapped hardware.
    pub(super) fn uuid(&self) -> Option<SystemUuid> {
        self.told.hardware_uuid.as_deref().and_then(|text| text.parse().ok())
    }
}

fn status_of(word: &str) -> Result<RecordStatus, Fault> {
    RecordStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == word)
        .ok_or_else(|| Fault::corrupt(format!("{TABLE}: '{word}' is no status")))
}

fn map_of(hex: &str) -> Result<MapSha, Fault> {
    let corrupt = || Fault::corrupt(format!("{TABLE}: '{hex}' is no SHA-256"));
    let mut bytes = [0; 32];
    if hex.len() != 2 * bytes.len() || !hex.is_ascii() {
        return Err(corrupt());
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| corrupt())?;
    }
    Ok(MapSha::from_bytes(bytes))
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn record(mut row: Reader) -> Result<Record, Fault> {
    let seq = row.int()?;
    let id = RecordId(row.uuid()?);
    let member = MemberName::from(row.text()?.as_str());
    let hardware_uuid = row.opt_text();
    let incarnation = Incarnation(row.count()?);
    let status = status_of(&row.text()?)?;
    let reason = row.opt_text();
    let sent = row.opt_bool();
    let (provider, target, mapping_sha256) = (row.text()?, row.text()?, row.text()?);
    let offline_for = Duration::from_millis(row.count()?);
    let (members_total, members_offline) = (small(row.count()?), small(row.count()?));
    let lease_remaining = Duration::from_millis(row.count()?);
    let responder = MemberName::from(row.text()?.as_str());
    let second = row.opt_text().as_deref().map(MemberName::from);
    let (last_online, last_power_off) = (row.opt_int().map(DbTime), row.opt_int().map(DbTime));
    let made_by = (Epoch(row.count()?), HolderId(row.uuid()?));
    let adopted_by = match (row.opt_count(), row.opt_uuid()?) {
        (Some(epoch), Some(holder)) => Some((Epoch(epoch), HolderId(holder))),
        _ => None,
    };
    let intent = DbTime(row.int()?);
    let mut time = || row.opt_int().map(DbTime);
    let (adopted, permit, send, first_off, last) = (time(), time(), time(), time(), time());
    let readings = (small(row.count()?), small(row.count()?));
    let utc = |at: Option<DbTime>| at.map(DbTime::utc);
    Ok(Record {
        map: map_of(&mapping_sha256)?,
        times: Times { last_online, last_power_off, intent, adopted, permit, send },
        told: FenceRecord {
            seq,
            id,
            member,
            hardware_uuid,
            incarnation,
            status,
            reason,
            sent,
            provider,
            target,
            mapping_sha256,
            offline_for,
            members_total,
            members_offline,
            lease_remaining,
            responder,
            second,
            last_online_at: utc(last_online),
            last_power_off_at: utc(last_power_off),
            made_by,
            adopted_by,
            intent_at: intent.utc(),
            permit_at: utc(permit),
            adopted_at: utc(adopted),
            first_off_at: utc(first_off),
            final_at: utc(last),
            readings,
        },
    })
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    select
}

async fn fetch(conn: &mut Conn, select: &SelectStatement) -> Result<Vec<Record>, Fault> {
    let rows = conn.fetch(conn.engine().build(select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter().map(|row| record(Reader::new(TABLE, row))).collect()
}

/// One record.
pub(super) async fn read(conn: &mut Conn, id: RecordId) -> Result<Option<Record>, Fault> {
    Ok(fetch(conn, &select().and_where(Expr::col("id").eq(id.0.to_string())).take()).await?.pop())
}

/// The open record.
pub(super) async fn read_open(conn: &mut Conn) -> Result<Option<Record>, Fault> {
    Ok(fetch(conn, &select().and_where(Expr::col("open_slot").eq(1)).take()).await?.pop())
}

/// Records that were or may have been sent after this time, the oldest first.
pub(super) async fn sent_after(conn: &mut Conn, after: DbTime) -> Result<Vec<Record>, Fault> {
    let select = select().and_where(Expr::col("send_at").gt(after.0)).order_by("seq", Order::Asc).take();
    fetch(conn, &select).await
}

/// The latest record that was or may have been sent to the member or to its hardware.
pub(super) async fn last_sent(
    conn: &mut Conn,
    member: &MemberName,
    uuid: Option<SystemUuid>,
) -> Result<Option<Record>, Fault> {
    let mut same = Cond::any().add(Expr::col("member").eq(member.as_str()));
    if let Some(uuid) = uuid {
        same = same.add(Expr::col("hardware_uuid").eq(uuid.to_string()));
    }
    let select = select()
        .and_where(Expr::col("send_at").is_not_null())
        .cond_where(same)
        .order_by("send_at", Order::Desc)
        .limit(1)
        .take();
    Ok(fetch(conn, &select).await?.pop())
}

/// A page of records, newest first.
pub(super) async fn list(conn: &mut Conn, query: &RecordQuery) -> Result<Vec<Record>, Fault> {
    let mut select = select();
    select.and_where_option(query.member.as_ref().map(|m| Expr::col("member").eq(m.as_str())));
    select.and_where_option(query.open.then(|| Expr::col("open_slot").eq(1)));
    select.and_where_option(query.before.map(|seq| Expr::col("seq").lt(seq)));
    select.order_by("seq", Order::Desc).limit(u64::from(query.limit));
    fetch(conn, &select).await
}

/// Locks a record by writing to it, and reads it.
pub(super) async fn lock(tx: &mut Fenced, id: RecordId) -> Result<Option<Record>, Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("touched", Expr::col("touched").add(1))
        .and_where(Expr::col("id").eq(id.0.to_string()))
        .take();
    let conn = tx.lock(Level::Record);
    conn.execute(conn.engine().build(&update)).await?;
    read(conn, id).await
}

/// Makes the record of an intent.
pub(super) async fn insert(
    tx: &mut Fenced,
    intent: &Intent,
    by: (Epoch, HolderId),
    last_online: Option<DbTime>,
    last_power_off: Option<DbTime>,
) -> Result<(), Fault> {
    let Intent { record, member, incarnation, uuid, provider, target, map, numbers, witnesses } = intent;
    let millis = |d: Duration| micros(d) / 1_000;
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let cells: [(&str, SimpleValue); 22] = [
        ("id", record.0.to_string().into()),
        ("member", member.as_str().into()),
        ("hardware_uuid", uuid.map(|uuid| uuid.to_string()).into()),
        ("incarnation", number(incarnation.0).into()),
        ("status", RecordStatus::Intent.as_str().into()),
        ("provider", provider.as_str().into()),
        ("target", target.as_str().into()),
        ("mapping_sha256", map.to_string().into()),
        ("offline_ms", millis(numbers.offline_for).into()),
        ("members_total", count(numbers.members_total).into()),
        ("members_offline", count(numbers.members_offline).into()),
        ("lease_remaining_ms", millis(numbers.lease_remaining).into()),
        ("incus_responder", witnesses.0.as_str().into()),
        ("incus_second", witnesses.1.as_ref().map(|m| m.as_str().to_owned()).into()),
        ("last_online_at", last_online.map(|at| at.0).into()),
        ("last_power_off_at", last_power_off.map(|at| at.0).into()),
        ("epoch", number(by.0.0).into()),
        ("holder", by.1.0.to_string().into()),
        ("intent_at", tx.now().0.into()),
        ("off_readings", 0_i64.into()),
        ("other_readings", 0_i64.into()),
        ("open_slot", 1_i64.into()),
    ];
    let mut insert = Query::insert();
    insert.into_table(TABLE).columns(cells.iter().map(|(name, _)| *name).chain(["touched"]));
    insert
        .values(cells.into_iter().map(|(_, value)| value).chain([1_i64.into()]))
        .map_err(|e| Fault::new(Class::Other, e))?;
    let conn = tx.conn();
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

type SimpleValue = sea_query::SimpleExpr;

/// Stores that a record that is locked was permitted now: from here on something may be sent.
pub(super) async fn permit(tx: &mut Fenced, id: RecordId) -> Result<(), Fault> {
    let now = tx.now().0;
    let update = Query::update()
        .table(TABLE)
        .value("status", RecordStatus::Sent.as_str())
        .value("permit_at", now)
        .value("send_at", now)
        .and_where(Expr::col("id").eq(id.0.to_string()))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// Stores who took a record that is locked over.
pub(super) async fn adopt(
    tx: &mut Fenced,
    id: RecordId,
    (epoch, holder): (Epoch, HolderId),
) -> Result<(), Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("adopted_epoch", number(epoch.0))
        .value("adopted_holder", holder.0.to_string())
        .value("adopted_at", tx.now().0)
        .and_where(Expr::col("id").eq(id.0.to_string()))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// How a record ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) status: RecordStatus,
    pub(super) reason: &'a str,
    pub(super) sent: bool,
    pub(super) first_off: Option<DbTime>,
    pub(super) readings: (u32, u32),
}

/// Ends a record that is locked, and frees the open slot.
pub(super) async fn close(tx: &mut Fenced, id: RecordId, end: &End<'_>) -> Result<(), Fault> {
    let mut update = Query::update();
    update
        .table(TABLE)
        .value("status", end.status.as_str())
        .value("reason_code", end.reason)
        .value("sent", end.sent)
        .value("first_off_at", end.first_off.map(|at| at.0))
        .value("final_at", tx.now().0)
        .value("off_readings", i64::from(end.readings.0))
        .value("other_readings", i64::from(end.readings.1))
        .value("open_slot", None::<i64>)
        .and_where(Expr::col("id").eq(id.0.to_string()));
    if !end.sent {
        update.value("send_at", None::<i64>);
    }
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_digests_are_read_back() {
        for status in ["intent", "sent", "fenced", "failed", "refused", "superseded"] {
            assert_eq!(status_of(status).unwrap().as_str(), status);
        }
        assert!(status_of("reading").is_err());
        let map = MapSha::from_bytes(std::array::from_fn(|i| u8::try_from(i * 7 % 256).unwrap()));
        assert_eq!(map_of(&map.to_string()).unwrap(), map);
        for wrong in ["", "00", &"é".repeat(32), &"g".repeat(64)] {
            assert!(map_of(wrong).is_err(), "{wrong}");
        }
    }
}
