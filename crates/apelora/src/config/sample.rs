//! The sample of the TOML file, made from the table of settings.

use super::table::{
    BMC_MAP, CA_FILE, DATABASE_URL, ENDPOINT, HOST, HTTP_BASIC_USER_FILE, INCUS_CLIENT_CERT,
    INCUS_CLIENT_KEY, INCUS_SERVER_CERT, INCUS_SHARED_POOLS, KEYSTONE_CA_FILE, KEYSTONE_PASSWORD,
    KEYSTONE_PUBLIC_URL, KEYSTONE_URL, KEYSTONE_USERNAME, PIN_MAX_MICROVERSION, POLICY_FILE, SANLOCK_HOSTS,
    SETTINGS, Setting, TLS_CERT, TLS_KEY,
};

/// What a packaged installation has otherwise than the built-in defaults: it is not marked as a comment.
pub(super) static CHOSEN: [(&Setting, &str); 1] = [(&DATABASE_URL, "sqlite:///var/lib/apelora/apelora.db")];

/// What stands where there is no default. Each can be used as it is written, once what it names is there.
pub(super) static EXAMPLES: [(&Setting, &str); 19] = [
    (&HTTP_BASIC_USER_FILE, "/etc/apelora/users.htpasswd"),
    (&KEYSTONE_URL, "https://keystone.example.org:5000/v3"),
    (&KEYSTONE_PUBLIC_URL, "https://keystone.example.org:5000/v3"),
    (&KEYSTONE_USERNAME, "apelora"),
    (&KEYSTONE_PASSWORD, "the service's password"),
    (&KEYSTONE_CA_FILE, "/etc/apelora/keystone-ca.pem"),
    (&TLS_CERT, "/etc/apelora/tls.crt"),
    (&TLS_KEY, "/etc/apelora/tls.key"),
    (&HOST, "apelora1"),
    (&PIN_MAX_MICROVERSION, "1.115"),
    (&POLICY_FILE, "/etc/apelora/policy.yaml"),
    (&INCUS_CLIENT_CERT, "/etc/apelora/incus-client.crt"),
    (&INCUS_CLIENT_KEY, "/etc/apelora/incus-client.key"),
    (&INCUS_SERVER_CERT, "/etc/apelora/incus-cluster.crt"),
    (&INCUS_SHARED_POOLS, "shared"),
    (&BMC_MAP, "/etc/apelora/bmc.json"),
    (&SANLOCK_HOSTS, "/etc/apelora/sanlock-hosts.json"),
    (&ENDPOINT, "https://apelora.example.org:6385"),
    (&CA_FILE, "/etc/apelora/ca.pem"),
];

const HEAD: &str = "\
Settings of `apelora server` and `apelora worker`. Both read this file; each takes what is its own.

A line that begins with #KEY shows the built-in value, or an example where there is none. Take the # away to set it. The
environment (APELORA_KEY, in the files /etc/apelora/server.env and worker.env) and flags go before this file.

Passwords of management controllers never stand here: see /etc/apelora/worker.env.";

/// Longest line of a comment, in characters.
const WIDTH: usize = 110;

/// A configuration file with every setting: what it does, and its default.
pub(crate) fn sample() -> String {
    let mut text = String::new();
    for paragraph in HEAD.split("\n\n") {
        comment(&mut text, paragraph);
        text.push_str("#\n");
    }
    text.truncate(text.len() - 2);
    for setting in SETTINGS {
        text.push('\n');
        comment(&mut text, &format!("{}.", setting.doc));
        let chosen = value_in(&CHOSEN, setting);
        let mark = if chosen.is_some() { "" } else { "#" };
        if let (Some(_), Some(default)) = (chosen, setting.default) {
            comment(&mut text, &format!("Built in: {}", literal(default)));
        }
        if setting.default.is_none() {
            comment(&mut text, "Not set unless given; an example:");
        }
        let value = chosen.or(setting.default).or_else(|| value_in(&EXAMPLES, setting)).unwrap_or_default();
        text.push_str(&format!("{mark}{} = {}\n", setting.name, literal(value)));
    }
    text
}

fn value_in(list: &[(&'static Setting, &'static str)], setting: &Setting) -> Option<&'static str> {
    list.iter().find(|(known, _)| *known == setting).map(|(_, value)| *value)
}

/// A value as TOML: whole numbers bare, everything else quoted.
fn literal(value: &str) -> String {
    match value.parse::<u32>() {
        Ok(number) => number.to_string(),
        // What JSON escapes, TOML escapes alike.
        Err(_) => serde_json::Value::from(value).to_string(),
    }
}

/// Adds words as comment lines.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
