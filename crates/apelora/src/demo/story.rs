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
/// What the worker has said by itself in the line before: the trail repeats none of its words.
const SAID: [&str; 6] = [
    "cluster.member.power_off",
    "cluster.member.fenced",
    "cluster.member.recovered",
    "cluster.member.returned",
    "cluster.member.proof_withdrawn",
    "cluster.bmc.distrusted",
];

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
                for words in written(&trail.more().await) {
                    print(&line(now(), &words));
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

/// Rows of the audit trail as parts of lines; those that say the same share one.
fn written(rows: &[AuditRecord]) -> Vec<String> {
    let news = rows.iter().filter(|row| row.action != ROUTINE || row.outcome != "success");
    let mut lines: Vec<(String, usize)> = Vec::new();
    for words in news.map(words) {
        match lines.last_mut() {
            Some((last, count)) if *last == words => *count += 1,
            _ => lines.push((words, 1)),
        }
    }
    let times = |(words, count)| if count == 1 { words } else { format!("{words} ({count} times)") };
    lines.into_iter().map(times).collect()
}

fn words(row: &AuditRecord) -> String {
    let who = row.member.as_deref().or(row.node_name.as_deref()).unwrap_or("-");
    let reason = row.reason_code.as_deref().map_or_else(String::new, |code| format!("/{code}"));
    let said = SAID.contains(&row.action.as_str());
    let summary = if said { String::new() } else { format!(": {}", row.summary) };
    format!("  audit: {} of {who}, {}{reason}{summary}", row.action, row.outcome)
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
        assert_eq!(words(&row), "  audit: cluster.member.power_off of s3, success/powered_off");
        let node = AuditRecord {
            action: "maintenance.asserted".to_owned(),
            member: None,
            reason_code: None,
            node_name: Some("n".to_owned()),
            ..row.clone()
        };
        assert_eq!(words(&node), "  audit: maintenance.asserted of n, success: It reads Off.");

        let checked = AuditRecord { action: ROUTINE.to_owned(), ..row.clone() };
        let failing = AuditRecord { outcome: "failed".to_owned(), ..checked.clone() };
        let told = written(&[row.clone(), row, checked, failing, node]);
        assert!(told[0].ends_with("success/powered_off (2 times)"), "{told:?}");
        assert!(told[1].contains("failed/powered_off: It reads Off."), "{told:?}");
        assert_eq!(told.len(), 3, "{told:?}");
    }
}
