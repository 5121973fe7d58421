//! What the demo's terminal tells: what happens, as the worker says it, and what is written down about it.

use std::io::{self, Write as _};
use std::time::Duration;

use apelora_store::{AuditQuery, AuditRecord, Store};
use time::PrimitiveDateTime;
use time::macros::format_description;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::printable::printable;

/// How often the audit trail is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Rows of the audit trail that are read at once.
const ROWS: u32 = 100;
/// What is written down without anything having happened to a server: the regular looks at management controllers.
const ROUTINE: &str = "cluster.bmc.checked";

/// The trail from here on: rows up to this one were there before the story began.
pub(crate) struct Trail {
    store: Store,
    after: Option<i64>,
}

impl Trail {
    /// From the end of the trail as it is now.
    pub(crate) async fn from_now(store: Store) -> Self {
        let mut this = Self { store, after: None };
        while !this.more().await.is_empty() {}
        this
    }

    /// The rows that came since the last time.
    async fn more(&mut self) -> Vec<AuditRecord> {
        let query = AuditQuery { after: self.after, limit: ROWS, ..AuditQuery::default() };
        // A busy database is asked again soon.
        let rows = self.store.audit(&query).await.unwrap_or_default();
        self.after = rows.last().map(|row| row.seq).or(self.after);
        rows
    }
}

/// Tells what the worker says, what was done to the servers, and what is written down about it, until the worker has
/// nothing to say any more.
pub(crate) async fn tell<S: ToString>(
    mut said: UnboundedReceiver<S>,
    mut done: UnboundedReceiver<String>,
    mut trail: Trail,
    now: fn() -> PrimitiveDateTime,
) {
    let mut due = tokio::time::interval(LOOK_EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            sentence = said.recv() => match sentence {
                Some(sentence) => print(&line(now(), &sentence.to_string())),
                None => return,
            },
            Some(deed) = done.recv() => print(&line(now(), &deed)),
            _ = due.tick() => {
                for row in trail.more().await {
                    if row.action != ROUTINE || row.outcome != "success" {
                        print(&line(now(), &written(&row)));
                    }
                }
            }
        }
    }
}

/// A line of the story.
fn line(at: PrimitiveDateTime, sentence: &str) -> String {
    let clock = at.format(format_description!("[hour]:[minute]:[second]")).unwrap_or_default();
    format!("{clock}  {}", printable(sentence))
}

/// A row of the audit trail as a part of a line.
fn written(row: &AuditRecord) -> String {
    let who = row.member.as_deref().or(row.node_name.as_deref()).unwrap_or("-");
    let reason = row.reason_code.as_deref().map_or_else(String::new, |code| format!("/{code}"));
    format!("  audit: {} of {who}, {}{reason}: {}", row.action, row.outcome, row.summary)
}

fn print(line: &str) {
    // Nobody to tell when the output is closed.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn a_line_has_the_time_and_steers_no_terminal() {
        let at = datetime!(2026-03-01 04:05:06);
        assert_eq!(line(at, "s3 is \u{1b}[2JOffline."), r"04:05:06  s3 is \u{1b}[2JOffline.");
    }

    #[test]
    fn what_is_written_down_is_told_with_action_outcome_and_reason() {
        let row = AuditRecord {
            seq: 1,
            uuid: "u".to_owned(),
            at: datetime!(2026-03-01 04:05:06),
            user: "conductor".to_owned(),
            project: String::new(),
            scope: String::new(),
            epoch: Some(1),
            action: "cluster.member.power_off".to_owned(),
            outcome: "success".to_owned(),
            reason_code: Some("powered_off".to_owned()),
            node_uuid: None,
            node_name: None,
            member: Some("s3".to_owned()),
            hardware_uuid: None,
            summary: "It reads Off.".to_owned(),
            evidence: "{}".to_owned(),
        };
        assert_eq!(
            written(&row),
            "  audit: cluster.member.power_off of s3, success/powered_off: It reads Off."
        );
        let node = AuditRecord { member: None, reason_code: None, node_name: Some("n".to_owned()), ..row };
        assert_eq!(written(&node), "  audit: cluster.member.power_off of n, success: It reads Off.");
    }
}
