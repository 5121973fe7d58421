//! Decisions made again from stored worlds: JSON in, one JSON line for each world out.
//!
//! Two forms are read. A *snapshot* is a [`World`] as it is stored with each decision. A *case* is one of
//! `guard-vectors.json`: an object with `input`, or the whole file, an object with `cases`. A document may span
//! several lines.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::decide::{Decision, Verdict, decide};
use crate::limits::Limits;
use crate::name::MemberName;
use crate::reason::ReasonCode;
use crate::record::ProofKind;
use crate::view::{Healing, Status};
use crate::world::{LeaseFacts, MemberFacts, ViewFacts, World};

/// A document that spans several lines may have this many bytes.
const MOST_BYTES: usize = 4 << 20;

/// Why a replay ended early.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// Reading or writing failed.
    #[error("line {line}: {source}")]
    Io {
        /// Where.
        line: usize,
        /// What.
        source: io::Error,
    },
    /// A document is not of either form.
    #[error("line {line}, field `{field}`: {problem}")]
    Document {
        /// The line on which it begins.
        line: usize,
        /// The path to the field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A document is larger than is read.
    #[error("line {line}: the document is larger than {MOST_BYTES} bytes; give one snapshot a line")]
    TooLarge {
        /// The line on which it begins.
        line: usize,
    },
}

/// How many documents were read and how many decided to switch off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Worlds decided on.
    pub worlds: usize,
    /// Worlds in which some member may be switched off.
    pub intents: usize,
}

/// A case of `guard-vectors.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows.
    pub name: Option<String>,
    /// The situation.
    pub input: CaseInput,
    /// What is expected; not looked at here.
    #[serde(default)]
    pub expect: Option<Expected>,
}

/// What a case expects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// `intent` or `refuse`.
    pub action: String,
    /// Every reason.
    pub reasons: Vec<ReasonCode>,
}

/// The situation of a case: one candidate, durations in seconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are named and explained by guard-vectors.json")]
pub struct CaseInput {
    pub members: Vec<CaseMember>,
    pub candidate: MemberName,
    pub offline_for_s: f64,
    pub fence_after_s: f64,
    pub open_record_for: Option<MemberName>,
    pub last_send_age_s: Option<f64>,
    pub online_after_last_send: bool,
    pub lease_held: bool,
    pub lease_remaining_s: f64,
    pub send_deadline_s: f64,
    pub margin_s: f64,
    pub mapping_valid: bool,
    pub mapped: bool,
    pub own_host: bool,
    pub person_confirmed: bool,
    pub standing_proof: bool,
    pub hold: bool,
    pub ever_online: bool,
    pub responder_online: bool,
    pub second_view_agrees: bool,
}

/// One line of a case's member list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are named and explained by guard-vectors.json")]
pub struct CaseMember {
    pub name: MemberName,
    pub status: Status,
}

/// A number of a case that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{field}` is not a number of seconds")]
pub struct NotSeconds {
    /// The field.
    pub field: &'static str,
}

impl CaseInput {
    /// The world and the limits of this case.
    ///
    /// # Errors
    /// Names a field that is no duration.
    pub fn world(&self) -> Result<(World, Limits), NotSeconds> {
        // Cut to milliseconds: never longer than what was given.
        let time = |field, s: f64| {
            let whole = Duration::try_from_secs_f64(s).map_err(|_| NotSeconds { field })?;
            Ok(Duration::from_millis(u64::try_from(whole.as_millis()).map_err(|_| NotSeconds { field })?))
        };
        let last_send = self.last_send_age_s.map(|s| time("last_send_age_s", s)).transpose()?;
        let proof = match (self.person_confirmed, self.standing_proof) {
            (true, _) => Some(ProofKind::Person),
            (false, true) => Some(ProofKind::PowerOff),
            (false, false) => None,
        };
        let mut members: Vec<_> =
            self.members.iter().map(|m| MemberFacts::new(m.name.clone(), Some(m.status.clone()))).collect();
        if !members.iter().any(|m| m.name == self.candidate) {
            members.push(MemberFacts::new(self.candidate.clone(), None));
        }
        let offline_for = time("offline_for_s", self.offline_for_s)?;
        for facts in members.iter_mut().filter(|m| m.name == self.candidate) {
            facts.offline_for = Some(offline_for);
            facts.second_view_agrees = self.second_view_agrees;
            facts.mapped = self.mapped;
            facts.own_host = self.own_host;
            facts.ever_online = self.ever_online;
            facts.proof = proof;
            facts.held = self.hold;
            facts.last_send = last_send;
            facts.online_since_send = self.online_after_last_send;
        }
        let world = World {
            fence_after: time("fence_after_s", self.fence_after_s)?,
            view: ViewFacts {
                readable: true,
                responder_online: self.responder_online,
                leader_online: true,
                healing: Healing::Off,
            },
            lease: LeaseFacts {
                held: self.lease_held,
                remaining: time("lease_remaining_s", self.lease_remaining_s)?,
            },
            mapping_valid: self.mapping_valid,
            open: self.open_record_for.clone(),
            history_gap: None,
            failure_domain_rule: false,
            single_view: false,
            members,
        };
        let limits = Limits {
            send_deadline: time("send_deadline_s", self.send_deadline_s)?,
            lease_margin: time("margin_s", self.margin_s)?,
            ..Limits::PRODUCTION
        };
        Ok((world, limits))
    }
}

#[derive(Serialize)]
struct Line<'a> {
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    intent: Option<&'a MemberName>,
    members: Vec<MemberLine<'a>>,
}

#[derive(Serialize)]
struct MemberLine<'a> {
    member: &'a MemberName,
    action: &'static str,
    reasons: Vec<&'static str>,
    sentence: String,
    guards: Vec<GuardLine>,
}

#[derive(Serialize)]
struct GuardLine {
    guard: &'static str,
    holds: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    sentence: String,
}

impl<'a> MemberLine<'a> {
    fn of(verdict: &'a Verdict) -> Self {
        let mut reasons: Vec<_> = verdict.reasons().into_iter().map(ReasonCode::as_str).collect();
        reasons.sort_unstable();
        let guards = verdict.findings.iter().map(|f| GuardLine {
            guard: f.guard.as_str(),
            holds: f.holds(),
            reason: f.refusal.map(ReasonCode::as_str),
            sentence: f.to_string(),
        });
        Self {
            member: &verdict.member,
            action: verdict.action.as_str(),
            reasons,
            sentence: verdict.sentence(),
            guards: guards.collect(),
        }
    }
}

/// Reads worlds, decides on each and writes one JSON line for each.
///
/// # Errors
/// The first document that is not of either form, naming line and field; what was decided before it is written.
pub fn replay(input: impl BufRead, output: impl Write) -> Result<Replayed, ReplayError> {
    let mut replay = Replay { output, done: Replayed::default() };
    let mut document = String::new();
    let mut begins = 1;
    for (i, text) in input.lines().enumerate() {
        let line = i + 1;
        let text = text.map_err(|source| ReplayError::Io { line, source })?;
        if document.is_empty() {
            begins = line;
        }
        document.push_str(&text);
        document.push('\n');
        if document.trim().is_empty() {
            document.clear();
            continue;
        }
        match serde_json::from_str::<&RawValue>(&document) {
            Ok(raw) => replay.document(begins, raw)?,
            Err(e) if e.is_eof() && document.len() <= MOST_BYTES => continue,
            Err(e) if e.is_eof() => return Err(ReplayError::TooLarge { line: begins }),
            Err(e) => return Err(wrong(begins, &".", &e)),
        }
        document.clear();
    }
    if document.is_empty() {
        Ok(replay.done)
    } else {
        Err(wrong(begins, &".", &"the document is not complete"))
    }
}

fn wrong(line: usize, field: &impl ToString, problem: &impl ToString) -> ReplayError {
    ReplayError::Document { line, field: field.to_string(), problem: problem.to_string() }
}

fn parse<'a, T: Deserialize<'a>>(line: usize, raw: &'a RawValue) -> Result<T, ReplayError> {
    let mut json = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut json).map_err(|e| wrong(line, e.path(), e.inner()))
}

struct Replay<W> {
    output: W,
    done: Replayed,
}

impl<W: Write> Replay<W> {
    fn document(&mut self, line: usize, raw: &RawValue) -> Result<(), ReplayError> {
        // Only which keys there are: the forms themselves are strict.
        #[derive(Deserialize)]
        struct Keys<'a> {
            #[serde(borrow)]
            cases: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        let keys: Keys<'_> = parse(line, raw)?;
        match keys {
            Keys { cases: Some(cases), .. } => cases.into_iter().try_for_each(|case| self.case(line, case)),
            Keys { input: Some(_), .. } => self.case(line, raw),
            Keys { .. } => {
                let world: World = parse(line, raw)?;
                self.write(line, None, &decide(&world, &Limits::PRODUCTION))
            }
        }
    }

    fn case(&mut self, line: usize, raw: &RawValue) -> Result<(), ReplayError> {
        let case: Case = parse(line, raw)?;
        let (world, limits) =
            case.input.world().map_err(|e| wrong(line, &format!("input.{}", e.field), &e))?;
        let mut decision = decide(&world, &limits);
        // A case is about its candidate; of the others it says nothing but their status.
        decision.verdicts.retain(|v| v.member == case.input.candidate);
        decision.chosen = decision.verdicts.iter().position(|v| v.reasons().is_empty());
        self.write(line, case.name.as_deref(), &decision)
    }

    fn write(&mut self, line: usize, name: Option<&str>, decision: &Decision) -> Result<(), ReplayError> {
        let intent = decision.chosen().map(|v| &v.member);
        self.done.worlds += 1;
        self.done.intents += usize::from(intent.is_some());
        let members = decision.verdicts.iter().map(MemberLine::of).collect();
        let line_out = Line { line, name, intent, members };
        let io = |source| ReplayError::Io { line, source };
        serde_json::to_writer(&mut self.output, &line_out).map_err(|e| io(e.into()))?;
        self.output.write_all(b"\n").map_err(io)
    }
}
