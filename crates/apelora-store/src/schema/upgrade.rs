//! Bringing a database up to date, also while another process does the same.

use std::time::Duration;

use super::steps::{self, STEPS, Step};
use super::{adopt, tables};
use crate::engine::{Class, Conn, Fault, Pools, Sql};
use crate::{ConnectError, Engine, chance};

/// How long an upgrade that was killed keeps others from upgrading, by the database's clock. The holder prolongs it
/// before every statement.
const LOCK_SECS: u32 = 60;
/// How often to look whether the lock is free, and how often to look at all: a bit longer than a killed one holds it.
const LOCK_PAUSE: Duration = Duration::from_millis(250);
const LOCK_LOOKS: u32 = 4 * (LOCK_SECS + 30);

/// Makes the steps up to this version that are missing; all of them for `None`. Also used for databases that are
/// current, where it only looks.
pub(crate) async fn upgrade(pools: &Pools, up_to: Option<u32>, database: &str) -> Result<(), ConnectError> {
    let up_to = up_to.unwrap_or(steps::WANTED);
    let mut conn = pools.writer(None).await.map_err(failed)?;
    if conn.engine() == Engine::Sqlite {
        return embedded(conn, up_to, database).await;
    }
    check_server(&mut conn, database).await?;
    if is_made(&mut conn, up_to).await.map_err(failed)? {
        return Ok(());
    }
    adopt::check(&mut conn, database).await.map_err(failed)??;
    prepare(&mut conn).await.map_err(failed)?;
    let me = chance::id();
    for _ in 0..LOCK_LOOKS {
        if is_made(&mut conn, up_to).await.map_err(failed)? {
            return Ok(());
        }
        if take_lock(&mut conn, &me).await.map_err(failed)? {
            let made = server(pools, &mut conn, &me, up_to).await;
            // When this fails, the lock expires by itself.
            let _ = conn.execute(unlock(&me)).await;
            match made {
                Ok(true) => return Ok(()),
                Ok(false) => tracing::warn!("another process took the upgrade over; looking again"),
                Err(fault) => return Err(failed(fault)),
            }
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    Err(ConnectError::Schema(format!(
        "another process has been upgrading the database {database} for too long. Look for it, then run again: \
         apelora db upgrade"
    )))
}

/// On SQLite everything happens in one transaction, which also keeps others out.
async fn embedded(mut conn: Conn, up_to: u32, database: &str) -> Result<(), ConnectError> {
    if is_made(&mut conn, up_to).await.map_err(failed)? {
        return Ok(());
    }
    conn.begin().await.map_err(failed)?;
    adopt::check(&mut conn, database).await.map_err(failed)??;
    let made = async {
        for statement in tables::migration().make(Engine::Sqlite) {
            conn.run_text(statement).await?;
        }
        let found = steps::found(&mut conn).await?.map_or(0, |(version, _)| version);
        for step in missing(found, up_to) {
            make(&mut conn, step).await?;
        }
        Ok(())
    };
    made.await.map_err(failed)?;
    conn.commit().await.map_err(failed)
}

/// On a server each step is made under the lock. `false` when another process took it over.
async fn server(pools: &Pools, lock: &mut Conn, me: &str, up_to: u32) -> Result<bool, Fault> {
    let found = steps::found(lock).await?.map_or(0, |(version, _)| version);
    for step in missing(found, up_to) {
        let mut conn = pools.writer(None).await?;
        match conn.engine() {
            // DDL is part of the transaction here, and so is the lock's row.
            Engine::Postgres => {
                conn.begin().await?;
                if conn.execute(keep_lock(Engine::Postgres, me)).await? == 0 {
                    conn.rollback().await;
                    return Ok(false);
                }
                make(&mut conn, step).await?;
                conn.commit().await?;
            }
            // Each statement commits by itself here.
            engine => {
                for statement in (step.statements)(engine) {
                    if conn.execute(keep_lock(engine, me)).await? == 0 {
                        return Ok(false);
                    }
                    conn.run_text(statement).await?;
                }
                conn.execute(steps::record(engine, step)).await?;
            }
        }
        tracing::info!(version = step.version, step = step.name, "schema step made");
    }
    Ok(true)
}

async fn make(conn: &mut Conn, step: &Step) -> Result<(), Fault> {
    for statement in (step.statements)(conn.engine()) {
        conn.run_text(statement).await?;
    }
    conn.execute(steps::record(conn.engine(), step)).await.map(drop)
}

fn missing(found: u32, up_to: u32) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().filter(move |step| step.version > found && step.version <= up_to)
}

async fn is_made(conn: &mut Conn, up_to: u32) -> Result<bool, Fault> {
    Ok(steps::found(conn).await?.is_some_and(|(found, _)| found >= up_to))
}

/// Makes the two tables that an upgrade itself needs. Two processes at once may collide in that, on PostgreSQL even
/// with IF NOT EXISTS; the second try finds them.
async fn prepare(conn: &mut Conn) -> Result<(), Fault> {
    let engine = conn.engine();
    let mut statements: Vec<String> =
        [tables::migration(), tables::migration_lock()].iter().flat_map(|t| t.make(engine)).collect();
    statements.push(format!(
        "INSERT INTO apelora_migration_lock (id, holder, expires_at) SELECT 1, '', {} \
         WHERE NOT EXISTS (SELECT 1 FROM apelora_migration_lock WHERE id = 1)",
        steps::database_time(engine, 0),
    ));
    for statement in statements {
        let mut tries = 0;
        while let Err(fault) = conn.run_text(statement.clone()).await {
            tries += 1;
            if tries == 5 || fault.class == Class::Connection {
                return Err(fault);
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }
    Ok(())
}

async fn take_lock(conn: &mut Conn, me: &str) -> Result<bool, Fault> {
    let engine = conn.engine();
    let (now, until) = (steps::database_time(engine, 0), steps::database_time(engine, LOCK_SECS));
    let sql = Sql::plain(format!(
        "UPDATE apelora_migration_lock SET holder = '{me}', expires_at = {until} \
         WHERE id = 1 AND (holder = '' OR expires_at < {now})"
    ));
    match conn.execute(sql).await {
        Ok(rows) => Ok(rows == 1),
        // Another process holds the row while it makes a step.
        Err(fault) if fault.class == Class::LockWait => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn keep_lock(engine: Engine, me: &str) -> Sql {
    Sql::plain(format!(
        "UPDATE apelora_migration_lock SET expires_at = {} WHERE id = 1 AND holder = '{me}'",
        steps::database_time(engine, LOCK_SECS),
    ))
}

fn unlock(me: &str) -> Sql {
    Sql::plain(format!("UPDATE apelora_migration_lock SET holder = '' WHERE id = 1 AND holder = '{me}'"))
}

/// Refuses a server that cannot keep every text exactly.
async fn check_server(conn: &mut Conn, database: &str) -> Result<(), ConnectError> {
    let (sql, good, problem) = match conn.engine() {
        Engine::Postgres => (
            "SELECT pg_encoding_to_char(encoding)::text FROM pg_database WHERE datname = current_database()",
            "UTF8",
            "has another encoding than UTF8. Make it with ENCODING 'UTF8'",
        ),
        Engine::MariaDb => {
            ("SELECT VERSION()", "MariaDB", "is not served by MariaDB. Use MariaDB, PostgreSQL or SQLite")
        }
        Engine::Sqlite => return Ok(()),
    };
    let rows = conn.fetch(Sql::plain(sql), &[crate::Kind::Text]).await.map_err(failed)?;
    let is_good = rows
        .first()
        .and_then(|row| row.first())
        .is_some_and(|cell| matches!(cell, crate::Cell::Text(text) if text.contains(good)));
    if is_good { Ok(()) } else { Err(ConnectError::Schema(format!("the database {database} {problem}"))) }
}

fn failed(fault: Fault) -> ConnectError {
    ConnectError::Failed(fault.into_cause())
}
