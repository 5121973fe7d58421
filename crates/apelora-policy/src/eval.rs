//! Judging rules given as JSON lines: what `policy eval` does.
//!
//! Each line is an object with
//!
//! * the rules: `rules`, an object from names to rules as they are once loaded (a text, a list, or null for an empty
//!   one); or what they are loaded from: `registered` (a list of `{name, check_str, scope_types, deprecated: {name,
//!   check_str}}`), `policy_file` (the text of a file) and `policy_dir_files` (an object from names to texts);
//! * `rule`, the name to judge, `creds` and `target`, two objects;
//! * optionally `enforce_new_defaults` (true), `policy_default_rule` (`"default"`) and `authorize` (false; true asks for
//!   registered rules only).
//!
//! Other keys are ignored. Each answer is a line `{"result": "allow"|"deny"|"reject", "reason": "…"}`, where `reject`
//! means that there is no decision: the rules cannot be loaded, or the line cannot be read. In bare `rules`, an unreadable
//! check or a cycle rejects only a decision that runs into it, as in the original library; a file with the same mistake
//! is refused as a whole.

use std::io::{self, BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::creds::Creds;
use crate::file::{Body, Source};
use crate::judge::{Reason, Undecidable};
use crate::rules::{Deprecated, Registered, Rules, ScopeTypes, Settings};
use crate::target::Target;

/// A line may have this many bytes.
const LINE_MAX: u64 = 8 * 1024 * 1024;

/// How the lines came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvalSummary {
    /// Lines with the result `allow`.
    pub allowed: usize,
    /// Lines with the result `deny`.
    pub denied: usize,
    /// Lines with the result `reject`.
    pub rejected: usize,
}

/// Reads lines until the input ends and answers each one that is not blank, in order.
///
/// # Errors
/// Reading or writing fails. A line that makes no sense is answered with `reject`.
pub fn eval(mut input: impl BufRead, mut output: impl Write) -> io::Result<EvalSummary> {
    let mut summary = EvalSummary::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line)?;
        if length == 0 {
            break;
        }
        let answer = if length as u64 > LINE_MAX && line.last() != Some(&b'\n') {
            skip_line(&mut input)?;
            Answer::reject(format!("the line is longer than {} MiB; split it", LINE_MAX / (1024 * 1024)))
        } else if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        } else {
            judge_line(&line)
        };
        match answer.result {
            Outcome::Allow => summary.allowed += 1,
            Outcome::Deny => summary.denied += 1,
            Outcome::Reject => summary.rejected += 1,
        }
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(summary)
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(());
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(available.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Allow,
    Deny,
    Reject,
}

#[derive(Debug, Serialize)]
struct Answer {
    result: Outcome,
    reason: String,
}

impl Answer {
    const fn reject(reason: String) -> Self {
        Self { result: Outcome::Reject, reason }
    }
}

#[derive(Debug, Deserialize)]
struct Line {
    rules: Option<Map<String, Value>>,
    registered: Option<Vec<RegisteredLine>>,
    policy_file: Option<String>,
    policy_dir_files: Option<std::collections::BTreeMap<String, String>>,
    rule: String,
    creds: Map<String, Value>,
    target: Map<String, Value>,
    #[serde(default = "yes")]
    enforce_new_defaults: bool,
    policy_default_rule: Option<String>,
    #[serde(default)]
    authorize: bool,
}

#[derive(Debug, Deserialize)]
struct RegisteredLine {
    name: String,
    check_str: String,
    scope_types: Option<Vec<ScopeWord>>,
    deprecated: Option<DeprecatedLine>,
}

#[derive(Debug, Deserialize)]
struct DeprecatedLine {
    name: String,
    check_str: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScopeWord {
    System,
    Domain,
    Project,
}

const fn yes() -> bool {
    true
}

fn judge_line(line: &[u8]) -> Answer {
    let line: Line = match serde_json::from_slice(line) {
        Ok(line) => line,
        Err(error) => return Answer::reject(format!("the line cannot be read: {error}")),
    };
    let rules = match rules_of(&line) {
        Ok(rules) => rules,
        Err(reason) => return Answer::reject(reason),
    };
    let creds = Creds::from_map(line.creds);
    let target = Target::values(&line.target);
    let decision = if line.authorize {
        match rules.authorize(&line.rule, &creds, &target) {
            Ok(decision) => decision,
            Err(error) => return Answer::reject(error.to_string()),
        }
    } else {
        rules.enforce(&line.rule, &creds, &target)
    };
    let result = match decision.because.reason() {
        Reason::Undecided { why: Undecidable::Endless | Undecidable::Unreadable, .. } => Outcome::Reject,
        _ if decision.allowed => Outcome::Allow,
        _ => Outcome::Deny,
    };
    Answer { result, reason: decision.because.to_string() }
}

fn rules_of(line: &Line) -> Result<Rules, String> {
    let settings = Settings {
        enforce_new_defaults: line.enforce_new_defaults,
        default_rule: line.policy_default_rule.clone().unwrap_or_else(|| Settings::default().default_rule),
    };
    let compiled = if let Some(rules) = &line.rules {
        if line.registered.is_some() || line.policy_file.is_some() || line.policy_dir_files.is_some() {
            return Err("'rules' stands beside 'registered' or a policy file; give one of them".to_owned());
        }
        let rules = rules
            .iter()
            .map(|(name, rule)| {
                loaded(rule).map(|body| (name.clone(), body)).map_err(|why| format!("rule '{name}': {why}"))
            })
            .collect::<Result<_, _>>()?;
        Rules::bare(rules, "rules", &settings)
    } else if line.registered.is_none() && line.policy_file.is_none() && line.policy_dir_files.is_none() {
        return Err("there are no rules; give 'rules', 'registered' or 'policy_file'".to_owned());
    } else {
        let registered: Vec<_> = line.registered.iter().flatten().map(RegisteredLine::registered).collect();
        let main = line.policy_file.as_deref().map(|text| Source { name: "policy.yaml", text });
        let folder =
            line.policy_dir_files.iter().flatten().map(|(name, text)| Source { name, text }).collect();
        Rules::compile_with(&registered, &Source::in_order(main, folder), &settings)
    };
    compiled.map_err(|error| error.to_string())
}

/// A rule as it is once a file is loaded.
fn loaded(rule: &Value) -> Result<Body, &'static str> {
    match rule {
        Value::String(text) => Ok(Body::Text(text.clone())),
        // What an empty value in a file loads as. Policy files with one are refused.
        Value::Null => Ok(Body::Text(String::new())),
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::String(check) => Some(vec![check.clone()]),
                Value::Array(checks) => {
                    checks.iter().map(|check| check.as_str().map(str::to_owned)).collect()
                }
                _ => None,
            })
            .collect::<Option<_>>()
            .map(Body::Lists)
            .ok_or("the list holds something else than texts and lists of texts"),
        _ => Err("it is neither a text nor a list"),
    }
}

impl RegisteredLine {
    fn registered(&self) -> Registered<'_> {
        let has = |word| self.scope_types.as_ref().is_some_and(|words| words.contains(&word));
        Registered {
            name: &self.name,
            check: &self.check_str,
            scopes: ScopeTypes {
                system: has(ScopeWord::System),
                domain: has(ScopeWord::Domain),
                project: has(ScopeWord::Project),
            },
            deprecated: self
                .deprecated
                .as_ref()
                .map(|older| Deprecated { name: &older.name, check: &older.check_str }),
            description: "",
            operations: &[],
        }
    }
}
