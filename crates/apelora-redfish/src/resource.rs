//! Reading Redfish resources strictly: the members that matter may not be repeated and must have their type.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{RedfishError, SystemPath};

/// The longest identity that is looked at, in bytes: 8-4-4-4-12 hexadecimal digits.
const UUID_LENGTH: usize = 36;

/// What a BMC says about a system, in one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The system.
    pub system: SystemPath,
    /// Its identity as reported.
    pub uuid: ReportedUuid,
    /// Its power state as reported.
    pub power: PowerWord,
    /// Its reset target, or why there is none.
    pub(crate) reset: Result<String, NoReset>,
    /// Which reading it is.
    pub(crate) reading: Reading,
}

/// Which reading of which conversation; the conversation numbers them from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) conversation: u64,
    pub(crate) count: u64,
}

impl Reported {
    /// Why this system could not be switched off, if so. Reading is not affected.
    ///
    /// # Errors
    /// When the BMC offers no reset, no `ForceOff`, or a reset of something else.
    pub fn reset_offered(&self) -> Result<(), NoReset> {
        self.reset.as_ref().map(|_| ()).map_err(|&why| why)
    }
}

/// The `UUID` property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedUuid {
    /// Absent, null or empty.
    Missing,
    /// Not 8-4-4-4-12 hexadecimal digits.
    Malformed,
    /// As reported, in its own letter case.
    Text(String),
}

impl ReportedUuid {
    fn of(text: Option<String>) -> Self {
        match text {
            None => Self::Missing,
            Some(text) if text.is_empty() => Self::Missing,
            Some(text) if is_uuid(&text) => Self::Text(text),
            Some(_) => Self::Malformed,
        }
    }

    /// The text, when it has the form of a UUID.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Malformed => None,
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == UUID_LENGTH
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The `PowerState` property (ComputerSystem schema, `Resource.PowerState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerWord {
    /// `On`.
    On,
    /// `Off`: the only word that means off.
    Off,
    /// `PoweringOn`: still running for this purpose.
    PoweringOn,
    /// `PoweringOff`: still running for this purpose.
    PoweringOff,
    /// `Paused`: still running for this purpose.
    Paused,
    /// Absent, null or any other word, also one that differs in letter case only.
    Unknown,
}

impl PowerWord {
    const KNOWN: [Self; 5] = [Self::On, Self::Off, Self::PoweringOn, Self::PoweringOff, Self::Paused];

    fn of(word: Option<&str>) -> Self {
        Self::KNOWN.into_iter().find(|known| word.is_some() && known.word() == word).unwrap_or(Self::Unknown)
    }

    /// The property's word; none for an unknown one, whatever it was.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::On => Some("On"),
            Self::Off => Some("Off"),
            Self::PoweringOn => Some("PoweringOn"),
            Self::PoweringOff => Some("PoweringOff"),
            Self::Paused => Some("Paused"),
            Self::Unknown => None,
        }
    }

    /// Whether the system must be taken as running.
    #[must_use]
    pub fn is_running(self) -> bool {
        !matches!(self, Self::Off | Self::Unknown)
    }
}

impl std::fmt::Display for PowerWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word().unwrap_or("no known power state"))
    }
}

/// Why a system cannot be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoReset {
    /// No `#ComputerSystem.Reset` with a target.
    #[error(
        "the BMC offers no reset for this system: give the path of the server itself, not of a part of it"
    )]
    NotOffered,
    /// `ForceOff` is not among the allowable values. Nothing else is ever used instead.
    #[error("the BMC does not allow ForceOff for this system: check the account's role and the firmware")]
    NotAllowed,
    /// The target is not this system's own reset.
    #[error(
        "the BMC's reset target is not the reset of this system, and is never used: report it to the vendor"
    )]
    Foreign,
}

#[derive(Deserialize)]
struct ComputerSystem {
    #[serde(rename = "@odata.id")]
    id: Option<String>,
    #[serde(rename = "UUID")]
    uuid: Option<String>,
    #[serde(rename = "PowerState")]
    power: Option<String>,
    #[serde(rename = "Actions")]
    actions: Option<Actions>,
}

#[derive(Deserialize)]
struct Actions {
    #[serde(rename = "#ComputerSystem.Reset")]
    reset: Option<Reset>,
}

#[derive(Deserialize)]
struct Reset {
    target: Option<String>,
    #[serde(rename = "ResetType@Redfish.AllowableValues")]
    allowable: Option<Vec<String>>,
}

/// Reads the answer to a GET of `system`. It is no reading of a conversation yet.
pub(crate) fn computer_system(body: &[u8], system: &SystemPath) -> Result<Reported, RedfishError> {
    let found: ComputerSystem = strict(body, system.as_str())?;
    if !found.id.as_deref().is_some_and(|id| system.is(id)) {
        return Err(RedfishError::SystemPath { asked: system.clone() });
    }
    Ok(Reported {
        system: system.clone(),
        uuid: ReportedUuid::of(found.uuid),
        power: PowerWord::of(found.power.as_deref()),
        reset: reset_target(found.actions, system),
        reading: Reading::default(),
    })
}

fn reset_target(actions: Option<Actions>, system: &SystemPath) -> Result<String, NoReset> {
    let reset = actions.and_then(|actions| actions.reset).ok_or(NoReset::NotOffered)?;
    let target = reset.target.ok_or(NoReset::NotOffered)?;
    // Many BMCs list the values elsewhere (`@Redfish.ActionInfo`) or nowhere: absent is no objection.
    if reset.allowable.is_some_and(|values| !values.iter().any(|value| value == "ForceOff")) {
        return Err(NoReset::NotAllowed);
    }
    if system.owns_reset(&target) { Ok(target) } else { Err(NoReset::Foreign) }
}

#[derive(Deserialize)]
struct Collection {
    #[serde(rename = "Members")]
    members: Option<Vec<Link>>,
    #[serde(rename = "Members@odata.nextLink")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Link {
    #[serde(rename = "@odata.id")]
    id: String,
}

/// Reads the collection of systems: 1 to `most` of them, complete.
pub(crate) fn systems(body: &[u8], path: &str, most: usize) -> Result<Vec<SystemPath>, RedfishError> {
    let collection: Collection = strict(body, path)?;
    let members = collection.members.unwrap_or_default();
    if members.len() > most || collection.next.is_some() {
        return Err(RedfishError::TooManySystems(members.len()));
    }
    if members.is_empty() {
        return Err(RedfishError::NoSystem);
    }
    members.iter().map(|link| SystemPath::parse(&link.id).map_err(|_| RedfishError::ForeignMember)).collect()
}

/// Parses a body. The parser's own words are not kept: they can quote the body.
fn strict<T: DeserializeOwned>(body: &[u8], path: &str) -> Result<T, RedfishError> {
    serde_json::from_slice(body).map_err(|why| RedfishError::BadJson {
        path: path.to_owned(),
        line: why.line(),
        column: why.column(),
    })
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(rename = "@Message.ExtendedInfo", default)]
    info: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    // iLO 4 spells it with a capital D.
    #[serde(rename = "MessageId", alias = "MessageID")]
    id: Option<String>,
}

/// The first message id of an error answer. Texts of a BMC are not repeated: they could quote the request.
pub(crate) fn message_id(body: &[u8]) -> Option<String> {
    let body: ErrorBody = serde_json::from_slice(body).ok()?;
    let id = body.error.info.into_iter().find_map(|message| message.id)?;
    is_message_id(&id).then_some(id)
}

/// `Registry.Major.Minor[.Errata].Key` (DSP0266 section 9.5.11.2). An echoed credential does not have this form: base64
/// has no dots.
fn is_message_id(id: &str) -> bool {
    let parts: Vec<&str> = id.split('.').collect();
    let [registry, versions @ .., key] = parts.as_slice() else { return false };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    id.len() <= 80
        && word(registry)
        && word(key)
        && (2..=3).contains(&versions.len())
        && versions.iter().all(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(body: &str) -> Result<Reported, RedfishError> {
        computer_system(body.as_bytes(), &SystemPath::parse("/redfish/v1/Systems/1").unwrap())
    }

    #[test]
    fn members_that_matter_may_not_be_repeated() {
        for twice in [
            r#""UUID":"a","UUID":"b""#,
            r#""PowerState":"Off","PowerState":"On""#,
            r##""Actions":{"#ComputerSystem.Reset":{},"#ComputerSystem.Reset":{}}"##,
            r##""Actions":{"#ComputerSystem.Reset":{"target":"a","target":"b"}}"##,
            r#""Actions":{},"Actions":{}"#,
            r#""@odata.id":"/redfish/v1/Systems/1""#,
        ] {
            let body = format!(r#"{{"@odata.id":"/redfish/v1/Systems/1",{twice}}}"#);
            assert!(matches!(reported(&body), Err(RedfishError::BadJson { .. })), "{body}");
        }
    }

    #[test]
    fn members_that_matter_have_their_type() {
        for wrong in [
            r#""UUID":1"#,
            r#""UUID":["a"]"#,
            r#""PowerState":true"#,
            r#""PowerState":{}"#,
            r#""Actions":[]"#,
            r##""Actions":{"#ComputerSystem.Reset":"x"}"##,
            r##""Actions":{"#ComputerSystem.Reset":{"target":1}}"##,
            r##""Actions":{"#ComputerSystem.Reset":{"ResetType@Redfish.AllowableValues":"ForceOff"}}"##,
        ] {
            let body = format!(r#"{{"@odata.id":"/redfish/v1/Systems/1",{wrong}}}"#);
            assert!(matches!(reported(&body), Err(RedfishError::BadJson { .. })), "{body}");
        }
    }

    #[test]
    fn what_is_missing_is_unknown() {
        let bare = reported(r#"{"@odata.id":"/redfish/v1/Systems/1/"}"#).unwrap();
        assert_eq!((&bare.uuid, bare.power), (&ReportedUuid::Missing, PowerWord::Unknown));
        assert_eq!(bare.reset_offered(), Err(NoReset::NotOffered));
        for word in ["off", "OFF", "Off ", " Off", "Of", "", "Reset", "Poweroff"] {
            let body = format!(r#"{{"@odata.id":"/redfish/v1/Systems/1","PowerState":"{word}"}}"#);
            assert_eq!(reported(&body).unwrap().power, PowerWord::Unknown, "{word}");
        }
        for uuid in ["x", "5d1c0f6e3b7a4c029a410c4de99a1b27", "{5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27}"] {
            let body = format!(r#"{{"@odata.id":"/redfish/v1/Systems/1","UUID":"{uuid}"}}"#);
            assert_eq!(reported(&body).unwrap().uuid, ReportedUuid::Malformed, "{uuid}");
        }
    }

    #[test]
    fn nothing_but_one_whole_object_is_read() {
        let good = r#"{"@odata.id":"/redfish/v1/Systems/1"}"#;
        assert!(reported(good).is_ok());
        for body in ["", "null", "[]", "{}{}", &format!("{good}x"), &good[..20], &format!("\u{feff}{good}")] {
            assert!(matches!(reported(body), Err(RedfishError::BadJson { .. })), "{body}");
        }
        assert!(matches!(reported("{}"), Err(RedfishError::SystemPath { .. })));
        // Nesting without end is skipped without recursion.
        let deep = format!(r#"{{"@odata.id":"/redfish/v1/Systems/1","Oem":{}"#, "[".repeat(1 << 20));
        assert!(matches!(reported(&deep), Err(RedfishError::BadJson { .. })));
    }

    #[test]
    fn a_collection_is_complete_or_refused() {
        let found = |body: &str| systems(body.as_bytes(), "/redfish/v1/Systems", 2);
        let one = r#"{"@odata.id":"/redfish/v1/Systems/1"}"#;
        assert_eq!(found(&format!(r#"{{"Members":[{one}]}}"#)).unwrap().len(), 1);
        assert_eq!(found(&format!(r#"{{"Members":[{one},{one}]}}"#)).unwrap().len(), 2);
        for (body, reason) in [
            (format!(r#"{{"Members":[{one},{one},{one}]}}"#), "too_many_systems"),
            (
                format!(r#"{{"Members":[{one}],"Members@odata.nextLink":"/redfish/v1/Systems?$skip=1"}}"#),
                "too_many_systems",
            ),
            (r#"{"Members":[]}"#.to_owned(), "no_system"),
            (r#"{"Members":null}"#.to_owned(), "no_system"),
            ("{}".to_owned(), "no_system"),
            (r#"{"Members":[{}]}"#.to_owned(), "bad_json"),
            (format!(r#"{{"Members":[{one}],"Members":[]}}"#), "bad_json"),
            (r#"{"Members":[{"@odata.id":"/redfish/v1/Chassis/1"}]}"#.to_owned(), "target_foreign"),
        ] {
            assert_eq!(found(&body).unwrap_err().reason(), reason, "{body}");
        }
    }

    #[test]
    fn a_message_id_has_the_form_of_one() {
        for good in
            ["Base.1.4.Success", "Base.1.16.0.ResourceNotFound", "iLO.0.10.ExtendedInfo", "IDRAC.2.4.RAC0218"]
        {
            assert!(is_message_id(good), "{good}");
        }
        for bad in [
            "",
            "Success",
            "Base.Success",
            "Base.1.Success",
            "Base.1.a.Success",
            "Base.1.2.",
            "Base.1.2.3.4.Success",
            "Base.1.4.Suc cess",
            "QmFzZTE0U3VjY2Vzcw",
            &format!("Base.1.4.{}", "x".repeat(80)),
        ] {
            assert!(!is_message_id(bad), "{bad}");
        }
    }
}
