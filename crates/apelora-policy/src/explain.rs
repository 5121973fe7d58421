//! Which rule said so: a decision with everything that was looked at on the way. What `policy check` prints.

use std::fmt;

use crate::creds::Creds;
use crate::rules::Rules;
use crate::target::Target;

/// A decision, check by check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the rule lets the caller pass.
    pub allowed: bool,
    /// The rule that was asked for.
    pub rule: String,
    /// Where it comes from, if it exists.
    pub origin: Option<String>,
    /// Its text, if it exists.
    pub text: Option<String>,
    /// What made the difference, in one sentence.
    pub because: String,
    /// The checks in the order in which they were judged. Checks that could not change anything were not.
    pub steps: Vec<Step>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How many rules lie between it and the rule that was asked for.
    pub level: usize,
    /// The check as it was written.
    pub text: String,
    /// Whether it holds; `None` if it cannot be judged.
    pub holds: Option<bool>,
    /// What was compared. Holds values of the caller and the object.
    pub note: String,
}

/// Collects the checks of a decision.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    steps: Vec<Step>,
}

/// An explanation is for people: it ends after this many checks.
const STEPS_MAX: usize = 1_000;

impl Trace {
    pub(crate) fn begin(&mut self, level: usize, text: &str) -> usize {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(Step { level, text: text.to_owned(), holds: None, note: String::new() });
            self.steps.len() - 1
        } else {
            STEPS_MAX
        }
    }

    pub(crate) fn end(&mut self, at: usize, holds: bool, note: String) {
        if let Some(step) = self.steps.get_mut(at) {
            step.holds = Some(holds);
            step.note = note;
        }
    }
}

impl Rules {
    /// Judges like [`Rules::enforce`] and says how.
    pub fn explain(&self, rule: &str, creds: &Creds, target: &Target<'_>) -> Explanation {
        let mut trace = Trace::default();
        let decision = self.judge(rule, creds, target, Some(&mut trace));
        let found = self.rule(rule);
        Explanation {
            allowed: decision.allowed,
            rule: rule.to_owned(),
            origin: found.map(|(_, origin)| origin.to_string()),
            text: found.map(|(text, _)| text.to_owned()),
            because: decision.because.to_string(),
            steps: trace.steps,
        }
    }
}

/// Several lines: the verdict, the rule, and one line for each check.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", if self.allowed { "allowed" } else { "refused" }, self.because)?;
        if let Some(text) = &self.text {
            writeln!(f, "  {}: \"{text}\"", self.rule)?;
        }
        for step in &self.steps {
            let mark = match step.holds {
                Some(true) => "yes",
                Some(false) => "no ",
                None => "?  ",
            };
            write!(f, "  {mark} {}{}", "  ".repeat(step.level.min(20)), step.text)?;
            if step.note.is_empty() {
                writeln!(f)?;
            } else {
                writeln!(f, "  ({})", step.note)?;
            }
        }
        Ok(())
    }
}
