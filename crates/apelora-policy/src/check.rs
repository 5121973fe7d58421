//! The checks of a rule and the compiled form of the rule.

use std::fmt;

use crate::format::{Format, FormatFault};
use crate::kind::{self, Kind};
use crate::parse::{Broken, Expr, Parsed, parse};

/// A rule, ready to be judged.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Always,
    Never,
    /// The text is no rule, so it never holds.
    Broken(Broken),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
    Check(Check),
}

/// One check with the text it was written as.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) text: String,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// `rule:name`. `rule` is the index of the rule, once all rules are known.
    Rule { name: String, rule: Option<usize> },
    /// `role:name`, lower-cased already if nothing is inserted.
    Role { wanted: Format, lowered: Option<String> },
    /// `'text':…`, `None:…`
    Literal { value: String, wanted: Format },
    /// `project_id:…`
    Credential { path: Vec<String>, wanted: Format },
    /// Neither `@` nor `!`, and not `kind:match`. Never holds, and is refused under `not`.
    Malformed,
    /// Cannot be judged for anybody. Refused in a file.
    Unreadable(CheckFault),
}

/// Why a check or a rule cannot be judged for anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CheckFault {
    #[error(
        "the check '{0}' would ask a server on the network, which is not supported; write the condition into the rule"
    )]
    External(String),
    #[error(
        "the check '{check}' cannot be read, because {why} before the ':'; write a credential such as 'project_id' there, or a text in quotes"
    )]
    Kind { check: String, why: &'static str },
    #[error(
        "the check '{check}' cannot be read, because {why}; insert a value with '%(key)s' and write '%%' for a percent sign"
    )]
    Format { check: String, why: String },
    #[error(
        "it nests deeper than {} levels; split it into several rules and name them with 'rule:'",
        crate::parse::DEPTH_MAX
    )]
    TooDeep,
}

impl Node {
    /// Compiles the text of a rule. The empty text always holds.
    ///
    /// # Errors
    /// It nests too deeply.
    pub(crate) fn of_text(text: &str) -> Result<Self, CheckFault> {
        if text.is_empty() {
            return Ok(Self::Always);
        }
        match parse(text) {
            Parsed::Rule(rule) => Ok(Self::of_expr(rule)),
            Parsed::Broken(broken) => Ok(Self::Broken(broken)),
            Parsed::TooDeep => Err(CheckFault::TooDeep),
        }
    }

    /// Compiles the old form of a rule: a list of alternatives, each a list of checks that must all hold.
    pub(crate) fn of_lists(alternatives: &[Vec<String>]) -> Self {
        if alternatives.is_empty() {
            return Self::Always;
        }
        let mut nodes = Vec::new();
        for checks in alternatives.iter().filter(|checks| !checks.is_empty()) {
            let mut all: Vec<_> = checks.iter().map(|check| Self::of_check(check)).collect();
            nodes.push(if all.len() == 1 { all.remove(0) } else { Self::And(all) });
        }
        match nodes.len() {
            0 => Self::Never,
            1 => nodes.remove(0),
            _ => Self::Or(nodes),
        }
    }

    fn of_expr(expr: Expr<'_>) -> Self {
        let all = |items: Vec<Expr<'_>>| items.into_iter().map(Self::of_expr).collect();
        match expr {
            Expr::Check(text) => Self::of_check(text),
            Expr::Not(inner) => Self::Not(Box::new(Self::of_expr(*inner))),
            Expr::And(items) => Self::And(all(items)),
            Expr::Or(items) => Self::Or(all(items)),
        }
    }

    fn of_check(text: &str) -> Self {
        match text {
            "@" => Self::Always,
            "!" => Self::Never,
            _ => {
                let what = What::of(text).unwrap_or_else(What::Unreadable);
                Self::Check(Check { text: text.to_owned(), what })
            }
        }
    }

    /// Calls `visit` for every check, with whether it stands below a `not` and how many levels lie above it.
    pub(crate) fn for_each_check<'a>(&'a self, visit: &mut impl FnMut(&'a Check, bool, usize)) {
        self.walk(false, 1, visit);
    }

    fn walk<'a>(&'a self, negated: bool, level: usize, visit: &mut impl FnMut(&'a Check, bool, usize)) {
        match self {
            Self::Always | Self::Never | Self::Broken(_) => {}
            Self::Check(check) => visit(check, negated, level),
            Self::Not(inner) => inner.walk(true, level + 1, visit),
            Self::And(items) | Self::Or(items) => {
                items.iter().for_each(|item| item.walk(negated, level + 1, visit));
            }
        }
    }

    /// Calls `visit` for every check, to change it.
    pub(crate) fn for_each_check_mut(&mut self, visit: &mut impl FnMut(&mut Check)) {
        match self {
            Self::Always | Self::Never | Self::Broken(_) => {}
            Self::Check(check) => visit(check),
            Self::Not(inner) => inner.for_each_check_mut(visit),
            Self::And(items) | Self::Or(items) => {
                items.iter_mut().for_each(|item| item.for_each_check_mut(visit));
            }
        }
    }

    /// How many levels of operators there are, at least one.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Not(inner) => inner.depth() + 1,
            Self::And(items) | Self::Or(items) => items.iter().map(Self::depth).max().unwrap_or(0) + 1,
            _ => 1,
        }
    }
}

impl What {
    fn of(text: &str) -> Result<Self, CheckFault> {
        let Some((kind, wanted)) = text.split_once(':') else { return Ok(Self::Malformed) };
        match kind {
            "rule" => return Ok(Self::Rule { name: wanted.to_owned(), rule: None }),
            "http" | "https" => return Err(CheckFault::External(text.to_owned())),
            _ => {}
        }
        let wanted = match Format::parse(wanted) {
            Ok(format) => format,
            Err(FormatFault::WholeTarget) if kind == "role" || kind::read(kind).is_ok() => {
                return Ok(Self::Malformed);
            }
            Err(fault) => {
                return Err(CheckFault::Format { check: text.to_owned(), why: fault.describe() });
            }
        };
        if kind == "role" {
            let lowered = wanted.constant().map(str::to_lowercase);
            return Ok(Self::Role { wanted, lowered });
        }
        match kind::read(kind) {
            Ok(Kind::Literal(value)) => Ok(Self::Literal { value, wanted }),
            Ok(Kind::Path(path)) => Ok(Self::Credential { path, wanted }),
            Err(why) => Err(CheckFault::Kind { check: text.to_owned(), why }),
        }
    }
}

/// The rule in its normal form, which is the same for two texts that say the same with other blanks or parentheses.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (items, word) = match self {
            Self::Always => return f.write_str("@"),
            Self::Never | Self::Broken(_) => return f.write_str("!"),
            Self::Check(Check { what: What::Malformed, text }) if !text.contains(':') => {
                return f.write_str("!");
            }
            Self::Check(check) => return f.write_str(&check.text),
            Self::Not(inner) => return write!(f, "not {inner}"),
            Self::And(items) => (items, " and "),
            Self::Or(items) => (items, " or "),
        };
        f.write_str("(")?;
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                f.write_str(word)?;
            }
            item.fmt(f)?;
        }
        f.write_str(")")
    }
}
