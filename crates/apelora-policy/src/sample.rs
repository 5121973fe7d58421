//! The built-in rules as a policy file.

use std::fmt::Write as _;

use crate::defaults;
use crate::rules::Registered;

/// A policy file with every built-in rule, what it permits, and which requests ask for it. As a whole it changes
/// nothing; one keeps the rules one wants to change.
pub fn sample() -> String {
    let mut out = String::from(
        "# Every rule with its built-in text. As it stands, this file changes nothing.\n\
         # Keep the rules you change and remove the others: a rule that stands in a file no longer follows the defaults,\n\
         # and APELORA_ENFORCE_NEW_DEFAULTS=0 has no effect on it.\n\
         #\n\
         # A text in quotes is a rule. \"@\" lets everybody pass, \"!\" nobody.\n",
    );
    for (heading, rules) in defaults::groups() {
        let _ = write!(out, "\n\n# {heading}\n# {}\n", "-".repeat(heading.len()));
        rules.iter().for_each(|rule| one(&mut out, rule));
    }
    out
}

// Writing to a String cannot fail.
fn one(out: &mut String, rule: &Registered<'_>) {
    let _ = write!(out, "\n# {}\n", rule.description);
    for (method, path) in rule.operations {
        let _ = writeln!(out, "# {method} {path}");
    }
    let scopes = rule.scopes.names();
    if !scopes.is_empty() {
        let _ = writeln!(out, "# Token scope: {}", scopes.join(" or "));
    }
    if let Some(older) = rule.deprecated {
        if older.name != rule.name {
            let _ = writeln!(out, "# Changing '{}' alone changes this rule, too.", older.name);
        }
        let _ = writeln!(out, "# Deprecated text: {}", quoted(older.check));
    }
    let _ = writeln!(out, "{}: {}", quoted(rule.name), quoted(rule.check));
}

/// In double quotes, which YAML and JSON read alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
