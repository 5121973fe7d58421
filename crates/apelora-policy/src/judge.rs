//! Judging a rule for a caller and a target.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::check::{Check, Node, What};
use crate::creds::{Creds, Roles, TokenScope};
use crate::explain::Trace;
use crate::links;
use crate::rules::{Rule, Rules, ScopeTypes};
use crate::target::Target;
use crate::text;

/// May the caller do this?
#[derive(Debug, Clone, Copy)]
pub struct Decision<'r> {
    /// Whether the rule lets the caller pass.
    pub allowed: bool,
    /// Which rule said so, and which of its checks. Made without allocating; the text is written when it is displayed.
    pub because: Because<'r>,
}

/// Why a decision is what it is.
#[derive(Debug, Clone, Copy)]
pub struct Because<'r> {
    rule: &'r str,
    found: Option<&'r Rule>,
    reason: Reason<'r>,
}

/// What made the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<'r> {
    /// This check decided: it holds, or it does not.
    Check {
        /// The check as it was written.
        text: &'r str,
        /// Whether it holds.
        holds: bool,
    },
    /// The rule is the same for everybody.
    Constant,
    /// The rule is not for this kind of token.
    Scope {
        /// The caller's.
        token: TokenScope,
        /// The rule's.
        wanted: ScopeTypes,
    },
    /// This check cannot be judged on these values, so nobody passes, whatever stands around it.
    Undecided {
        /// The check as it was written.
        text: &'r str,
        /// What is in the way.
        why: Undecidable,
    },
    /// There is no rule of this name, and none for unknown names.
    NoSuchRule,
}

/// Why a check cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecidable {
    /// The roles are no list of texts.
    #[error("the roles of the caller are no list of texts")]
    Roles,
    /// A path leads into a credential that is no mapping.
    #[error("the path leads into a credential that has no fields")]
    Path,
    /// A numeric conversion of something else.
    #[error("the inserted value is no number")]
    NotANumber,
    /// The check itself is wrong. Files with such a check are refused.
    #[error("it cannot be read")]
    Unreadable,
    /// The rules refer to each other without end. Files with such rules are refused.
    #[error("the rules refer to each other without end")]
    Endless,
}

/// A name that is none of the service's own rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no rule of this service; rules that exist only in a file cannot be asked for")]
pub struct NotRegistered(pub String);

impl Rules {
    /// Judges the rule of this name; an unknown name is judged by the rule for unknown names, if there is one.
    ///
    /// Takes well under 5 µs for a built-in rule, allocates nothing for it, and never panics whatever the credentials
    /// hold. What cannot be judged is refused, also below a `not`.
    pub fn enforce<'r>(&'r self, rule: &'r str, creds: &Creds, target: &Target<'_>) -> Decision<'r> {
        self.judge(rule, creds, target, None)
    }

    /// As [`Rules::enforce`], for the service's own rules only.
    ///
    /// # Errors
    /// The name is none of them: a mistake in the program, whatever the files say.
    pub fn authorize<'r>(
        &'r self,
        rule: &'r str,
        creds: &Creds,
        target: &Target<'_>,
    ) -> Result<Decision<'r>, NotRegistered> {
        match self.find(rule) {
            Some(Rule { scopes: Some(_), .. }) => Ok(self.enforce(rule, creds, target)),
            _ => Err(NotRegistered(rule.to_owned())),
        }
    }

    pub(crate) fn judge<'r>(
        &'r self,
        name: &'r str,
        creds: &Creds,
        target: &Target<'_>,
        trace: Option<&mut Trace>,
    ) -> Decision<'r> {
        let found = self.find(name).or_else(|| self.fallback.and_then(|index| self.rules.get(index)));
        let decide = |allowed, reason| Decision { allowed, because: Because { rule: name, found, reason } };
        let Some(rule) = found else { return decide(false, Reason::NoSuchRule) };
        // The scope belongs to the rule that was asked for, not to the one that stands in for it.
        if let Some(wanted) = rule.scopes.filter(|_| rule.name == name) {
            let token = creds.token_scope();
            if !wanted.admits(token) {
                return decide(false, Reason::Scope { token, wanted });
            }
        }
        let mut judge = Judge { rules: self, creds, target, depth: 0, hops: 0, asked: 0, trace };
        match judge.node(&rule.node) {
            Ok(Verdict { holds, by: Some(by) }) => {
                decide(holds, Reason::Check { text: &by.check.text, holds: by.holds })
            }
            Ok(Verdict { holds, by: None }) => decide(holds, Reason::Constant),
            Err(Undecided { check, why }) => decide(false, Reason::Undecided { text: check, why }),
        }
    }
}

impl<'r> Because<'r> {
    /// The rule that was asked for.
    pub const fn rule(&self) -> &'r str {
        self.rule
    }

    /// What made the difference.
    pub const fn reason(&self) -> Reason<'r> {
        self.reason
    }
}

/// One sentence, for a log or a terminal. It names rules, not the caller.
impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found {
            None => write!(f, "rule '{}'", self.rule)?,
            Some(rule) if rule.name != self.rule => {
                write!(
                    f,
                    "rule '{}' does not exist, so '{}' ({}) counts",
                    self.rule, rule.name, rule.origin
                )?;
            }
            Some(rule) => write!(f, "rule '{}' ({})", self.rule, rule.origin)?,
        }
        match self.reason {
            Reason::Check { text, holds: true } => write!(f, ": the check '{text}' holds"),
            Reason::Check { text, holds: false } => write!(f, ": the check '{text}' does not hold"),
            Reason::Constant => f.write_str(": it is the same for everybody"),
            Reason::Scope { token, wanted } => {
                let wanted = wanted.names().join(" or ");
                write!(f, ": it is for {wanted} scope, and the token has {} scope", token.as_str())
            }
            Reason::Undecided { text, why } => {
                write!(f, ": the check '{text}' cannot be judged, because {why}")
            }
            Reason::NoSuchRule => f.write_str(" does not exist"),
        }
    }
}

struct Verdict<'r> {
    holds: bool,
    /// The check that made the difference.
    by: Option<Decisive<'r>>,
}

#[derive(Clone, Copy)]
struct Decisive<'r> {
    check: &'r Check,
    holds: bool,
}

struct Undecided<'r> {
    check: &'r str,
    why: Undecidable,
}

struct Judge<'r, 'c> {
    rules: &'r Rules,
    creds: &'c Creds,
    target: &'c Target<'c>,
    /// How many nodes lie above, in this rule and those that refer to it.
    depth: usize,
    /// How many references lie above.
    hops: usize,
    /// How many checks were judged.
    asked: usize,
    trace: Option<&'c mut Trace>,
}

impl<'r> Judge<'r, '_> {
    /// `and` and `or` stop at the first check that decides them, so that what stands behind is not judged at all.
    fn node(&mut self, node: &'r Node) -> Result<Verdict<'r>, Undecided<'r>> {
        self.depth += 1;
        let verdict = match node {
            Node::Always => Ok(Verdict { holds: true, by: None }),
            Node::Never | Node::Broken(_) => Ok(Verdict { holds: false, by: None }),
            Node::Not(inner) => self.node(inner).map(|verdict| Verdict { holds: !verdict.holds, ..verdict }),
            Node::And(items) => self.until(items, false),
            Node::Or(items) => self.until(items, true),
            Node::Check(check) => self.check(check),
        };
        self.depth -= 1;
        verdict
    }

    fn until(&mut self, items: &'r [Node], decisive: bool) -> Result<Verdict<'r>, Undecided<'r>> {
        let mut last = Verdict { holds: !decisive, by: None };
        for item in items {
            last = self.node(item)?;
            if last.holds == decisive {
                break;
            }
        }
        Ok(last)
    }

    fn check(&mut self, check: &'r Check) -> Result<Verdict<'r>, Undecided<'r>> {
        self.asked += 1;
        let at = self.trace.as_deref_mut().map(|trace| trace.begin(self.hops, &check.text));
        let verdict = if let What::Rule { rule, .. } = check.what {
            self.referred(check, rule)?
        } else {
            let holds = self.holds(&check.what).map_err(|why| Undecided { check: &check.text, why })?;
            Verdict { holds, by: Some(Decisive { check, holds }) }
        };
        if let (Some(trace), Some(at)) = (self.trace.as_deref_mut(), at) {
            trace.end(at, verdict.holds, note(check, self.creds, self.target));
        }
        Ok(verdict)
    }

    fn referred(&mut self, check: &'r Check, rule: Option<usize>) -> Result<Verdict<'r>, Undecided<'r>> {
        let Some(rule) = rule.and_then(|index| self.rules.rules.get(index)) else {
            return Ok(Verdict { holds: false, by: Some(Decisive { check, holds: false }) });
        };
        // Files that could come here are refused when they are loaded.
        if self.depth > links::DEPTH_MAX || self.asked > links::COST_MAX {
            return Err(Undecided { check: &check.text, why: Undecidable::Endless });
        }
        self.hops += 1;
        let verdict = self.node(&rule.node)?;
        self.hops -= 1;
        // A constant rule leaves the reference itself as what made the difference.
        let by = verdict.by.or(Some(Decisive { check, holds: verdict.holds }));
        Ok(Verdict { by, ..verdict })
    }

    fn holds(&self, what: &'r What) -> Result<bool, Undecidable> {
        let fill =
            |wanted: &'r crate::format::Format| wanted.fill(self.target).map_err(|_| Undecidable::NotANumber);
        match what {
            What::Malformed | What::Rule { .. } => Ok(false),
            What::Unreadable(_) => Err(Undecidable::Unreadable),
            What::Role { lowered: Some(wanted), .. } => self.has_role(wanted),
            What::Role { wanted, .. } => {
                fill(wanted)?.map_or(Ok(false), |wanted| self.has_role(&wanted.to_lowercase()))
            }
            What::Literal { value, wanted } => Ok(fill(wanted)?.is_some_and(|wanted| wanted == *value)),
            What::Credential { path, wanted } => {
                let Some(wanted) = fill(wanted)? else { return Ok(false) };
                let Some((first, rest)) = path.split_first() else { return Ok(false) };
                self.creds.value(first).map_or(Ok(false), |value| any_matches(value, rest, &wanted))
            }
        }
    }

    fn has_role(&self, wanted: &str) -> Result<bool, Undecidable> {
        match self.creds.roles() {
            Roles::Names(names) => Ok(names.iter().any(|name| name == wanted)),
            Roles::Absent => Ok(false),
            Roles::Unusable => Err(Undecidable::Roles),
        }
    }
}

/// Follows a path into a credential. Of a list, any element may match; a list in a list is a text.
fn any_matches(value: &Value, path: &[String], wanted: &str) -> Result<bool, Undecidable> {
    let Value::Array(items) = value else { return matches(value, path, wanted) };
    for item in items {
        if matches(item, path, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn matches(value: &Value, path: &[String], wanted: &str) -> Result<bool, Undecidable> {
    let Some((first, rest)) = path.split_first() else { return Ok(text::of_value(value) == wanted) };
    let Value::Object(fields) = value else { return Err(Undecidable::Path) };
    fields.get(first).map_or(Ok(false), |inner| any_matches(inner, rest, wanted))
}

/// What the two sides of a check were.
fn note(check: &Check, creds: &Creds, target: &Target<'_>) -> String {
    let filled = |wanted: &crate::format::Format| match wanted.fill(target) {
        Ok(Some(text)) => format!("'{text}'"),
        Ok(None) => {
            let missing: Vec<_> = wanted.keys().filter(|key| target.get(key).is_none()).collect();
            format!("nothing, because there is no '{}'", missing.join("', '"))
        }
        Err(_) => "nothing, because a value is no number".to_owned(),
    };
    match &check.what {
        What::Malformed => "malformed".to_owned(),
        What::Unreadable(fault) => fault.to_string(),
        What::Rule { rule: None, .. } => "no such rule".to_owned(),
        What::Rule { .. } => String::new(),
        What::Role { wanted, .. } => match creds.value("roles") {
            None => "the caller has no roles".to_owned(),
            Some(roles) => format!("{} in {}", filled(wanted), text::of_value(roles)),
        },
        What::Literal { value, wanted } => format!("'{value}' against {}", filled(wanted)),
        What::Credential { path, wanted } => {
            let value = path.first().and_then(|first| creds.value(first));
            let value = value.map_or(Cow::Borrowed("nothing"), text::of_value);
            format!("the caller has {value}, wanted is {}", filled(wanted))
        }
    }
}
