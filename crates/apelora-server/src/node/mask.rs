//! Secrets in what is shown of a node.
//!
//! Source: tests/data/ironic/README.md section 3.3. Whoever may see a node never sees a password of it; the reference's list of
//! words is kept, and a secret inside a list is masked as well.

use apelora_maintenance::json;
use serde_json::{Map, Value};

/// What stands in the place of a secret.
const MASK: &str = "******";

/// A member is a secret when its name contains one of these, whatever the case.
const SECRET_WORDS: [&str; 17] = [
    "adminpass",
    "admin_pass",
    "auth_token",
    "chapsecret",
    "configdrive",
    "encrypted_key",
    "fernetkey",
    "new_pass",
    "passphrase",
    "password",
    "private_key",
    "secret",
    "snmp_auth_key",
    "snmp_priv_key",
    "sslkey",
    "sys_pswd",
    "token",
];

/// Members of `instance_info` that are secrets.
const INSTANCE_SECRETS: [&str; 2] = ["configdrive", "image_url"];

/// The text of an object with its password-like members masked.
pub(crate) fn secrets(text: &str) -> String {
    masked(text, &SECRET_WORDS, mask_object)
}

/// The text of an `instance_info` with what is secret in it masked.
pub(crate) fn instance_info(text: &str) -> String {
    masked(text, &INSTANCE_SECRETS, |object| {
        for name in INSTANCE_SECRETS {
            if let Some(value) = object.get_mut(name) {
                *value = Value::from(MASK);
            }
        }
    })
}

/// Most objects hold no secret; then the text passes as it is.
fn masked(text: &str, words: &[&str], mask: impl FnOnce(&mut Map<String, Value>)) -> String {
    let lower = text.to_ascii_lowercase();
    // A word may be written with escapes.
    if !lower.contains('\\') && !words.iter().any(|word| lower.contains(word)) {
        return text.to_owned();
    }
    let Ok(mut object) = serde_json::from_str(text) else { return "{}".to_owned() };
    mask(&mut object);
    json::to_string(&object).unwrap_or_else(|_| "{}".to_owned())
}

fn mask_object(object: &mut Map<String, Value>) {
    for (name, value) in object.iter_mut() {
        let name = name.to_lowercase();
        if SECRET_WORDS.iter().any(|word| name.contains(word)) {
            *value = Value::from(MASK);
        } else {
            mask_inside(value);
        }
    }
}

fn mask_inside(value: &mut Value) {
    match value {
        Value::Object(object) => mask_object(object),
        Value::Array(items) => items.iter_mut().for_each(mask_inside),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_secrets() {
        assert_eq!(
            secrets(r#"{"user": "admin", "password": "secret", "snmp_auth_key": "abc"}"#),
            r#"{"user": "admin", "password": "******", "snmp_auth_key": "******"}"#
        );
        assert_eq!(
            instance_info(r#"{"image_url": "http://x/y", "configdrive": "abcd", "n": 1}"#),
            r#"{"image_url": "******", "configdrive": "******", "n": 1}"#
        );
        assert_eq!(secrets(r#"{"a": 1.50}"#), r#"{"a": 1.50}"#);
    }

    #[test]
    fn secrets_hide_nowhere() {
        for text in [
            r#"{"redfish_Password": "s3cr3t"}"#,
            r#"{"pass\u0077ord": "s3cr3t"}"#,
            r#"{"a": {"b": [{"token": "s3cr3t"}]}}"#,
            r#"{"agent_secret_token": {"x": "s3cr3t"}}"#,
        ] {
            assert!(!secrets(text).contains("s3cr3t"), "{text}");
        }
    }
}
