//! Single nodes, and the refusals of what this service does not do with them.

use apelora_store::NodeColumn;
use http::{Method, StatusCode};
use serde_json::Value;

use super::{Call, listing};
use crate::authorise::{self, Rule};
use crate::error::ApiError;
use crate::node::render::{self, Selection, View};
use crate::node::{create as creation, patch};
use crate::python;
use crate::reply::Success;
use crate::route::Route;

/// POST /v1/nodes.
pub(super) async fn create(call: &Call<'_>) -> Result<Success, ApiError> {
    let body = call.request.json()?;
    no_arguments(call)?;
    let new = creation::parse(&body, call.cx.version)?;
    let row = call.app.create_node(call.cx, &new).await?;
    let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
    let location = format!("{}/v1/nodes/{uuid}", call.base);
    Ok(Success::created(location, render::node(&row, &Selection::all(call.cx.version), &call.view())))
}

/// GET /v1/nodes/{ident}.
pub(super) async fn show(call: &Call<'_>) -> Result<Success, ApiError> {
    let args = call.request.query();
    args.only(&["fields"])?;
    let selection = match args.names("fields")? {
        Some(names) => Selection::of(&listing::selected(&names, call.cx.version)?, call.cx.version),
        None => Selection::all(call.cx.version),
    };
    let row = call.app.node(call.cx, call.ident()?, authorise::NODE_GET, &selection.columns()).await?;
    Ok(Success::json(render::node(&row, &selection, &call.view())))
}

/// PATCH /v1/nodes/{ident}.
pub(super) async fn update(call: &Call<'_>) -> Result<Success, ApiError> {
    let body = call.request.json()?;
    let args = call.request.query();
    args.only(&["reset_interfaces"])?;
    let patch = patch::parse(&body, args.bool("reset_interfaces")?, call.cx.version)?;
    let row = call.app.update_node(call.cx, call.ident()?, &patch).await?;
    let view = View { held: true, ..call.view() };
    Ok(Success::json(render::node(&row, &Selection::all(call.cx.version), &view)))
}

/// DELETE /v1/nodes/{ident}.
pub(super) async fn delete(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.arguments()?.only(&[])?;
    call.app.delete_node(call.cx, call.ident()?).await?;
    Ok(Success::empty(StatusCode::NO_CONTENT))
}

/// GET /v1/nodes/{ident}/states.
pub(super) async fn states(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.query().only(&[])?;
    let selection = Selection::states(call.cx.version);
    let row = call.app.node(call.cx, call.ident()?, authorise::NODE_STATES_GET, &selection.columns()).await?;
    Ok(Success::json(render::node(&row, &selection, &call.view())))
}

/// PUT /v1/nodes/{ident}/states/{state}.
pub(super) async fn refuse_state(call: &Call<'_>) -> Result<Success, ApiError> {
    call.app.node(call.cx, call.ident()?, rule_of_state(call.tail()), &[]).await?;
    Err(ApiError::bad_request(format!(
        "This service, Apelora, keeps nodes, their maintenance and their history. It does not change the {} state of \
         nodes through this API: ask the service that provisions them.",
        call.tail()
    )))
}

/// The rule for a change of this kind of state.
fn rule_of_state(state: &str) -> Rule {
    match state {
        "provision" | "service" => "baremetal:node:set_provision_state",
        "raid" => "baremetal:node:set_raid_state",
        "console" => "baremetal:node:set_console_state",
        "boot_mode" => "baremetal:node:set_boot_mode",
        "secure_boot" => "baremetal:node:set_secure_boot",
        "indicators" => "baremetal:node:set_indicator_state",
        _ => authorise::NODE_SET_POWER,
    }
}

/// Routes that only refuse, each with the reference's words where it has some.
pub(super) async fn refuse(call: &Call<'_>) -> Result<Success, ApiError> {
    match call.route {
        Route::Nodes | Route::MissingIdent => {
            Err(ApiError::bad_request("Missing mandatory parameter: node_ident"))
        }
        // The reference takes the ident for the body.
        Route::Node(ident) if call.request.method == Method::POST => Err(ApiError::bad_request(format!(
            "Schema error for node: {} is not of type 'object'",
            python::repr(&Value::from(ident.text.as_str()))
        ))),
        Route::NodePart(ident, part) => {
            call.app.node(call.cx, ident, authorise::NODE_GET, &[]).await?;
            Err(elsewhere(part))
        }
        Route::TooDeep(ident) | Route::NodeRest(ident) => {
            call.app.node(call.cx, ident, authorise::NODE_GET, &[]).await?;
            Err(ApiError::no_resource())
        }
        Route::Elsewhere(resource) => Err(elsewhere(resource)),
        _ => Err(ApiError::no_resource()),
    }
}

/// 404 that tells where to look.
fn elsewhere(resource: &str) -> ApiError {
    ApiError::not_found(format!(
        "This service, Apelora, keeps nodes, their maintenance and their history, and no {resource}: ask the service \
         that provisions the nodes."
    ))
}

/// Refuses arguments beside the body.
fn no_arguments(call: &Call<'_>) -> Result<(), ApiError> {
    call.request.form_arguments().only(&[])
}
