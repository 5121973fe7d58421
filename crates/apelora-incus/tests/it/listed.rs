//! Answers in one line each, so that a table of expectations can be read.

use apelora_incus::{HealingSetting, IncusError, Instance, Member, Pool, Problem, Server};

pub fn server(server: &Server) -> String {
    let healing = match &server.healing {
        HealingSetting::Off => "off",
        HealingSetting::On(threshold) => threshold,
        HealingSetting::Hidden => "hidden",
    };
    format!(
        "{} {} clustered={} {} healing={healing} offline_threshold={:?}",
        server.name,
        server.version,
        server.clustered,
        server.architectures.join("+"),
        server.offline_threshold
    )
}

pub fn members(members: &[Member]) -> String {
    let one = |m: &Member| format!("{} {}{}", m.name, m.status, if m.leads() { " leads" } else { "" });
    members.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub fn instances(instances: &[Instance]) -> String {
    instances.iter().map(instance).collect::<Vec<_>>().join(", ")
}

pub fn instance(instance: &Instance) -> String {
    let Instance { project, name, location, status, kind, config, .. } = instance;
    let config = match config {
        None => "unknown".to_owned(),
        Some(config) => format!(
            "{} root={} autostart={:?} last={} {:?}",
            config.architecture,
            config.root_pool().unwrap_or("none"),
            config.autostart.setting(),
            config.last_power.as_deref().unwrap_or("none"),
            config.tie()
        ),
    };
    format!("{project}/{name} {kind} on {location} {status}: {config}")
}

pub fn pools(pools: &[Pool]) -> String {
    let one = |p: &Pool| format!("{} {} {} shared={}", p.name, p.driver, p.status, p.is_shared());
    pools.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub fn error(error: &IncusError) -> String {
    match &error.problem {
        Problem::Refused { kind, code, text } => format!("{kind:?} {code}: {text}"),
        Problem::NotUnderstood { field, why } => format!("not understood: {field}: {why}"),
        other => other.to_string(),
    }
}
