//! `apelora policy check|sample|eval`.

use std::ffi::OsString;
use std::io;

use apelora_policy::{Creds, EntryTarget, Explanation, Identity, Rules, Standing, Target, authority, sample};
use apelora_server::PolicyFiles;
use serde_json::{Value, json};

use super::{configure, remote};
use crate::cli::{CheckPolicy, Persona, Policy};
use crate::config::{OneLine, openstack};
use crate::failure::Failure;
use crate::output::print;
use crate::printable::printable;

pub(super) fn run(verb: Policy, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    match verb {
        Policy::Check(options) => check(*options, environment),
        Policy::Sample => crate::output::raw(&sample()),
        Policy::Eval => {
            // By lines, for whoever asks and waits for each answer.
            apelora_policy::eval(io::stdin().lock(), io::stdout().lock())?;
            Ok(())
        }
    }
}

/// Owner and lessee of the node that is judged for.
struct Place {
    owner: Option<String>,
    lessee: Option<String>,
}

fn check(options: CheckPolicy, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let variables = openstack(&environment);
    let (config, _) = configure(options.asked.process, environment)?;
    let rules = compile(&config.policy)?;
    if let Some(unknown) = options.rules.iter().find(|name| rules.rule(name).is_none()) {
        return Err(no_rule(unknown, &rules).into());
    }
    let place = match &options.node {
        None => Place { owner: options.owner, lessee: options.lessee },
        Some(node) => {
            let client = remote::of(config.client, variables?)?;
            let node = remote::wait(client.node(node))?;
            let text = |name| node.text(name).map(str::to_owned);
            Place { owner: text("owner"), lessee: text("lessee") }
        }
    };
    let creds = creds(options.persona, &config.policy);
    let mut target = Target::node(&creds, place.owner.as_deref(), place.lessee.as_deref());
    if let Some(kind) = &options.entry_type {
        target = target.with_entry(EntryTarget {
            uuid: "",
            kind,
            scope: options.entry_scope.as_deref().unwrap_or_default(),
            asserted_by: options.entry_asserted_by.as_deref().unwrap_or_default(),
            asserted_by_project: options.entry_project.as_deref().unwrap_or_default(),
        });
    }
    let standing =
        authority(&creds, place.owner.as_deref(), place.lessee.as_deref(), &config.policy.authority);
    let explained: Vec<_> = options.rules.iter().map(|rule| rules.explain(rule, &creds, &target)).collect();
    let allowed = explained.iter().all(|one| one.allowed);
    let json = json!({
        "allowed": if explained.is_empty() { Value::Null } else { allowed.into() },
        "authority": standing.map(word),
        "rules": explained.iter().map(explanation_json).collect::<Vec<_>>(),
        "warnings": rules.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    print(options.asked.output.format, &text(&rules, &explained, standing), &json)?;
    if allowed { Ok(()) } else { Err(Failure::Shown) }
}

fn text(rules: &Rules, explained: &[Explanation], standing: Option<Standing>) -> String {
    let mut lines: Vec<_> = rules.warnings().iter().map(|warning| format!("warning: {warning}")).collect();
    if explained.is_empty() {
        lines.push(format!("The policy can be used; it has {} rules.", rules.names().len()));
    } else {
        for one in explained {
            lines.extend(one.to_string().lines().map(str::to_owned));
        }
        lines.push(format!("authority on the node: {}", standing.map_or("none", word)));
    }
    lines.iter().map(|line| printable(line).into_owned()).collect::<Vec<_>>().join("\n")
}

fn explanation_json(one: &Explanation) -> Value {
    let steps = one
        .steps
        .iter()
        .map(|step| json!({"level": step.level, "check": step.text, "holds": step.holds, "note": step.note}));
    json!({
        "rule": one.rule,
        "allowed": one.allowed,
        "because": one.because,
        "origin": one.origin,
        "text": one.text,
        "steps": steps.collect::<Vec<_>>(),
    })
}

const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::System => "system",
        Standing::Owner => "owner",
        Standing::Lessee => "lessee",
    }
}

fn creds(persona: Persona, policy: &PolicyFiles) -> Creds {
    let identity = Identity {
        user_id: persona.user,
        system_scope: persona.system.then(|| "all".to_owned()),
        domain_id: persona.domain,
        project_id: persona.project,
        project_name: persona.project_name,
        roles: persona.role,
        ..Identity::default()
    };
    Creds::of(&identity, policy.authority.elevated_service_project.as_deref())
}

/// The rules in force with these files, as the server has them.
fn compile(policy: &PolicyFiles) -> Result<Rules, Failure> {
    policy.compile().map_err(|why| {
        let lines: Vec<_> = why.lines().map(|line| printable(line).into_owned()).collect();
        Failure::Failed(lines.join("\n"))
    })
}

fn no_rule(name: &str, rules: &Rules) -> OneLine {
    let names = rules.names();
    let rated = names.iter().map(|known| (strsim::normalized_damerau_levenshtein(name, known), known));
    let near = match rated.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((nearness, known)) if nearness > 0.6 => format!("did you mean {known}?"),
        _ => "`apelora policy sample` lists them".to_owned(),
    };
    OneLine::new(format_args!("RULE: there is no rule {name}; {near}"))
}
