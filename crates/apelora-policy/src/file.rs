//! One policy file: a YAML mapping from rule names to rules.
//!
//! Stricter than the reference, which takes a null, a `false` or an unquoted `!` for "always": a rule is a text or the
//! old list of lists of texts, anything else refuses the file.

use std::sync::Arc;

use crate::error::{Fault, Place, Problem, Remark, Warning};
use crate::yaml::{self, Value, Yaml};

/// A file may have this many bytes.
pub(crate) const SIZE_MAX: usize = 1024 * 1024;
/// A rule may have this many bytes.
pub(crate) const RULE_MAX: usize = 64 * 1024;
/// A file may have this many names, rules and collections.
pub(crate) const VALUES_MAX: usize = 100_000;

/// A policy file as it was read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its whole content.
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// The files of a policy in the order in which they apply: the policy file, then those of the folder `policy.d` by
    /// name, so that the later one wins. Files whose names begin with a dot are left out. Sub-folders are the caller's
    /// to leave out.
    pub fn in_order(main: Option<Self>, folder: Vec<Self>) -> Vec<Self> {
        let base = |source: &Source<'a>| source.name.rsplit('/').next().unwrap_or(source.name);
        let mut folder: Vec<_> = folder.into_iter().filter(|source| !base(source).starts_with('.')).collect();
        folder.sort_by(|a, b| base(a).cmp(base(b)));
        main.into_iter().chain(folder).collect()
    }
}

/// A rule as it stands in a file.
#[derive(Debug, Clone)]
pub(crate) struct FileRule {
    pub(crate) name: String,
    /// From 1; `None` for a rule that was not read from a text.
    pub(crate) line: Option<usize>,
    pub(crate) file: Arc<str>,
    pub(crate) body: Body,
}

/// The forms a rule can be written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Text(String),
    Lists(Vec<Vec<String>>),
    /// A mapping that only serves as the source of a merge. As a rule it never holds.
    Template,
}

impl Body {
    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Lists(lists) => lists.iter().map(|checks| size_of(checks)).sum(),
            Self::Template => 0,
        }
    }
}

fn size_of(checks: &[String]) -> usize {
    checks.iter().map(|check| check.len() + 1).sum::<usize>() + 1
}

/// What a file gave.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) rules: Vec<FileRule>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
}

/// Reads one file; names come at most once, the last one counts.
pub(crate) fn read(source: Source<'_>) -> Content {
    let mut file = File { name: source.name.into(), size: 0, content: Content::default() };
    if let Err((line, fault)) = file.read(source.text) {
        file.problem(line, None, fault);
    }
    file.content
}

struct File {
    name: Arc<str>,
    /// Bytes of names and rules so far. Aliases count as often as they are used.
    size: usize,
    content: Content,
}

impl File {
    fn problem(&mut self, line: Option<usize>, rule: Option<&str>, fault: Fault) {
        let place = Place { file: Some(Arc::clone(&self.name)), line, rule: rule.map(str::to_owned) };
        self.content.problems.push(Problem { place, fault });
    }

    fn warn(&mut self, line: usize, rule: Option<&str>, remark: Remark) {
        let place =
            Place { file: Some(Arc::clone(&self.name)), line: Some(line), rule: rule.map(str::to_owned) };
        self.content.warnings.push(Warning { place, remark });
    }

    fn read(&mut self, text: &str) -> Result<(), yaml::Located> {
        if text.len() > SIZE_MAX {
            return Err((None, Fault::FileTooLarge));
        }
        let Some(root) = yaml::read(text, VALUES_MAX)? else { return Ok(()) };
        let pairs = match &root.value {
            Value::Mapping(pairs) => pairs,
            // A file of comments, or with nothing but `---` in it.
            Value::Scalar { text, plain: true } if not_text(text) == Some(NULL) => return Ok(()),
            Value::Scalar { .. } => return Err((Some(root.line), Fault::NotAMapping("a single value"))),
            Value::Sequence(_) => return Err((Some(root.line), Fault::NotAMapping("a list"))),
        };
        let mut merged = Vec::new();
        for (key, value) in pairs.iter().filter(|(key, _)| is_merge(key)) {
            self.merge(key.line, value, &mut merged)?;
        }
        let templates: Vec<_> = merged.iter().map(|(_, _, from)| Arc::as_ptr(from)).collect();
        for (key, value, _) in &merged {
            self.rule(key, value, &templates)?;
        }
        let from_merges = self.content.rules.len();
        for (key, value) in pairs.iter().filter(|(key, _)| !is_merge(key)) {
            self.rule(key, value, &templates)?;
        }
        self.keep_last(from_merges);
        Ok(())
    }

    /// Collects what `<<` brings in, so that a later pair outranks an earlier one.
    fn merge(&mut self, line: usize, value: &Arc<Yaml>, out: &mut Vec<Merged>) -> Result<(), yaml::Located> {
        let pairs = match &value.value {
            Value::Mapping(pairs) => pairs,
            Value::Sequence(items) => {
                return items.iter().rev().try_for_each(|item| match item.value {
                    Value::Mapping(_) => self.merge(line, item, out),
                    _ => Err((Some(line), Fault::Merge("a list of other values"))),
                });
            }
            Value::Scalar { .. } => return Err((Some(line), Fault::Merge("a single value"))),
        };
        for (_, inner) in pairs.iter().filter(|(key, _)| is_merge(key)) {
            self.merge(line, inner, out)?;
        }
        for (key, inner) in pairs.iter().filter(|(key, _)| !is_merge(key)) {
            self.grow(1, line)?;
            out.push((Arc::clone(key), Arc::clone(inner), Arc::clone(value)));
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize, line: usize) -> Result<(), yaml::Located> {
        self.size += bytes;
        if self.size > SIZE_MAX { Err((Some(line), Fault::FileTooLarge)) } else { Ok(()) }
    }

    fn rule(
        &mut self,
        key: &Arc<Yaml>,
        value: &Arc<Yaml>,
        templates: &[*const Yaml],
    ) -> Result<(), yaml::Located> {
        let line = key.line;
        let Value::Scalar { text: name, plain } = &key.value else {
            return Err((Some(line), Fault::Name("a list or a mapping")));
        };
        if let (true, Some(kind)) = (*plain, not_text(name)) {
            if kind == NULL {
                return Err((Some(line), Fault::Name("missing")));
            }
            match body(value, false) {
                Ok(_) => self.warn(line, Some(name), Remark::NotAName(kind)),
                Err(fault) => self.problem(Some(line), Some(name), fault),
            }
            return Ok(());
        }
        self.grow(name.len(), line)?;
        let is_template = value.anchored && templates.contains(&Arc::as_ptr(value));
        match body(value, is_template) {
            Ok(body) => {
                self.grow(body.size(), line)?;
                let file = Arc::clone(&self.name);
                self.content.rules.push(FileRule { name: name.clone(), line: Some(line), file, body });
            }
            Err(fault) => self.problem(Some(line), Some(name), fault),
        }
        Ok(())
    }

    /// Drops all but the last rule of each name. Overriding what a merge brought in is what merges are for.
    fn keep_last(&mut self, from_merges: usize) {
        let mut last = std::collections::HashMap::new();
        for (at, rule) in self.content.rules.iter().enumerate() {
            last.insert(rule.name.clone(), at);
        }
        let rules = std::mem::take(&mut self.content.rules);
        let lines: Vec<_> = rules.iter().map(|rule| rule.line).collect();
        for (at, rule) in rules.into_iter().enumerate() {
            match last.get(&rule.name) {
                Some(kept) if *kept == at => self.content.rules.push(rule),
                Some(kept) if at >= from_merges => {
                    if let (Some(line), Some(later)) = (rule.line, lines[*kept]) {
                        self.warn(line, Some(&rule.name), Remark::Repeated(later));
                    }
                }
                _ => {}
            }
        }
    }
}

/// A key and a value that a merge brings in, and the mapping they stand in.
type Merged = (Arc<Yaml>, Arc<Yaml>, Arc<Yaml>);

fn is_merge(key: &Yaml) -> bool {
    matches!(&key.value, Value::Scalar { text, plain: true } if text == "<<")
}

fn body(value: &Yaml, is_template: bool) -> Result<Body, Fault> {
    match &value.value {
        Value::Scalar { text, plain } => match not_text(text) {
            Some(kind) if *plain => Err(Fault::NotText(format!("{kind} for YAML"))),
            _ => Ok(Body::Text(text.clone())),
        },
        Value::Sequence(items) if items.is_empty() => Err(Fault::NotText("an empty list".to_owned())),
        Value::Sequence(items) => {
            let mut size = 0_usize;
            let mut lists = Vec::new();
            for item in items {
                let checks = match &item.value {
                    Value::Sequence(checks) => checks.iter().map(|check| check_text(check)).collect(),
                    Value::Scalar { .. } => check_text(item).map(|check| vec![check]),
                    Value::Mapping(_) => Err(Fault::NotText("a list with a mapping in it".to_owned())),
                };
                let checks: Vec<String> = checks?;
                size += size_of(&checks);
                // Before aliases have multiplied it.
                if size > RULE_MAX {
                    return Err(Fault::RuleTooLong);
                }
                lists.push(checks);
            }
            Ok(Body::Lists(lists))
        }
        Value::Mapping(_) if is_template => Ok(Body::Template),
        Value::Mapping(_) => Err(Fault::NotText("a mapping".to_owned())),
    }
}

fn check_text(value: &Yaml) -> Result<String, Fault> {
    match &value.value {
        Value::Scalar { text, plain } if !*plain || not_text(text).is_none() => Ok(text.clone()),
        _ => Err(Fault::NotText("a list with something else than texts in it".to_owned())),
    }
}

/// What [`not_text`] says about a value that is not there.
const NULL: &str = "null";

/// What an unquoted scalar is, if it is no text: by the rules of YAML 1.1, which the reference reads its files with.
/// Numbers and dates are recognised generously, because a rule never looks like one.
fn not_text(plain: &str) -> Option<&'static str> {
    let word = plain.to_ascii_lowercase();
    match word.as_str() {
        "" | "~" | "null" => return Some(NULL),
        "yes" | "no" | "true" | "false" | "on" | "off" => return Some("a truth value"),
        ".nan" | ".inf" | "+.inf" | "-.inf" => return Some("a number"),
        "=" | "<<" => return Some("a sign"),
        _ => {}
    }
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(&word);
    let digits = unsigned.strip_prefix('.').unwrap_or(unsigned);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let is_hex = unsigned.starts_with("0x");
    let numeric = |c: char| {
        c.is_ascii_digit()
            || matches!(c, '_' | '.' | ':' | '-' | '+' | 'e')
            || (is_hex && (c.is_ascii_hexdigit() || c == 'x'))
            || (unsigned.starts_with("0b") && c == 'b')
    };
    if unsigned.chars().all(numeric) {
        return Some("a number or a date");
    }
    let temporal =
        |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | '+' | ' ' | '\t' | 't' | 'z');
    (unsigned.len() > 8 && unsigned.contains('-') && unsigned.chars().all(temporal)).then_some("a date")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Content {
        read(Source { name: "p.yaml", text })
    }

    fn bodies(text: &str) -> Vec<(String, Body)> {
        let content = one(text);
        assert_eq!(content.problems, []);
        content.rules.into_iter().map(|rule| (rule.name, rule.body)).collect()
    }

    fn text(name: &str, rule: &str) -> (String, Body) {
        (name.to_owned(), Body::Text(rule.to_owned()))
    }

    #[test]
    fn texts_and_lists_are_rules() {
        assert_eq!(
            bodies("a: role:x\n'b': \"!\"\nc: >\n  role:x\n  or role:y\n"),
            [text("a", "role:x"), text("b", "!"), text("c", "role:x or role:y\n")]
        );
        let lists = Body::Lists(vec![vec!["role:x".to_owned(), "role:y".to_owned()], vec!["@".to_owned()]]);
        assert_eq!(bodies("a: [[role:x, role:y], \"@\"]\n"), [("a".to_owned(), lists)]);
        assert_eq!(bodies("{\"a\": \"\", \"b\": \"@\"}"), [text("a", ""), text("b", "@")]);
        assert_eq!(bodies("\u{feff}a: !!str 1\n"), [text("a", "1")]);
        assert_eq!(bodies("# nothing\n"), []);
        assert_eq!(bodies("---\n"), []);
        assert_eq!(bodies(""), []);
    }

    #[test]
    fn merges_and_aliases_are_followed() {
        assert_eq!(bodies("a: &x role:x\nb: *x\n"), [text("a", "role:x"), text("b", "role:x")]);
        let merged = bodies("base: &b {r: role:x, s: role:y}\ns: role:z\n<<: *b\n");
        assert_eq!(merged, [text("r", "role:x"), ("base".to_owned(), Body::Template), text("s", "role:z")]);
    }

    #[test]
    fn what_is_no_rule_is_named_with_its_line() {
        for value in [
            "!",
            "~",
            "",
            "null",
            "false",
            "no",
            "yes",
            "On",
            "0",
            "1",
            "-1",
            "0x1f",
            "1.5",
            ".5",
            "1e3",
            "1:30",
            "2026-01-01",
            "2026-01-01 10:00:00Z",
            "{}",
            "{role: x}",
            "[]",
            "[1]",
            "[{a: b}]",
            "[[[a]]]",
            "!x role:a",
            "<<",
            "!!python/object/apply:os.system [\"true\"]",
            "!!int 1",
        ] {
            let content = one(&format!("a: role:x\nr: {value}\n"));
            assert_eq!(content.problems.len(), 1, "{value}: {:?}", content.rules);
            assert_eq!(content.problems[0].place.line, Some(2), "{value}");
        }
        for value in ["1:%(e)s", "nope", "none", "role:1", "-", "0z", "2026-ab"] {
            let content = one(&format!("r: {value}\n"));
            assert!(content.problems.is_empty() || value == "-", "{value}: {:?}", content.problems);
        }
    }

    #[test]
    fn what_is_no_policy_file_is_refused() {
        for file in [
            "- a\n- b\n",
            "text\n",
            "42\n",
            "a: \"x\n",
            "\ta: b\n",
            ": : :\n",
            "a: b\n---\nc: d\n",
            "? [a]\n: b\n",
            "a: &x [*x]\n",
            "<<: 1\n",
            "<<: [1]\n",
            "a: *nope\n",
            "a: b: c\n",
            "a: @\n",
            "a: %x\n",
            "a: {\n",
        ] {
            assert_eq!(one(file).problems.len(), 1, "{file:?} {:?}", one(file));
        }
    }

    #[test]
    fn names_that_yaml_takes_for_something_else_are_pointed_out() {
        let content = one("1: role:x\ntrue: role:y\nr: role:z\nr: role:w\n");
        assert_eq!(content.rules.len(), 1);
        assert_eq!(content.rules[0].body, Body::Text("role:w".to_owned()));
        assert_eq!(
            content.warnings.iter().map(|w| w.place.line).collect::<Vec<_>>(),
            [Some(1), Some(2), Some(3)]
        );
    }

    #[test]
    fn a_file_cannot_grow_by_its_aliases() {
        let mut file = format!("a: &x \"{}\"\n", "role:x or ".repeat(5_000));
        for i in 0..100 {
            file.push_str(&format!("r{i}: *x\n"));
        }
        assert!(matches!(one(&file).problems[0].fault, Fault::FileTooLarge));
        let mut file = "a0: &a0 [x]\n".to_owned();
        for i in 0..2_000 {
            file.push_str(&format!("a{}: &a{} [*a{i}]\n", i + 1, i + 1));
        }
        assert!(matches!(one(&file).problems[0].fault, Fault::TooNested));
        let wide = format!("a: &x [{}]\nb: [{}]\n", "role:x,".repeat(1_000), "*x,".repeat(1_000));
        assert!(matches!(one(&wide).problems[0].fault, Fault::RuleTooLong));
        let mut merges = "b0: &b0 {k: role:x}\n".to_owned();
        for i in 1..7 {
            merges
                .push_str(&format!("b{i}: &b{i} {{<<: [{}]}}\n", vec![format!("*b{}", i - 1); 30].join(",")));
        }
        merges.push_str("<<: *b6\n");
        assert!(!one(&merges).problems.is_empty());
    }

    #[test]
    fn a_deep_or_large_file_is_refused() {
        assert_eq!(one(&format!("a: {}", "[".repeat(100_000))).problems.len(), 1);
        assert_eq!(one(&"a: b\n".repeat(300_000)).problems.len(), 1);
        assert_eq!(one(&"{a: b}, ".repeat(10)).problems.len(), 1);
    }

    #[test]
    fn files_of_a_folder_apply_by_name() {
        let source = |name| Source { name, text: "" };
        let folder = ["d/20.yaml", "d/.hidden", "d/10.yaml", "d/readme.txt"].map(source).to_vec();
        let order = Source::in_order(Some(source("zz/policy.yaml")), folder);
        let names: Vec<_> = order.iter().map(|source| source.name).collect();
        assert_eq!(names, ["zz/policy.yaml", "d/10.yaml", "d/20.yaml", "d/readme.txt"]);
    }
}
