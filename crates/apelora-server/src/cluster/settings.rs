//! The settings in force: `GET /apelora/v1/settings`.

use super::view::{BmcMap, MapEntry, Setting, Settings};
use crate::authorise::{self, authorise};
use crate::baremetal::Call;
use crate::error::ApiError;
use crate::reply::Success;

/// GET /apelora/v1/settings.
pub(super) async fn show(call: &Call<'_>) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::SETTINGS_GET, None)?;
    call.request.query().only(&[])?;
    let look = call.app.look().await?;
    let report = look.report();
    super::json(&Settings {
        leader: look.leader(),
        worker: report.iter().flat_map(|report| report.settings.iter().map(Setting::from)).collect(),
        server: call.app.settings().iter().map(Setting::from).collect(),
        map: report.map(|report| BmcMap::from(&report.map)),
        map_entries: report.iter().flat_map(|report| report.map.members.iter().map(MapEntry::from)).collect(),
    })
}
