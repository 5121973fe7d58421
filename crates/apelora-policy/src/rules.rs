//! All rules together, compiled.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::check::Node;
use crate::creds::TokenScope;
use crate::error::{Fault, Place, PolicyError, Problem, Remark, Warning};
use crate::file::{self, Body, FileRule, Source};
use crate::links::{self, Strictness};

/// A rule that the service asks for, with what holds unless a file says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered<'a> {
    /// The name, such as `baremetal:node:get`.
    pub name: &'a str,
    /// The rule's text.
    pub check: &'a str,
    /// The kinds of token that the rule is for.
    pub scopes: ScopeTypes,
    /// An older rule that this one takes the place of.
    pub deprecated: Option<Deprecated<'a>>,
    /// What the rule permits, in one sentence.
    pub description: &'a str,
    /// Method and path of the requests that ask for it.
    pub operations: &'a [(&'a str, &'a str)],
}

/// The rule that stood in the place of a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprecated<'a> {
    /// The older name, often the same. A file that changes it changes the newer rule, too.
    pub name: &'a str,
    /// The older text. It still lets callers pass while `enforce_new_defaults` is off.
    pub check: &'a str,
}

/// The kinds of token that a rule is for. None at all means any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the kinds are documented at TokenScope")]
pub struct ScopeTypes {
    pub system: bool,
    pub domain: bool,
    pub project: bool,
}

impl ScopeTypes {
    /// Any token.
    pub const ANY: Self = Self { system: false, domain: false, project: false };
    /// Tokens scoped to the system or to a project: all node rules.
    pub const SYSTEM_OR_PROJECT: Self = Self { system: true, domain: false, project: true };

    /// Whether a token of this kind may use the rule at all.
    pub const fn admits(self, token: TokenScope) -> bool {
        match token {
            _ if !self.system && !self.domain && !self.project => true,
            TokenScope::System => self.system,
            TokenScope::Domain => self.domain,
            TokenScope::Project => self.project,
        }
    }

    /// The kinds by name.
    pub fn names(self) -> Vec<&'static str> {
        [(self.system, "system"), (self.domain, "domain"), (self.project, "project")]
            .into_iter()
            .filter_map(|(is_in, name)| is_in.then_some(name))
            .collect()
    }
}

/// How files and defaults are put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Off: whom a deprecated default let pass still passes. `APELORA_ENFORCE_NEW_DEFAULTS`.
    pub enforce_new_defaults: bool,
    /// The rule that stands in for names that do not exist, if there is a rule of this name.
    pub default_rule: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { enforce_new_defaults: true, default_rule: "default".to_owned() }
    }
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The built-in default or its deprecated predecessor, because `enforce_new_defaults` is off.
    DefaultOrDeprecated,
    /// A file.
    File {
        /// Its name.
        file: Arc<str>,
        /// The line, from 1; `None` for a rule that was not read from a text.
        line: Option<usize>,
    },
    /// A file, under the older name of the rule.
    OlderName {
        /// The older name.
        name: String,
        /// The file's name.
        file: Arc<str>,
        /// The line, from 1; `None` for a rule that was not read from a text.
        line: Option<usize>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::DefaultOrDeprecated => f.write_str("built-in default or its deprecated predecessor"),
            Self::File { file, line } => write_position(f, file, *line),
            Self::OlderName { name, file, line } => {
                write_position(f, file, *line)?;
                write!(f, ", under the older name '{name}'")
            }
        }
    }
}

fn write_position(f: &mut fmt::Formatter<'_>, file: &str, line: Option<usize>) -> fmt::Result {
    f.write_str(file)?;
    line.map_or(Ok(()), |line| write!(f, ":{line}"))
}

/// One rule of a set.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) origin: Origin,
    pub(crate) node: Node,
    /// `None` for a rule that exists only in a file.
    pub(crate) scopes: Option<ScopeTypes>,
    /// It says the same as the built-in default, so there is nothing to remark on.
    pub(crate) as_default: bool,
}

impl Rule {
    /// Its text stands in a file under the older name, and that rule is in the set as well.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        matches!(self.origin, Origin::OlderName { .. })
    }

    pub(crate) fn place(&self) -> Place {
        let rule = Some(self.name.clone());
        match &self.origin {
            Origin::Default | Origin::DefaultOrDeprecated => Place { rule, ..Place::default() },
            Origin::File { file, line } | Origin::OlderName { file, line, .. } => {
                Place { file: Some(Arc::clone(file)), line: *line, rule }
            }
        }
    }
}

/// A compiled set of rules. Immutable; share it in an `Arc` and swap the whole set when the files change.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) by_name: HashMap<String, usize>,
    /// The rule for unknown names.
    pub(crate) fallback: Option<usize>,
    warnings: Vec<Warning>,
}

impl Rules {
    /// The rules in force with these files, in the order of [`Source::in_order`]: the built-in node rules, changed by
    /// the files. No file at all is a policy, too.
    ///
    /// # Errors
    /// Everything in the files that refuses them. Rules compiled before stay as they are.
    pub fn compile(sources: &[Source<'_>], settings: &Settings) -> Result<Self, PolicyError> {
        Self::compile_with(&crate::defaults::all().collect::<Vec<_>>(), sources, settings)
    }

    /// As [`Rules::compile`], with other built-in rules.
    ///
    /// # Errors
    /// As for [`Rules::compile`], and for built-in rules that cannot be loaded.
    pub fn compile_with(
        registered: &[Registered<'_>],
        sources: &[Source<'_>],
        settings: &Settings,
    ) -> Result<Self, PolicyError> {
        let mut builder = Builder::default();
        for source in sources {
            builder.file(*source);
        }
        builder.defaults(registered, settings);
        builder.finish(settings, Strictness::Refuse)
    }

    /// A bare set of rules as loaded already: for judging single rules. What would refuse a file is found when a decision
    /// runs into it.
    pub(crate) fn bare(
        rules: Vec<(String, Body)>,
        file: &str,
        settings: &Settings,
    ) -> Result<Self, PolicyError> {
        let file: Arc<str> = file.into();
        let mut builder = Builder::default();
        for (name, body) in rules {
            builder.override_with(FileRule { name, line: None, file: Arc::clone(&file), body });
        }
        builder.defaults(&[], settings);
        builder.finish(settings, Strictness::LeaveToJudge)
    }

    /// What is allowed and probably not meant. For the log, and for `policy check`.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The names of all rules, in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The rule's text and where it comes from, if there is such a rule.
    pub fn rule(&self, name: &str) -> Option<(&str, &Origin)> {
        self.find(name).map(|rule| (rule.text.as_str(), &rule.origin))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Rule> {
        self.by_name.get(name).and_then(|index| self.rules.get(*index))
    }

    /// The rule in its normal form, which is the same for texts that say the same with other blanks, parentheses or
    /// capitals. A text that is no rule has the form `!`.
    pub fn normal_form(&self, name: &str) -> Option<String> {
        self.find(name).map(|rule| rule.node.to_string())
    }
}

#[derive(Default)]
struct Builder {
    overrides: HashMap<String, (FileRule, Node)>,
    /// In the order in which the files name them.
    names: Vec<String>,
    rules: Vec<Rule>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Builder {
    fn file(&mut self, source: Source<'_>) {
        let content = file::read(source);
        self.problems.extend(content.problems);
        self.warnings.extend(content.warnings);
        content.rules.into_iter().for_each(|rule| self.override_with(rule));
    }

    fn override_with(&mut self, rule: FileRule) {
        let compiled = match &rule.body {
            body if body.size() > file::RULE_MAX => Err(Fault::RuleTooLong),
            Body::Text(text) => Node::of_text(text).map_err(Fault::from),
            Body::Lists(lists) => Ok(Node::of_lists(lists)),
            Body::Template => Ok(Node::Never),
        };
        match compiled {
            Ok(node) => {
                if self.overrides.insert(rule.name.clone(), (rule.clone(), node)).is_none() {
                    self.names.push(rule.name);
                }
            }
            Err(fault) => {
                let place = Place { file: Some(rule.file), line: rule.line, rule: Some(rule.name) };
                self.problems.push(Problem { place, fault });
            }
        }
    }

    /// Puts the built-in rules and the files' rules together.
    fn defaults(&mut self, registered: &[Registered<'_>], settings: &Settings) {
        let mut replaced: HashMap<&str, Vec<&str>> = HashMap::new();
        for default in registered {
            let scopes = Some(default.scopes);
            let name = default.name.to_owned();
            if let Some((rule, node)) = self.overrides.get(default.name) {
                let as_default = says_the_same(node, default.check);
                self.rules.push(Rule { name, scopes, as_default, ..of_file(rule, node) });
                continue;
            }
            if let Some((older, (rule, node))) = self.older_override(default) {
                replaced.entry(older.name).or_default().push(default.name);
                let origin = Origin::OlderName {
                    name: older.name.to_owned(),
                    file: Arc::clone(&rule.file),
                    line: rule.line,
                };
                self.rules.push(Rule { name, scopes, origin, ..of_file(rule, node) });
                continue;
            }
            match of_default(default, settings) {
                Ok((text, node, origin)) => {
                    self.rules.push(Rule { name, text, origin, node, scopes, as_default: true });
                }
                Err(fault) => {
                    let place = Place { rule: Some(name), ..Place::default() };
                    self.problems.push(Problem { place, fault });
                }
            }
        }
        for name in std::mem::take(&mut self.names) {
            let Some((rule, node)) = self.overrides.get(&name) else { continue };
            if let Some(newer) = replaced.get(name.as_str()) {
                let place =
                    Place { file: Some(Arc::clone(&rule.file)), line: rule.line, rule: Some(name.clone()) };
                self.warnings.push(Warning { place, remark: Remark::OlderName(newer.join(", ")) });
            }
            if !registered.iter().any(|default| default.name == name) {
                let scopes = None;
                self.rules.push(Rule { name, scopes, ..of_file(rule, node) });
            }
        }
    }

    /// A file's rule under the older name, if it says something else than the older default and does not merely point
    /// to the newer rule.
    fn older_override<'d>(&self, default: &Registered<'d>) -> Option<(Deprecated<'d>, &(FileRule, Node))> {
        let older = default.deprecated.filter(|older| older.name != default.name)?;
        let override_ = self.overrides.get(older.name)?;
        let unchanged = says_the_same(&override_.1, older.check);
        let points_back = override_.1.to_string() == format!("rule:{}", default.name);
        (!unchanged && !points_back).then_some((older, override_))
    }

    fn finish(mut self, settings: &Settings, strictness: Strictness) -> Result<Rules, PolicyError> {
        let by_name: HashMap<_, _> =
            self.rules.iter().enumerate().map(|(index, rule)| (rule.name.clone(), index)).collect();
        let fallback = by_name.get(&settings.default_rule).copied();
        links::resolve(&mut self.rules, &by_name, fallback);
        links::inspect(&self.rules, strictness, &mut self.problems);
        links::remark(&self.rules, fallback, &mut self.warnings);
        if !self.problems.is_empty() {
            return Err(PolicyError::new(self.problems));
        }
        Ok(Rules { rules: self.rules, by_name, fallback, warnings: self.warnings })
    }
}

fn says_the_same(node: &Node, text: &str) -> bool {
    Node::of_text(text).is_ok_and(|other| other.to_string() == node.to_string())
}

fn of_file(rule: &FileRule, node: &Node) -> Rule {
    let text = match &rule.body {
        Body::Text(text) => text.trim().to_owned(),
        Body::Lists(_) | Body::Template => node.to_string(),
    };
    let origin = Origin::File { file: Arc::clone(&rule.file), line: rule.line };
    Rule { name: rule.name.clone(), text, origin, node: node.clone(), scopes: None, as_default: false }
}

fn of_default(default: &Registered<'_>, settings: &Settings) -> Result<(String, Node, Origin), Fault> {
    let node = Node::of_text(default.check)?;
    let older =
        default.deprecated.filter(|older| !settings.enforce_new_defaults && older.check != default.check);
    let Some(older) = older else { return Ok((default.check.to_owned(), node, Origin::Default)) };
    let text = format!("{} or {}", enclosed(default.check), enclosed(older.check));
    let either = Node::Or(vec![node, Node::of_text(older.check)?]);
    Ok((text, either, Origin::DefaultOrDeprecated))
}

/// A rule's text as a part of another.
fn enclosed(text: &str) -> String {
    if text.is_empty() { "@".to_owned() } else { format!("({text})") }
}
