//! The cluster API below `/apelora/v1`: members and their fencing, the audit trail, the settings.
//!
//! The server never talks to a BMC and knows nothing of the cluster but what stands in the database: what the leader of the
//! workers reported, and what was stored. The only things that it writes are a person's words.

mod audit;
mod csv;
pub(crate) mod detail;
mod figures;
mod look;
mod members;
mod record;
pub(crate) mod route;
mod settings;
pub(crate) mod view;
mod words;

use apelora_fencing::name::MemberName;
use apelora_maintenance::json;
use serde::Serialize;
use tracing::error;

pub(crate) use audit::{AuditRow, AuditTrail};
pub(crate) use figures::{Figures, Gauges};
pub(crate) use route::ClusterRoute;

use crate::baremetal::Call;
use crate::error::ApiError;
use crate::reply::Success;
use crate::route::Route;

/// The longest name of a member, in characters.
const NAME_MAX: usize = 255;

/// Does what the request is for. The endpoint was found, so the method fits.
pub(crate) async fn answer(call: &Call<'_>) -> Result<Success, ApiError> {
    let Route::Cluster(route) = call.route else { return Err(ApiError::no_resource()) };
    match route {
        ClusterRoute::Members => members::list(call).await,
        ClusterRoute::Member(name) => members::show(call, name).await,
        ClusterRoute::Explain(name) => members::explain(call, name).await,
        ClusterRoute::ConfirmOff(name) => words::confirm_off(call, name).await,
        ClusterRoute::Trust(name) => words::trust(call, name).await,
        ClusterRoute::Records => record::list(call).await,
        ClusterRoute::Record(id) => record::show(call, id).await,
        ClusterRoute::Audit => audit::list(call).await,
        ClusterRoute::Settings => settings::show(call).await,
    }
}

/// A member's name as it stands in a request.
///
/// # Errors
/// 400 for what cannot be one.
fn member_name(text: &str) -> Result<MemberName, ApiError> {
    if (1..=NAME_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        return Ok(MemberName::from(text));
    }
    Err(ApiError::bad_request(format!(
        "The name of a member has 1 to {NAME_MAX} characters and no control characters"
    )))
}

/// 404 for a member that is neither stored nor reported.
fn no_member(name: &MemberName) -> ApiError {
    ApiError::not_found(format!("Member {name} could not be found."))
}

/// 200 with this value.
fn json(value: &impl Serialize) -> Result<Success, ApiError> {
    json::to_string(value).map(Success::json).map_err(unwritable)
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn unwritable(why: serde_json::Error) -> ApiError {
    error!(?why, "an answer could not be written");
    ApiError::internal()
}
