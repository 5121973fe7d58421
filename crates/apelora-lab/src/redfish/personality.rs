//! How the BMCs of real vendors look, from recorded and anonymised bodies (`tests/data/redfish/vendors`).

use serde_json::{Value, json};

/// The recorded bodies that show a whole server: name and text.
const RECORDED: [(&str, &str); 9] = [
    ("dell-idrac9-r750", include_str!("../../../../tests/data/redfish/vendors/dell-idrac9-r750.json")),
    (
        "hpe-ilo5-dl385-gen10plus",
        include_str!("../../../../tests/data/redfish/vendors/hpe-ilo5-dl385-gen10plus.json"),
    ),
    ("lenovo-xcc-sr670v2", include_str!("../../../../tests/data/redfish/vendors/lenovo-xcc-sr670v2.json")),
    ("supermicro-x12-510t", include_str!("../../../../tests/data/redfish/vendors/supermicro-x12-510t.json")),
    (
        "supermicro-x13-821ge",
        include_str!("../../../../tests/data/redfish/vendors/supermicro-x13-821ge.json"),
    ),
    ("gigabyte-h262", include_str!("../../../../tests/data/redfish/vendors/gigabyte-h262.json")),
    ("cisco-cimc-c220m4", include_str!("../../../../tests/data/redfish/vendors/cisco-cimc-c220m4.json")),
    ("nvidia-dgx-h100", include_str!("../../../../tests/data/redfish/vendors/nvidia-dgx-h100.json")),
    ("cray-nc-two-nodes", include_str!("../../../../tests/data/redfish/vendors/cray-nc-two-nodes.json")),
];

/// A recording cannot be used as a personality.
#[derive(Debug, thiserror::Error)]
pub enum PersonalityError {
    /// No recording of this name is built in.
    #[error("no recorded BMC is called `{name}`; there are {known}", name = .0, known = known())]
    Unknown(String),
    /// The text is not a recording with at least one system that has a path.
    #[error("this is no recording of a BMC: {0}")]
    Recording(String),
}

fn known() -> String {
    Personality::names().collect::<Vec<_>>().join(", ")
}

/// The looks and the manners of one vendor's BMC.
#[derive(Debug, Clone)]
pub struct Personality {
    pub(crate) root: Value,
    pub(crate) collection: Value,
    /// Path and body of each system.
    pub(crate) systems: Vec<(String, Value)>,
    /// The recorded answers to a `ForceOff`: status and body, by the power state before it.
    pub(crate) answers: Vec<(String, u16, Value)>,
    /// Whether a path without a trailing slash is redirected to the one with it, as HPE iLO 5 does.
    pub(crate) wants_slash: bool,
}

impl Personality {
    /// The names of the built-in recordings.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RECORDED.iter().map(|(name, _)| *name)
    }

    /// A built-in recording.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn named(name: &str) -> Result<Self, PersonalityError> {
        let (_, text) = RECORDED
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| PersonalityError::Unknown(name.to_owned()))?;
        Self::read(text)
    }

    /// Reads a recording in the form of `tests/data/redfish/vendors`.
    ///
    /// # Errors
    /// When it is not JSON or has no system with a path.
    pub fn read(text: &str) -> Result<Self, PersonalityError> {
        let recording: Value =
            serde_json::from_str(text).map_err(|why| PersonalityError::Recording(why.to_string()))?;
        let mut systems = Vec::new();
        for system in recording["system"].as_array().into_iter().flatten() {
            let path = system["@odata.id"]
                .as_str()
                .ok_or_else(|| PersonalityError::Recording("no path".to_owned()))?;
            systems.push((path.trim_end_matches('/').to_owned(), system.clone()));
        }
        if systems.is_empty() {
            return Err(PersonalityError::Recording("no system".to_owned()));
        }
        let members: Vec<Value> = systems.iter().map(|(path, _)| json!({ "@odata.id": path })).collect();
        let listed = json!({
            "@odata.id": "/redfish/v1/Systems", "Members@odata.count": members.len(), "Members": members,
        });
        let or = |recorded: &Value, otherwise: Value| {
            if recorded.is_object() { recorded.clone() } else { otherwise }
        };
        let answers = recording["reset_responses"].as_array().into_iter().flatten();
        Ok(Self {
            root: or(&recording["service_root"], json!({ "@odata.id": "/redfish/v1/" })),
            collection: or(&recording["systems"], listed),
            systems,
            answers: answers.filter_map(force_off_answer).collect(),
            wants_slash: recording["bmc"].as_str().is_some_and(|bmc| bmc.contains("iLO 5")),
        })
    }
}

fn force_off_answer(answer: &Value) -> Option<(String, u16, Value)> {
    let before = answer["state_before"].as_str()?.to_owned();
    let status = u16::try_from(answer["status"].as_u64()?).ok()?;
    (answer["request"]["ResetType"] == "ForceOff").then(|| (before, status, answer["body"].clone()))
}
