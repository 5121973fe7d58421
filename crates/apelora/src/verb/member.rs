//! `apelora member list|show`, `bmc trust` and `fence explain`.

use std::ffi::OsString;

use apelora_client::{
    Check, FenceRecord, Guard, Instance, Leader, MapEntry, Member, MemberDetail, Members, StoredProof,
};
use serde_json::{Value, json};

use super::{confirm, remote};
use crate::cli::{self, ExplainMember, ShowMember, TrustBmc};
use crate::failure::Failure;
use crate::output::{Format, columns, print, raw};
use crate::printable::{printable, printable_json, second};
use crate::table::{Fit, Table, fields, hanging};

type Environment = Vec<(OsString, OsString)>;

pub(super) fn run(verb: cli::Member, environment: Environment) -> Result<(), Failure> {
    match verb {
        cli::Member::List(remote) => list(remote, environment),
        cli::Member::Show(options) => show(options, environment),
        cli::Member::ConfirmOff(options) => confirm::run(options, environment),
    }
}

fn list(remote: cli::Remote, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(remote, environment)?;
    let members = remote::wait(client.members())?;
    print(format, &listed(&members.known), &members.json)
}

fn listed(of: &Members) -> String {
    let mut table = Table::new(&[
        ("Member", Fit::Whole),
        ("Status", Fit::Whole),
        ("Life", Fit::Whole),
        ("Fenced", Fit::Whole),
        ("Verdict", Fit::Cut),
        ("BMC", Fit::Whole),
        ("Last check", Fit::Cut),
        ("Instances", Fit::Cut),
    ]);
    for member in &of.members {
        table.row([
            Some(member.name.as_str()),
            Some(&status(member)),
            Some(&member.incarnation.to_string()),
            Some(&fenced(member)),
            Some(&verdict(member)),
            member.provider.as_deref(),
            member.check.as_ref().map(check).as_deref(),
            Some(&instances(member)),
        ]);
    }
    let mut text = above(&of.leader);
    if let Some(map) = &of.map {
        let odd = map.problem.iter().chain(&map.warnings);
        text.extend(odd.map(|line| format!("BMC map: {}\n", printable(line))));
        if map.condition == "none" {
            text.push_str("There is no BMC map: nothing is ever switched off.\n");
        }
    }
    text.push_str(&table.text(columns()));
    text
}

/// Who leads, and how old what follows is.
fn above(leader: &Leader) -> String {
    format!("{}\n", printable(&leader.sentence))
}

/// What the cluster says now; what it said last is shown as such.
pub(super) fn status(member: &Member) -> String {
    let last = member.last_judged.as_ref();
    match (&member.status, last) {
        (Some(now), _) => now.clone(),
        (None, Some(last)) => match &last.status {
            Some(word) => format!("? (was {word} {})", ago(last.age_secs)),
            None => "not listed".to_owned(),
        },
        (None, None) => "?".to_owned(),
    }
}

fn fenced(member: &Member) -> String {
    match &member.proof {
        Some(proof) if member.fenced => format!("{}, {}", proof.kind, ago(proof.age_secs)),
        _ => "no".to_owned(),
    }
}

fn verdict(member: &Member) -> String {
    let mut words = Vec::new();
    if let Some(open) = &member.in_progress {
        words.push(format!("being switched off ({})", open.status));
    }
    if member.distrusted {
        words.push("distrusted".to_owned());
    }
    if member.held {
        words.push("held".to_owned());
    }
    match (&member.action, &member.last_judged) {
        (Some(action), Some(judged)) if judged.reasons.is_empty() => words.push(action.clone()),
        (Some(action), Some(judged)) => words.push(format!("{action}: {}", judged.reasons.join(", "))),
        (None, Some(judged)) => {
            words.push(format!("not known (was {} {})", judged.action, ago(judged.age_secs)));
        }
        _ => words.push("not known".to_owned()),
    }
    words.join("; ")
}

fn instances(member: &Member) -> String {
    let counts = member.instances;
    let parts = [(counts.restart, "restart"), (counts.moved, "move"), (counts.stay, "stay")];
    let shown = parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// The latest reading of a BMC in idle time, in few words.
pub(super) fn check(of: &Check) -> String {
    match &of.reason {
        None => format!("good, {}", ago(of.age_secs)),
        Some(reason) => format!("{}, {}", reason.code, ago(of.age_secs)),
    }
}

/// An age in words.
pub(super) fn ago(secs: f64) -> String {
    // An age is no longer than a life.
    let secs = secs.max(0.0) as u64;
    match secs {
        0..120 => format!("{secs} s ago"),
        120..7_200 => format!("{} min ago", secs / 60),
        7_200..172_800 => format!("{} h ago", secs / 3_600),
        _ => format!("{} days ago", secs / 86_400),
    }
}

fn show(options: ShowMember, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let detail = remote::wait(client.member(&options.member))?;
    print(format, &shown(&detail.known), &detail.json)
}

fn shown(of: &MemberDetail) -> String {
    let member = &of.member;
    let yes = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
    let mut text = above(&of.leader);
    text.push_str(&fields(
        [
            ("member", member.name.clone()),
            ("status", status(member)),
            ("verdict", verdict(member)),
            (
                "sentence",
                member.last_judged.as_ref().map(|judged| judged.sentence.clone()).unwrap_or_default(),
            ),
            ("incarnation", member.incarnation.to_string()),
            ("last Online", member.last_online_secs.map(ago).unwrap_or_default()),
            ("fenced", fenced(member)),
            ("held", yes(member.held)),
            ("distrusted", yes(member.distrusted)),
            ("BMC", of.mapped.as_ref().map(mapped).unwrap_or_default()),
            ("last check", member.check.as_ref().map(whole_check).unwrap_or_default()),
            ("node", of.node_uuid.clone().unwrap_or_default()),
        ],
        columns(),
    ));
    section(&mut text, "Guards", &guards(&of.guards));
    if !of.proofs.is_empty() {
        section(&mut text, "Proofs", &proofs(&of.proofs));
    }
    for record in &of.records {
        section(&mut text, &format!("Record {}", printable(&record.id)), &one_record(record));
    }
    if !of.instances.is_empty() {
        section(&mut text, "Instances", &instance_table(&of.instances));
    }
    text
}

fn section(text: &mut String, heading: &str, body: &str) {
    text.push_str(&format!("\n\n{heading}\n{body}"));
}

fn mapped(entry: &MapEntry) -> String {
    let uuid = entry.uuid.as_deref().unwrap_or("no UUID");
    format!("{} at {} ({uuid}; {})", entry.provider, entry.target, entry.secrets.join(", "))
}

fn whole_check(of: &Check) -> String {
    let remedy = of.reason.as_ref().and_then(|reason| reason.remedy.clone()).unwrap_or_default();
    format!("{}: {} {remedy}", check(of), of.detail).trim_end().to_owned()
}

fn proofs(of: &[StoredProof]) -> String {
    let mut table = Table::new(&[
        ("When", Fit::Whole),
        ("Proof", Fit::Whole),
        ("Life", Fit::Whole),
        ("Evidence", Fit::Wrap),
    ]);
    for proof in of {
        let kind = match &proof.voided {
            None => proof.kind.clone(),
            Some(why) => format!("{} ({why})", proof.kind),
        };
        let evidence = proof.evidence.as_ref().map(flat);
        table.row([
            Some(second(&proof.at).as_str()),
            Some(&kind),
            Some(&proof.incarnation.to_string()),
            evidence.as_deref(),
        ]);
    }
    table.text(columns())
}

/// What stands in a document, as one line of names with values.
fn flat(of: &Value) -> String {
    match of {
        Value::Object(members) => {
            let parts = members.iter().map(|(name, value)| match value {
                Value::Object(_) => format!("{name} ({})", flat(value)),
                Value::String(at) if name.ends_with("_at") => format!("{name} {}", second(at)),
                _ => format!("{name} {}", flat(value)),
            });
            parts.collect::<Vec<_>>().join(", ")
        }
        Value::Array(values) => values.iter().map(flat).collect::<Vec<_>>().join("; "),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn one_record(of: &FenceRecord) -> String {
    let reason = of.reason.as_ref().map(|reason| {
        let sentence = reason.sentence.as_deref().unwrap_or_default();
        format!("{}: {sentence} {}", reason.code, reason.remedy.as_deref().unwrap_or_default())
    });
    let mut text = fields(
        [
            ("status", of.status.clone()),
            ("reason", reason.unwrap_or_default()),
            (
                "sent",
                match of.sent {
                    Some(true) => "a power-off was, or may have been, sent",
                    Some(false) => "nothing",
                    None => "",
                }
                .to_owned(),
            ),
            ("BMC", format!("{} at {}", of.provider, of.target)),
            ("began", second(&of.intent_at)),
            ("ended", of.final_at.as_deref().map(second).unwrap_or_default()),
        ],
        columns(),
    );
    if let Some(evidence) = of.evidence.as_ref().filter(|evidence| !evidence.is_empty()) {
        let mut table = Table::new(&[
            ("After", Fit::Whole),
            ("What", Fit::Whole),
            ("Outcome", Fit::Whole),
            ("Detail", Fit::Wrap),
        ]);
        for seen in evidence {
            table.row([
                Some(format!("{:.1} s", seen.offset_secs).as_str()),
                Some(&seen.kind),
                Some(&seen.outcome),
                Some(&seen.detail),
            ]);
        }
        text.push('\n');
        text.push_str(&table.text(columns()));
    }
    text
}

fn instance_table(of: &[Instance]) -> String {
    let mut table = Table::new(&[
        ("Project", Fit::Cut),
        ("Instance", Fit::Whole),
        ("Plan", Fit::Whole),
        ("Target", Fit::Whole),
        ("Restart", Fit::Whole),
        ("Why, or how far", Fit::Wrap),
    ]);
    for instance in of {
        let recovery = instance.recovery.as_ref();
        let words = recovery.map(|recovery| recovery.detail.as_str()).filter(|detail| !detail.is_empty());
        table.row([
            Some(instance.project.as_str()),
            Some(&instance.name),
            instance.plan.as_deref(),
            recovery.and_then(|recovery| recovery.target.as_deref()).or(instance.target.as_deref()),
            recovery.map(|recovery| recovery.step.as_str()),
            Some(words.unwrap_or(&instance.sentence)),
        ]);
    }
    table.text(columns())
}

/// `bmc trust`.
pub(super) fn trust(options: TrustBmc, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let trusted = remote::wait(client.trust(&options.member, &options.reason))?;
    let sentence = if trusted.known.was_distrusted {
        format!("The BMC of {} is trusted again.", options.member)
    } else {
        format!("The BMC of {} was not distrusted; nothing was changed.", options.member)
    };
    remote::done(format, &sentence, &trusted.json)
}

/// `fence explain`.
pub(super) fn explain(options: ExplainMember, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let explained = remote::wait(client.explain(&options.member))?;
    let known = &explained.known;
    if options.world {
        let Some(world) = &known.world else {
            return Err(Failure::Failed(format!(
                "nothing was judged yet: {}",
                printable(&known.leader.sentence)
            )));
        };
        return raw(&format!("{}\n", printable_json(&world.to_string())));
    }
    if format == Format::Json {
        return print(format, "", &explained.json);
    }
    let mut text = above(&known.leader);
    match &known.judged {
        None => text.push_str("Nothing was decided about this member yet."),
        Some(judged) => text.push_str(&fields(
            [
                ("member", known.member.clone()),
                ("judged", ago(judged.age_secs)),
                ("status", judged.status.clone().unwrap_or_else(|| "not listed".to_owned())),
                ("action", judged.action.clone()),
                ("because", judged.sentence.clone()),
            ],
            columns(),
        )),
    }
    if !known.guards.is_empty() {
        section(&mut text, "Guards", &guards(&known.guards));
    }
    print(format, &text, &json!(null))
}

/// Every guard with its whole sentence, and below it the reason code and what to do: nothing is cut here.
fn guards(of: &[Guard]) -> String {
    let widest = of.iter().map(|guard| guard.guard.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for guard in of {
        let mark = if guard.holds { "yes" } else { "NO " };
        let name = printable(&guard.guard);
        lines.push(hanging(&format!("{mark}  {name:<widest$}  "), &guard.sentence, columns()));
        if let Some(reason) = &guard.reason {
            let remedy = format!("{reason}: {}", guard.remedy.as_deref().unwrap_or_default());
            lines.push(hanging(&format!("     {:<widest$}  ", ""), &remedy, columns()));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use apelora_fencing::ReasonCode;

    use super::*;

    #[test]
    fn ages_are_told_in_the_unit_that_fits() {
        for (secs, text) in [
            (-1.0, "0 s ago"),
            (0.4, "0 s ago"),
            (119.9, "119 s ago"),
            (120.0, "2 min ago"),
            (7_200.0, "2 h ago"),
            (172_800.0, "2 days ago"),
        ] {
            assert_eq!(ago(secs), text);
        }
    }

    #[test]
    fn every_reason_is_explained_with_its_sentence_and_its_remedy() {
        for reason in ReasonCode::ALL {
            let guard = Guard {
                guard: "offline".to_owned(),
                holds: false,
                reason: Some(reason.as_str().to_owned()),
                sentence: reason.sentence().to_owned(),
                remedy: Some(reason.remedy().to_owned()),
            };
            let text = guards(&[guard]);
            for part in [reason.as_str(), reason.sentence(), reason.remedy()] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
