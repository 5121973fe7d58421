//! Finding the one system with a UUID behind a BMC.

use tokio::time::Instant;
use uuid::Uuid;

use crate::link::Link;
use crate::resource::{computer_system, systems};
use crate::system_path::SYSTEMS;
use crate::{RedfishError, SystemPath};

/// At most so many systems are looked through.
const MOST_SYSTEMS: usize = 16;

/// Reads every listed system. Each must be readable and exactly one must carry the UUID: otherwise it is not known which
/// one is meant, or whether it is the only one.
pub(crate) async fn find(link: &mut Link, wanted: Uuid, by: Instant) -> Result<SystemPath, RedfishError> {
    let collection = link.read(SYSTEMS, by).await?;
    let mut seen = Vec::new();
    for path in systems(&collection, SYSTEMS, MOST_SYSTEMS)? {
        let body = link.read(path.as_str(), by).await?;
        let system = computer_system(&body, &path)?;
        seen.push((path, system.uuid.text().map(str::to_owned)));
    }
    let text = wanted.hyphenated().to_string();
    let carries = |(_, uuid): &&(SystemPath, Option<String>)| {
        uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(&text))
    };
    let mut carrying = seen.iter().filter(carries);
    match (carrying.next(), carrying.next()) {
        (Some((path, _)), None) => Ok(path.clone()),
        (Some(_), Some(_)) => Err(RedfishError::Ambiguous(wanted)),
        (None, _) => Err(RedfishError::NoneCarries { wanted, seen }),
    }
}
