//! What can be wrong with policy files, and what is merely worth saying.

use std::fmt;
use std::sync::Arc;

use crate::check::CheckFault;

/// The files cannot be used. Nothing of them is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    problems: Vec<Problem>,
}

impl PolicyError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "an error without a problem");
        Self { problems }
    }

    /// Everything that was found, in the order of the files; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// The first problem on one line, and how many there are beside it.
impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [] => f.write_str("the policy cannot be used"),
            [only] => only.fmt(f),
            [first, more @ ..] => {
                let s = if more.len() == 1 { "" } else { "s" };
                write!(f, "{first} (and {} more problem{s})", more.len())
            }
        }
    }
}

impl std::error::Error for PolicyError {}

/// Where something was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The file's name; `None` for a built-in default.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The rule's name.
    pub rule: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        if let Some(rule) = &self.rule {
            write!(f, "rule '{rule}': ")?;
        }
        Ok(())
    }
}

/// One reason why the files cannot be used: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    pub(crate) fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.fault)
    }
}

/// Something that is allowed and probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it is.
    pub place: Place,
    pub(crate) remark: Remark,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.remark)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the file, with its aliases written out, is larger than {} KiB; remove the rules that are the defaults", crate::file::SIZE_MAX / 1024)]
    FileTooLarge,
    #[error(
        "the file has more than {} values; remove the rules that are the defaults",
        crate::file::VALUES_MAX
    )]
    TooManyValues,
    #[error("this is no YAML: {0}; correct it or put the rule's text in double quotes")]
    Yaml(String),
    #[error("the file holds {0}, not a mapping of rules; write one 'name: \"rule\"' on each line")]
    NotAMapping(&'static str),
    #[error("the file holds several YAML documents; remove the lines '---' between them")]
    SeveralDocuments,
    #[error("a rule's name is {0}; write a text there")]
    Name(&'static str),
    #[error(
        "the rule is {0}, which would be read as \"always\" or fail at each request; write it as a text in quotes, \"!\" for never and \"@\" for always"
    )]
    NotText(String),
    #[error("the tag '{0}' has no meaning here; remove it, and write a rule that begins with '!' in quotes")]
    Tag(String),
    #[error(
        "values nest more than {} levels deep; a rule is a text or a list of lists of texts",
        crate::yaml::DEPTH_MAX
    )]
    TooNested,
    #[error("'<<' is followed by {0}; name a mapping with an anchor there")]
    Merge(&'static str),
    #[error("the rule is longer than {} KiB; split it into several rules and name them with 'rule:'", crate::file::RULE_MAX / 1024)]
    RuleTooLong,
    #[error("{0}")]
    Check(#[from] CheckFault),
    #[error(
        "the check '{0}' is malformed and stands below a 'not', where it would let everybody pass; write it as 'kind:match'"
    )]
    MalformedBelowNot(String),
    #[error(
        "it can never hold, because {0}, and it is named below a 'not', where it would let everybody pass; correct it"
    )]
    BrokenBelowNot(String),
    #[error("it refers to itself ({0}), so it cannot be decided; remove one of the references")]
    Cycle(String),
    #[error(
        "its references to other rules are more than {} levels deep; write the condition out",
        crate::links::DEPTH_MAX
    )]
    ReferencesTooDeep,
    #[error("with the rules it refers to it has more than {} checks; simplify it", crate::links::COST_MAX)]
    TooCostly,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Remark {
    #[error("the rule is empty, so everybody passes; write \"@\" if that is meant")]
    Empty,
    #[error("the rule can never hold, because {0}; everybody is refused")]
    Broken(String),
    #[error("the check '{0}' is malformed and never holds; write it as 'kind:match'")]
    Malformed(String),
    #[error("the check 'rule:{0}' names a rule that does not exist; it never holds")]
    UnknownReference(String),
    #[error("the check '{check}' reads the credential '{name}', which no caller has; it never holds")]
    UnknownCredential { check: String, name: String },
    #[error("the check '{check}' inserts '{name}', which no object has; it never holds")]
    UnknownKey { check: String, name: String },
    #[error("nothing asks for this rule and no other rule names it; check the spelling of its name")]
    Unused,
    #[error("the name stands here and on line {0}; the later one counts")]
    Repeated(usize),
    #[error("the name is {0} for YAML, so no rule can be found under it; put it in quotes")]
    NotAName(&'static str),
    #[error(
        "this older name also replaces the defaults of {0}; name those rules themselves if that is not meant"
    )]
    OlderName(String),
}
