//! Reading the map file: strict JSON, a closed list of keys, and the checks across members.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Error as _, MapAccess, Visitor};
use sha2::{Digest, Sha256};

use super::{Access, Address, BmcMap, CipherSuite, MapEntry, MapError, MapSha, SecretName};
use crate::identity::{ByteOrder, MappedIdentity, SystemUuid};
use crate::name::MemberName;

const MAX_BYTES: usize = 4 << 20;
const HTTPS_PORT: u16 = 443;
const IPMI_PORT: u16 = 623;
const SECRET_PREFIX: &str = "APELORA_BMC_SECRET_";
const LAB_PREFIX: &str = "apelora-";
const SYSTEM_PREFIX: &str = "/redfish/v1/Systems/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMap {
    members: RawMembers,
}

/// The members in file order. `serde_json` would keep the last of two equal keys; here the second is an error.
struct RawMembers(Vec<(String, RawEntry)>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    provider: RawProvider,
    address: String,
    system: Option<String>,
    user: Option<String>,
    secret: Option<String>,
    kg_secret: Option<String>,
    ca_file: Option<String>,
    uuid: Option<String>,
    cipher_suites: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawProvider {
    Redfish,
    Ipmi,
    Lima,
}

impl<'de> Deserialize<'de> for RawMembers {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of members by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers, A::Error> {
                let mut members: Vec<(String, RawEntry)> = Vec::new();
                let mut seen = std::collections::BTreeSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("member `{name}` is there twice")));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(RawMembers(members))
            }
        }
        d.deserialize_map(Members)
    }
}

pub(super) fn parse(bytes: &[u8], never_stop: &[String]) -> Result<BmcMap, MapError> {
    if bytes.len() > MAX_BYTES {
        return Err(MapError::TooLarge(bytes.len()));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let raw: RawMap =
        serde_path_to_error::deserialize(&mut json).map_err(|e| MapError::Json(e.to_string()))?;
    json.end().map_err(|e| MapError::Json(e.to_string()))?;

    let mut members = BTreeMap::new();
    for (name, raw) in raw.members.0 {
        let entry = check(&name, raw, never_stop)?;
        members.insert(MemberName::from(name.as_str()), Arc::new(entry));
    }
    no_twins(&members)?;
    Ok(BmcMap { sha: MapSha(Sha256::digest(bytes).into()), members })
}

/// Checks one entry by itself.
struct Entry<'a> {
    member: &'a str,
}

impl Entry<'_> {
    fn wrong<T>(&self, key: &'static str, problem: impl Into<String>) -> Result<T, MapError> {
        Err(MapError::Entry { member: self.member.into(), key, problem: problem.into() })
    }

    fn required(&self, key: &'static str, value: Option<String>) -> Result<String, MapError> {
        value.map_or_else(|| self.wrong(key, "is missing; this provider needs it"), Ok)
    }

    fn unused<T>(&self, key: &'static str, value: Option<&T>) -> Result<(), MapError> {
        value.map_or(Ok(()), |_| self.wrong(key, "means nothing to this provider; remove it"))
    }

    fn address(&self, text: &str, port: u16) -> Result<Address, MapError> {
        Address::parse(text, port).or_else(|e| self.wrong("address", e.to_string()))
    }

    fn user(&self, value: Option<String>, most: usize) -> Result<String, MapError> {
        let user = self.required("user", value)?;
        if user.is_empty() || user.len() > most || user.contains(|c: char| c.is_control() || c == ':') {
            return self
                .wrong("user", format!("must have 1 to {most} bytes without colons and control characters"));
        }
        Ok(user)
    }

    fn secret(&self, key: &'static str, name: String) -> Result<SecretName, MapError> {
        let tail = name.strip_prefix(SECRET_PREFIX).unwrap_or("");
        let fine = !tail.is_empty()
            && name.len() <= 128
            && tail.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if !fine {
            // The value is not repeated: somebody may have written the password itself here.
            return self.wrong(
                key,
                format!("must be the name of a variable: {SECRET_PREFIX} and then A-Z, 0-9 and _"),
            );
        }
        Ok(SecretName(name))
    }

    fn uuid(&self, value: Option<String>) -> Result<SystemUuid, MapError> {
        let text = self.required("uuid", value)?;
        let uuid: SystemUuid = text.parse().or_else(|e| self.wrong("uuid", format!("is {e}")))?;
        if uuid.is_placeholder() {
            return self
                .wrong("uuid", format!("{uuid} is a placeholder that firmware prints when it knows none"));
        }
        Ok(uuid)
    }

    fn system(&self, value: Option<String>) -> Result<Option<String>, MapError> {
        let Some(path) = value else { return Ok(None) };
        let segment = path.strip_prefix(SYSTEM_PREFIX).map(|s| s.strip_suffix('/').unwrap_or(s));
        match segment {
            Some(s) if is_segment(s) => Ok(Some(format!("{SYSTEM_PREFIX}{s}"))),
            _ => self.wrong("system", format!("must be {SYSTEM_PREFIX} and one path segment")),
        }
    }

    fn cipher_suites(&self, value: Option<&[u8]>) -> Result<Vec<CipherSuite>, MapError> {
        match value {
            None | Some([17, 3]) => Ok(vec![CipherSuite::Suite17, CipherSuite::Suite3]),
            Some([17]) => Ok(vec![CipherSuite::Suite17]),
            Some([3]) => Ok(vec![CipherSuite::Suite3]),
            Some(_) => self.wrong("cipher_suites", "must be [17], [3] or [17, 3]"),
        }
    }
}

/// One segment of a path, in characters that need no escaping and mean nothing to a server.
fn is_segment(s: &str) -> bool {
    !s.is_empty()
        && s.len() <= 255
        && s != "."
        && s != ".."
        && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'~' | b':'))
}

fn check(member: &str, raw: RawEntry, never_stop: &[String]) -> Result<MapEntry, MapError> {
    let e = Entry { member };
    if member.is_empty() || member.len() > 255 || member.contains(|c: char| c.is_control() || c == '/') {
        return e.wrong("members", "has a name that no cluster member can have");
    }
    match raw.provider {
        RawProvider::Redfish => {
            e.unused("kg_secret", raw.kg_secret.as_ref())?;
            e.unused("cipher_suites", raw.cipher_suites.as_ref())?;
            if raw.ca_file.as_deref().is_some_and(|f| !f.starts_with('/') || f.contains('\0')) {
                return e.wrong("ca_file", "must be an absolute path");
            }
            Ok(MapEntry {
                access: Access::Redfish {
                    address: e.address(&raw.address, HTTPS_PORT)?,
                    system: e.system(raw.system)?,
                    user: e.user(raw.user, 255)?,
                    secret: e.secret("secret", e.required("secret", raw.secret)?)?,
                    ca_file: raw.ca_file,
                },
                identity: MappedIdentity::Exact(e.uuid(raw.uuid)?),
            })
        }
        RawProvider::Ipmi => {
            e.unused("system", raw.system.as_ref())?;
            e.unused("ca_file", raw.ca_file.as_ref())?;
            Ok(MapEntry {
                access: Access::Ipmi {
                    address: e.address(&raw.address, IPMI_PORT)?,
                    user: e.user(raw.user, 16)?,
                    secret: e.secret("secret", e.required("secret", raw.secret)?)?,
                    kg_secret: raw.kg_secret.map(|k| e.secret("kg_secret", k)).transpose()?,
                    cipher_suites: e.cipher_suites(raw.cipher_suites.as_deref())?,
                },
                identity: MappedIdentity::AnyOrder(e.uuid(raw.uuid)?),
            })
        }
        RawProvider::Lima => {
            for (key, value) in [
                ("system", &raw.system),
                ("user", &raw.user),
                ("secret", &raw.secret),
                ("kg_secret", &raw.kg_secret),
                ("ca_file", &raw.ca_file),
                ("uuid", &raw.uuid),
            ] {
                e.unused(key, value.as_ref())?;
            }
            e.unused("cipher_suites", raw.cipher_suites.as_ref())?;
            let vm = raw.address;
            let tail = vm.strip_prefix(LAB_PREFIX).unwrap_or("");
            if !is_segment(tail) || tail.contains(':') {
                return e.wrong("address", format!("must be the name of a lab VM: {LAB_PREFIX}…"));
            }
            if never_stop.contains(&vm) {
                return e.wrong("address", format!("{vm} serves the storage and is never stopped"));
            }
            Ok(MapEntry { access: Access::Lima { vm: vm.clone() }, identity: MappedIdentity::LabName(vm) })
        }
    }
}

/// Refuses two members that lead to one BMC or that one BMC could answer for.
fn no_twins(members: &BTreeMap<MemberName, Arc<MapEntry>>) -> Result<(), MapError> {
    let twins = |a: &MemberName, b: &MemberName, problem| {
        Err(MapError::Twins { a: a.to_string(), b: b.to_string(), problem })
    };
    // Every byte string that some BMC might send for a member; a second member with one of them could be the same machine.
    let mut sent: BTreeMap<[u8; 16], &MemberName> = BTreeMap::new();
    let mut by_host: BTreeMap<String, Vec<(&MemberName, &MapEntry)>> = BTreeMap::new();
    for (name, entry) in members {
        if let Some(uuid) = entry.identity.uuid() {
            for order in ByteOrder::ALL {
                match sent.insert(uuid.encoded(order), name) {
                    Some(other) if other != name => {
                        return twins(other, name, "have UUIDs that are equal up to byte order");
                    }
                    _ => {}
                }
            }
        }
        let host = match &entry.access {
            Access::Redfish { address, .. } | Access::Ipmi { address, .. } => address.host(),
            Access::Lima { vm } => vm.clone(),
        };
        let others = by_host.entry(host).or_default();
        for (other, there) in &*others {
            if one_bmc(there, entry) {
                return twins(other, name, "lead to one BMC");
            }
        }
        others.push((name, entry));
    }
    Ok(())
}

/// Whether two entries address one server. A Redfish service may stand for several, told apart by `system`.
fn one_bmc(a: &MapEntry, b: &MapEntry) -> bool {
    match (&a.access, &b.access) {
        (Access::Redfish { address: at, system: a, .. }, Access::Redfish { address: bt, system: b, .. }) => {
            at == bt && (a.is_none() || b.is_none() || a == b)
        }
        (Access::Ipmi { address: a, .. }, Access::Ipmi { address: b, .. }) => a == b,
        // One BMC offers both, each on its usual port.
        (Access::Redfish { address: r, .. }, Access::Ipmi { address: i, .. })
        | (Access::Ipmi { address: i, .. }, Access::Redfish { address: r, .. }) => {
            r.same_host(i) && r.port() == HTTPS_PORT && i.port() == IPMI_PORT
        }
        (Access::Lima { vm: a }, Access::Lima { vm: b }) => a == b,
        _ => false,
    }
}
