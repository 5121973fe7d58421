//! The tables of the leader: its lease, what it saw, its records and proofs, what it tells. Times in them are
//! microseconds since 1970 by the database's clock ([`crate::engine::DbTime`]).
//!
//! Source: tests/data/fencing/README.md section 7 and lease.md section 1.

use super::table::{Column, RowNumber, Table};
use crate::Engine;
use crate::column::SqlType::{BigInt, Bool, Int, LongText, Text, Varchar};

/// The one row that says who leads.
pub(crate) const LEASE_NAME: &str = "supervisor";

/// A row number that is never given twice.
const SEQ: Option<RowNumber> = Some(RowNumber { name: "seq", wide: true, never_again: true });

/// A table that refers to no other one.
fn table(name: &'static str, columns: Vec<Column>) -> Table {
    Table { name, key: None, columns, primary_key: None, unique: &[], foreign_key: None, indexes: &[] }
}

/// Every table of this step and the rows that are always there.
pub(super) fn step(engine: Engine) -> Vec<String> {
    let tables = [
        leader_lease(),
        member(),
        proof(),
        fence_record(),
        fence_evidence(),
        bmc_check(),
        leader_status(),
        recovery(),
        inventory(),
        history_gap(),
    ];
    let mut statements: Vec<String> = tables.iter().flat_map(|t| t.make(engine)).collect();
    // Never deleted: an epoch that began again at 1 would let an old leader write.
    statements.push(once(
        "apelora_leader_lease",
        "name, epoch, expires_at, renewed_at, touched, host",
        &format!("'{LEASE_NAME}', 0, 0, 0, 0, ''"),
    ));
    statements.push(once("apelora_leader_status", "id, holder, epoch, at, document", "1, '', 0, 0, ''"));
    statements.push(once("apelora_history_gap", "id", "1"));
    statements
}

fn once(table: &str, columns: &str, values: &str) -> String {
    format!("INSERT INTO {table} ({columns}) SELECT {values} WHERE NOT EXISTS (SELECT 1 FROM {table})")
}

fn leader_lease() -> Table {
    let columns = vec![
        Column::new("name", Varchar(64)),
        // Of one start of one process; never a host name.
        Column::nullable("holder", Varchar(36)),
        Column::new("epoch", BigInt),
        Column::new("expires_at", BigInt),
        Column::new("renewed_at", BigInt),
        Column::new("touched", BigInt),
        Column::new("host", Varchar(255)),
    ];
    Table { primary_key: Some("name"), ..table("apelora_leader_lease", columns) }
}

fn member() -> Table {
    let columns = vec![
        Column::new("member", Varchar(255)),
        Column::new("incarnation", BigInt),
        Column::new("online", Bool),
        Column::nullable("last_online_at", BigInt),
        // Its storage leases while it was Online: a JSON array.
        Column::nullable("leases", Text),
        Column::new("distrusted", Bool),
        // The fault entry on its node: which life it is for, what it names, and what is still to be done.
        Column::nullable("fault_incarnation", BigInt),
        Column::nullable("fault_ref", Varchar(36)),
        Column::nullable("fault_state", Varchar(16)),
        Column::new("touched", BigInt),
    ];
    Table { primary_key: Some("member"), ..table("apelora_member", columns) }
}

fn proof() -> Table {
    let columns = vec![
        Column::new("id", Varchar(36)),
        Column::new("member", Varchar(255)),
        Column::new("incarnation", BigInt),
        Column::new("kind", Varchar(16)),
        Column::nullable("record_id", Varchar(36)),
        Column::new("evidence", LongText),
        Column::new("at", BigInt),
        Column::new("recovery_started", Bool),
        Column::nullable("voided_at", BigInt),
        Column::nullable("voided", Varchar(16)),
        // 1 while it is the member's latest that is not void, else null: at most one for each member.
        Column::nullable("latest", Int),
    ];
    Table {
        key: SEQ,
        unique: &[
            ("uniq_apelora_proof0id", &["id"]),
            ("uniq_apelora_proof0member0latest", &["member", "latest"]),
        ],
        ..table("apelora_proof", columns)
    }
}

fn fence_record() -> Table {
    let columns = vec![
        Column::new("id", Varchar(36)),
        Column::new("member", Varchar(255)),
        Column::nullable("hardware_uuid", Varchar(36)),
        Column::new("incarnation", BigInt),
        Column::new("status", Varchar(16)),
        Column::nullable("reason_code", Varchar(64)),
        Column::nullable("sent", Bool),
        Column::new("provider", Varchar(16)),
        Column::new("target", Text),
        Column::new("mapping_sha256", Varchar(64)),
        Column::new("offline_ms", BigInt),
        Column::new("members_total", BigInt),
        Column::new("members_offline", BigInt),
        Column::new("lease_remaining_ms", BigInt),
        Column::new("incus_responder", Varchar(255)),
        Column::nullable("incus_second", Varchar(255)),
        Column::nullable("last_online_at", BigInt),
        Column::nullable("last_power_off_at", BigInt),
        Column::new("epoch", BigInt),
        Column::new("holder", Varchar(36)),
        Column::nullable("adopted_epoch", BigInt),
        Column::nullable("adopted_holder", Varchar(36)),
        Column::new("intent_at", BigInt),
        Column::nullable("adopted_at", BigInt),
        Column::nullable("permit_at", BigInt),
        // As `permit_at`, but null again once it is known that nothing was sent: what the loop guard counts.
        Column::nullable("send_at", BigInt),
        Column::nullable("first_off_at", BigInt),
        Column::nullable("final_at", BigInt),
        Column::new("off_readings", BigInt),
        Column::new("other_readings", BigInt),
        // 1 while open, else null: at most one in the cluster, whatever the code does.
        Column::nullable("open_slot", Int),
        Column::new("touched", BigInt),
    ];
    Table {
        key: SEQ,
        unique: &[
            ("uniq_apelora_fence_record0id", &["id"]),
            ("uniq_apelora_fence_record0open_slot", &["open_slot"]),
        ],
        indexes: &[
            ("apelora_fence_record_member_idx", &["member"]),
            ("apelora_fence_record_send_at_idx", &["send_at"]),
        ],
        ..table("apelora_fence_record", columns)
    }
}

fn fence_evidence() -> Table {
    let columns = vec![
        Column::new("record_id", Varchar(36)),
        // Its place in the record.
        Column::new("number", BigInt),
        Column::new("kind", Varchar(16)),
        Column::new("at", BigInt),
        Column::new("offset_ms", BigInt),
        Column::new("provider", Varchar(16)),
        Column::new("outcome", Varchar(64)),
        Column::new("detail", Text),
    ];
    Table {
        key: SEQ,
        unique: &[("uniq_apelora_fence_evidence0record_id0number", &["record_id", "number"])],
        ..table("apelora_fence_evidence", columns)
    }
}

fn bmc_check() -> Table {
    let columns = vec![
        Column::new("member", Varchar(255)),
        Column::new("found", Varchar(16)),
        Column::nullable("reason_code", Varchar(64)),
        Column::new("at", BigInt),
    ];
    Table { primary_key: Some("member"), ..table("apelora_bmc_check", columns) }
}

fn leader_status() -> Table {
    let columns = vec![
        Column::new("id", Int),
        Column::new("holder", Varchar(36)),
        Column::new("epoch", BigInt),
        Column::new("at", BigInt),
        Column::new("document", LongText),
    ];
    Table { primary_key: Some("id"), ..table("apelora_leader_status", columns) }
}

fn recovery() -> Table {
    let columns = vec![
        // Follows from the next four, which are too wide for a key on every engine.
        Column::new("id", Varchar(36)),
        Column::new("member", Varchar(255)),
        Column::new("incarnation", BigInt),
        Column::new("project", Varchar(255)),
        Column::new("instance", Varchar(255)),
        Column::nullable("target", Varchar(255)),
        Column::new("start", Bool),
        Column::new("step", Varchar(16)),
        Column::new("attempts", BigInt),
        Column::new("detail", Text),
        Column::new("created_at", BigInt),
        Column::new("updated_at", BigInt),
    ];
    Table {
        key: SEQ,
        unique: &[("uniq_apelora_recovery0id", &["id"])],
        indexes: &[("apelora_recovery_member_idx", &["member"])],
        ..table("apelora_recovery", columns)
    }
}

fn inventory() -> Table {
    let columns = vec![
        Column::new("member", Varchar(255)),
        // A JSON array.
        Column::new("instances", LongText),
        Column::new("at", BigInt),
    ];
    Table { primary_key: Some("member"), ..table("apelora_inventory", columns) }
}

fn history_gap() -> Table {
    let columns = vec![Column::new("id", Int), Column::nullable("at", BigInt)];
    Table { primary_key: Some("id"), ..table("apelora_history_gap", columns) }
}
