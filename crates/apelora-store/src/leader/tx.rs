//! The two kinds of transactions that write about fencing: the leader's, which begins by touching the lease, and a
//! person's. What may be written only by the leader takes a [`Fenced`], and there is one way to have one.

use apelora_fencing::ReasonCode;
use apelora_fencing::name::{Epoch, HolderId};
use sea_query::{Expr, ExprTrait, Query};

use crate::Kind;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::schema::LEASE_NAME;
use crate::table::Reader;

pub(super) const LEASE: &str = "apelora_leader_lease";

/// Why a transaction is given up.
#[derive(Debug)]
pub(super) enum Stop {
    /// Another holder or epoch has the lease, or it expired.
    Deposed,
    /// By decision.
    Refused(ReasonCode),
    /// The database.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Stop {
    /// Whether the same may succeed in another transaction at once. Nothing was committed.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Fault(Fault {
                class: Class::Deadlock
                    | Class::Serialization
                    | Class::LockWait
                    | Class::Timeout
                    | Class::Connection
                    // Of a row that somebody else made meanwhile.
                    | Class::Unique(_),
                ..
            })
        )
    }
}

/// What is locked, in the order in which it may be. Whoever keeps to it never waits for somebody who waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The lease's row.
    Lease,
    /// Rows of members, by name.
    Member,
    /// Fence records.
    Record,
    /// Nodes, by the name of their member.
    Node,
}

/// How far a transaction is in the order of locks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order(Level);

impl Order {
    /// Nothing is locked, or the lease alone.
    pub(super) const fn new() -> Self {
        Self(Level::Lease)
    }

    fn reach(&mut self, level: Level) {
        debug_assert!(level >= self.0, "{level:?} is locked after {:?}", self.0);
        self.0 = level;
    }
}

/// A transaction on the tables of fencing, the leader's or a person's. A person's needs no lease, and orders itself
/// against the leader's by the member's row.
pub(super) struct Tx<'a> {
    conn: &'a mut Conn,
    order: &'a mut Order,
    now: DbTime,
}

impl<'a> Tx<'a> {
    /// A person's transaction, begun already; `now` was read under the member's lock, or before any.
    pub(super) fn of_a_person(conn: &'a mut Conn, order: &'a mut Order, now: DbTime) -> Self {
        Self { conn, order, now }
    }

    /// The database's time of this transaction.
    pub(super) fn now(&self) -> DbTime {
        self.now
    }

    /// The connection, to take a lock of this level.
    pub(super) fn lock(&mut self, level: Level) -> &mut Conn {
        self.order.reach(level);
        self.conn
    }

    /// The connection, to read, and to write what is locked or new.
    pub(super) fn conn(&mut self) -> &mut Conn {
        self.conn
    }
}

/// A transaction of the leader: the lease was touched in it, and it is rolled back unless it is committed.
pub(super) struct Fenced {
    conn: Conn,
    order: Order,
    now: DbTime,
    expires_at: DbTime,
}

impl Fenced {
    /// Begins a transaction and touches the lease.
    ///
    /// Touched means written, and by this holder and epoch before the lease's end: from here on nobody takes it over
    /// before this transaction has ended, and between the nodes of a Galera cluster only one of the two is certified.
    /// The end is judged twice, because a database may judge the condition before it waits for the row.
    pub(super) async fn begin(
        mut conn: Conn,
        (epoch, holder): (Epoch, HolderId),
        offset: i64,
    ) -> Result<Self, Stop> {
        conn.begin().await?;
        match touch(&mut conn, epoch, holder, offset).await {
            Ok((now, expires_at)) => Ok(Self { conn, order: Order::new(), now, expires_at }),
            Err(stop) => {
                give_up(conn, &stop).await;
                Err(stop)
            }
        }
    }

    /// What a person's transaction can do, too.
    pub(super) fn tx(&mut self) -> Tx<'_> {
        Tx { conn: &mut self.conn, order: &mut self.order, now: self.now }
    }

    /// The connection, to take a lock of this level.
    pub(super) fn lock(&mut self, level: Level) -> &mut Conn {
        self.order.reach(level);
        &mut self.conn
    }

    /// The database's time, read under the lease's lock.
    pub(super) fn now(&self) -> DbTime {
        self.now
    }

    /// When the lease ends, as of the touch.
    pub(super) fn expires_at(&self) -> DbTime {
        self.expires_at
    }

    /// The connection, to read, and to write what is locked or new.
    pub(super) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Commits.
    pub(super) async fn commit(self) -> Result<(), Fault> {
        self.conn.commit().await
    }

    /// Rolls back.
    pub(super) async fn give_up(self, why: &Stop) {
        give_up(self.conn, why).await;
    }
}

async fn give_up(conn: Conn, why: &Stop) {
    match why {
        Stop::Fault(fault) => conn.abandon(fault).await,
        Stop::Deposed | Stop::Refused(_) => conn.rollback().await,
    }
}

async fn touch(
    conn: &mut Conn,
    epoch: Epoch,
    holder: HolderId,
    offset: i64,
) -> Result<(DbTime, DbTime), Stop> {
    let engine = conn.engine();
    let update = Query::update()
        .table(LEASE)
        .value("touched", Expr::col("touched").add(1))
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .and_where(Expr::col("holder").eq(holder.0.to_string()))
        .and_where(Expr::col("epoch").eq(number(epoch.0)))
        .and_where(Expr::col("expires_at").gt(engine.now(offset)))
        .take();
    if conn.execute(engine.build(&update)).await? != 1 {
        return Err(Stop::Deposed);
    }
    let select = Query::select()
        .expr(engine.now(offset))
        .column("expires_at")
        .from(LEASE)
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .take();
    let rows = conn.fetch(engine.build(&select), &[Kind::Int, Kind::Int]).await?;
    let row = rows.into_iter().next().ok_or_else(|| Fault::corrupt(format!("{LEASE} has no row")))?;
    let mut row = Reader::new(LEASE, row);
    let (now, expires_at) = (DbTime(row.int()?), DbTime(row.int()?));
    if expires_at > now { Ok((now, expires_at)) } else { Err(Stop::Deposed) }
}

/// A count as its column holds it.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
