//! Reading the file of `APELORA_SANLOCK_HOSTS`: strict JSON, a closed list of keys, and the checks across members.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use thiserror::Error;

use super::{LeaseConfig, LeaseHost};
use crate::name::MemberName;

const MAX_BYTES: usize = 4 << 20;
/// The bytes that sanlock has for a lockspace's name.
const MOST_NAME_BYTES: usize = 48;
/// The highest host id of a lockspace.
const MOST_HOSTS: u64 = 2000;

/// Why the file is refused as a whole; nothing is proven by leases then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LeaseConfigError {
    /// It is too large.
    #[error("it has {0} bytes; at most 4 MiB are read")]
    TooLarge(usize),
    /// It is not the JSON that is expected.
    #[error("it is not valid: {0}")]
    Json(String),
    /// The list of lockspaces is wrong.
    #[error("`lockspaces` {0}")]
    Lockspaces(String),
    /// One member is wrong.
    #[error("member `{member}`: `{key}` {problem}")]
    Member {
        /// Whose.
        member: String,
        /// Which key.
        key: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Two members have one host id.
    #[error(
        "members `{a}` and `{b}`: `host_ids` give both the id {host_id} in `{lockspace}`; each server has its own (host_id \
         in its /etc/lvm/lvmlocal.conf)"
    )]
    Twins {
        /// One.
        a: String,
        /// The other.
        b: String,
        /// Where.
        lockspace: String,
        /// The id.
        host_id: u64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    lockspaces: Vec<String>,
    members: Entries<RawHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    host_ids: Entries<u64>,
    #[serde(default)]
    watchdog: bool,
}

/// An object in file order. `serde_json` would keep the last of two equal keys; here the second is an error.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Entries<T> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for Object<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                let mut seen = BTreeSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("`{name}` is there twice")));
                    }
                    entries.push((name, map.next_value()?));
                }
                Ok(Entries(entries))
            }
        }
        d.deserialize_map(Object(PhantomData))
    }
}

impl LeaseConfig {
    /// Reads the file's bytes: `{"lockspaces": ["lvm_vg0"], "members": {"s1": {"host_ids": {"lvm_vg0": 1}, "watchdog":
    /// true}}}`. `watchdog` may be left out and is `false` then.
    ///
    /// # Errors
    /// For any doubt about any part of it: a file that was half read is one with a wrong idea of who is who.
    pub fn parse(bytes: &[u8]) -> Result<Self, LeaseConfigError> {
        if bytes.len() > MAX_BYTES {
            return Err(LeaseConfigError::TooLarge(bytes.len()));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let raw: RawFile =
            serde_path_to_error::deserialize(&mut json).map_err(|e| LeaseConfigError::Json(e.to_string()))?;
        json.end().map_err(|e| LeaseConfigError::Json(e.to_string()))?;
        let lockspaces = lockspaces(raw.lockspaces)?;

        let mut owners: BTreeMap<(String, u64), String> = BTreeMap::new();
        let mut members = BTreeMap::new();
        for (name, host) in raw.members.0 {
            let host = member(&name, host, &lockspaces)?;
            for (lockspace, host_id) in &host.host_ids {
                if let Some(other) = owners.insert((lockspace.clone(), *host_id), name.clone()) {
                    let (lockspace, host_id) = (lockspace.clone(), *host_id);
                    return Err(LeaseConfigError::Twins { a: other, b: name, lockspace, host_id });
                }
            }
            members.insert(MemberName::from(name.as_str()), host);
        }
        Ok(Self { lockspaces, members })
    }
}

fn lockspaces(names: Vec<String>) -> Result<Vec<String>, LeaseConfigError> {
    let wrong = |problem: String| Err(LeaseConfigError::Lockspaces(problem));
    if names.is_empty() {
        return wrong("is empty: name every lockspace that holds volumes, such as lvm_vg0".into());
    }
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            return wrong("has an empty name".into());
        }
        if name.len() > MOST_NAME_BYTES {
            return wrong(format!("has `{name}`, which is longer than 48 bytes"));
        }
        if name.contains(|c: char| c.is_control() || c.is_whitespace() || c == ':') {
            return wrong(format!("has {name:?}: a name has no spaces, colons or control characters"));
        }
        if names[..i].contains(name) {
            return wrong(format!("has `{name}` twice"));
        }
    }
    Ok(names)
}

fn member(name: &str, raw: RawHost, lockspaces: &[String]) -> Result<LeaseHost, LeaseConfigError> {
    let wrong = |key, problem: String| Err(LeaseConfigError::Member { member: name.into(), key, problem });
    if name.is_empty() || name.len() > 255 || name.contains(|c: char| c.is_control() || c == '/') {
        return wrong("members", "has a name that no cluster member can have".into());
    }
    if raw.host_ids.0.is_empty() {
        return wrong(
            "host_ids",
            "is empty: give the host id in each lockspace, or leave the member out".into(),
        );
    }
    let mut host_ids = BTreeMap::new();
    for (lockspace, host_id) in raw.host_ids.0 {
        if !lockspaces.contains(&lockspace) {
            return wrong("host_ids", format!("has `{lockspace}`, which `lockspaces` does not name"));
        }
        if !(1..=MOST_HOSTS).contains(&host_id) {
            return wrong("host_ids", format!("gives `{lockspace}` the id {host_id}; ids are 1 to 2000"));
        }
        host_ids.insert(lockspace, host_id);
    }
    Ok(LeaseHost { host_ids, watchdog: raw.watchdog })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LeaseConfig, String> {
        LeaseConfig::parse(text.as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_documented_file() {
        let config = parse(
            r#"{"lockspaces": ["lvm_vg0", "lvm_vg1"],
                "members": {"s1": {"host_ids": {"lvm_vg0": 1, "lvm_vg1": 2000}, "watchdog": true},
                            "s2": {"host_ids": {"lvm_vg0": 2}}}}"#,
        )
        .unwrap();
        assert_eq!(config.lockspaces, ["lvm_vg0", "lvm_vg1"]);
        let (one, two) = (&config.members[&"s1".into()], &config.members[&"s2".into()]);
        assert_eq!((one.host_ids["lvm_vg0"], one.host_ids["lvm_vg1"], one.watchdog), (1, 2000, true));
        assert_eq!((two.host_ids.len(), two.watchdog), (1, false));
        assert!(parse(r#"{"lockspaces": ["vg"], "members": {}}"#).unwrap().members.is_empty());
    }

    #[test]
    fn what_is_refused_names_the_place() {
        let with = |members: &str| format!(r#"{{"lockspaces": ["vg"], "members": {{{members}}}}}"#);
        let long = "x".repeat(49);
        let cases: Vec<(String, &[&str])> = vec![
            ("".into(), &["not valid"]),
            ("[]".into(), &["not valid"]),
            (with("") + "x", &["trailing"]),
            (r#"{"members": {}}"#.into(), &["lockspaces"]),
            (r#"{"lockspaces": ["vg"]}"#.into(), &["members"]),
            (r#"{"lockspaces": [], "members": {}}"#.into(), &["`lockspaces` is empty"]),
            (r#"{"lockspaces": [""], "members": {}}"#.into(), &["empty name"]),
            (format!(r#"{{"lockspaces": ["{long}"], "members": {{}}}}"#), &["48 bytes"]),
            (r#"{"lockspaces": ["a:b"], "members": {}}"#.into(), &["a:b", "colons"]),
            (r#"{"lockspaces": ["a b"], "members": {}}"#.into(), &["a b", "spaces"]),
            (r#"{"lockspaces": ["vg", "vg"], "members": {}}"#.into(), &["`vg` twice"]),
            (r#"{"lockspaces": ["vg"], "lockspaces": ["vg"], "members": {}}"#.into(), &["duplicate"]),
            (r#"{"lockspaces": ["vg"], "members": {}, "watchdog": true}"#.into(), &["unknown", "watchdog"]),
            (with(r#""": {"host_ids": {"vg": 1}}"#), &["name that no cluster member"]),
            (with(r#""s1": {}"#), &["members.s1", "host_ids"]),
            (with(r#""s1": {"host_ids": {}}"#), &["`s1`", "`host_ids` is empty"]),
            (with(r#""s1": {"host_ids": {"vg": 0}}"#), &["`s1`", "host_ids", "`vg`", "0", "1 to 2000"]),
            (with(r#""s1": {"host_ids": {"vg": 2001}}"#), &["`s1`", "2001"]),
            (with(r#""s1": {"host_ids": {"vg": -1}}"#), &["members.s1.host_ids.vg"]),
            (with(r#""s1": {"host_ids": {"vg": 1.5}}"#), &["members.s1.host_ids.vg"]),
            (with(r#""s1": {"host_ids": {"vg": "1"}}"#), &["members.s1.host_ids.vg"]),
            (with(r#""s1": {"host_ids": {"vh": 1}}"#), &["`s1`", "`vh`", "`lockspaces`"]),
            (
                with(r#""s1": {"host_ids": {"vg": 1, "vg": 1}}"#),
                &["members.s1.host_ids", "`vg` is there twice"],
            ),
            (with(r#""s1": {"host_ids": {"vg": 1}, "watchdogs": true}"#), &["members.s1", "watchdogs"]),
            (with(r#""s1": {"host_ids": {"vg": 1}, "watchdog": 1}"#), &["members.s1.watchdog"]),
            (with(r#""s1": {"host_ids": {"vg": 1}, "watchdog": null}"#), &["members.s1.watchdog"]),
            (
                with(r#""s1": {"host_ids": {"vg": 1}, "watchdog": true, "watchdog": false}"#),
                &["members.s1", "duplicate"],
            ),
            (
                with(r#""s1": {"host_ids": {"vg": 1}}, "s1": {"host_ids": {"vg": 2}}"#),
                &["`s1` is there twice"],
            ),
            (
                with(r#""s1": {"host_ids": {"vg": 7}}, "s2": {"host_ids": {"vg": 7}}"#),
                &["`s1` and `s2`", "id 7", "`vg`"],
            ),
        ];
        for (text, expected) in cases {
            let error = parse(&text).expect_err(&text);
            for part in expected {
                assert!(error.contains(part), "{text}: {error} lacks {part}");
            }
        }
        let too_large = " ".repeat(MAX_BYTES + 1);
        assert_eq!(LeaseConfig::parse(too_large.as_bytes()), Err(LeaseConfigError::TooLarge(MAX_BYTES + 1)));
    }
}
