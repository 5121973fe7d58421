//! Maintenance: the flag at every version, the entries from their version on.
//!
//! Source: tests/data/ironic/README.md section 4; docs/maintenance.md, *Entries*.

use apelora_maintenance::json;
use http::StatusCode;
use serde_json::{Map, Value};

use super::Call;
use crate::Microversion;
use crate::app::{NewEntry, ReadEntries, SeenEntry};
use crate::args::{self, Args};
use crate::error::ApiError;
use crate::node::render;
use crate::reply::Success;

/// PUT …/maintenance.
pub(super) async fn set(call: &Call<'_>) -> Result<Success, ApiError> {
    let args = call.request.arguments()?;
    args.only(&["reason"])?;
    let reason = args.text("reason")?.map(str::to_owned);
    call.app.set_maintenance(call.cx, call.ident()?, reason).await?;
    Ok(Success::empty(StatusCode::ACCEPTED))
}

/// DELETE …/maintenance.
pub(super) async fn clear(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.arguments()?.only(&[])?;
    call.app.clear_maintenance(call.cx, call.ident()?).await?;
    let status = if call.cx.version < Microversion::TYPED_MAINTENANCE {
        StatusCode::ACCEPTED
    } else {
        StatusCode::NO_CONTENT
    };
    Ok(Success::empty(status))
}

/// GET …/maintenance.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.query().only(&[])?;
    let read = call.app.entries(call.cx, call.ident()?).await?;
    let mut out = b"{\"maintenance\": [".to_vec();
    for (i, seen) in read.entries.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        write_entry(&mut out, call.base, &read.node_uuid, seen);
    }
    out.extend_from_slice(b"]}");
    Ok(Success::json(out))
}

/// GET …/maintenance/{entry}.
pub(super) async fn show(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.query().only(&[])?;
    let read = call.app.entry(call.cx, call.ident()?, call.tail()).await?;
    single(call, &read).map(|(_, body)| Success::json(body))
}

/// POST …/maintenance.
pub(super) async fn add(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.query().only(&[])?;
    let new = match call.request.json()? {
        Value::Object(members) => new_entry(members)?,
        other => {
            return Err(ApiError::bad_request(format!(
                "The request body must be an object with type, reason and extra: {}",
                crate::python::repr(&other)
            )));
        }
    };
    let read = call.app.add_entry(call.cx, call.ident()?, new).await?;
    let (location, body) = single(call, &read)?;
    Ok(Success::created(location, body))
}

/// DELETE …/maintenance/{entry}.
pub(super) async fn release(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.arguments()?.only(&[])?;
    call.app.release_entry(call.cx, call.ident()?, call.tail()).await?;
    Ok(Success::empty(StatusCode::NO_CONTENT))
}

/// The body of POST.
fn new_entry(members: Map<String, Value>) -> Result<NewEntry, ApiError> {
    let mut args = Args::default();
    args.merge(members);
    args.only(&["type", "reason", "extra"])?;
    let extra = match args.get("extra") {
        None => None,
        Some(Value::Object(extra)) => Some(json::to_string(extra).map_err(|_| ApiError::internal())?),
        Some(other) => return Err(args::expected("object", "extra", other)),
    };
    Ok(NewEntry {
        entry_type: args.mandatory_text("type")?.to_owned(),
        reason: args.text("reason")?.map(str::to_owned),
        extra,
    })
}

/// Location and body of a single entry.
fn single(call: &Call<'_>, read: &ReadEntries) -> Result<(String, Vec<u8>), ApiError> {
    let seen = read.entries.first().ok_or_else(ApiError::internal)?;
    let mut body = Vec::with_capacity(512);
    write_entry(&mut body, call.base, &read.node_uuid, seen);
    Ok((link(call.base, &read.node_uuid, seen), body))
}

fn link(base: &str, node_uuid: &str, seen: &SeenEntry) -> String {
    format!("{base}/v1/nodes/{node_uuid}/maintenance/{}", seen.entry.uuid)
}

pub(super) fn write_entry(out: &mut Vec<u8>, base: &str, node_uuid: &str, seen: &SeenEntry) {
    let entry = &seen.entry;
    let text = |out: &mut Vec<u8>, name: &str, value: Option<&str>| {
        out.extend_from_slice(b"\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\": ");
        match value {
            Some(value) => render::write_text(out, value),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b", ");
    };
    let asserter = |value| Some(value).filter(|_| !seen.asserter_hidden);
    out.push(b'{');
    text(out, "uuid", Some(&entry.uuid.to_string()));
    text(out, "type", Some(&entry.entry_type));
    text(out, "reason", entry.reason.as_deref());
    text(out, "scope", Some(entry.scope.as_str()));
    text(out, "asserted_by", asserter(entry.asserted_by.as_str()));
    text(out, "asserted_by_project", asserter(entry.asserted_by_project.as_str()));
    text(out, "asserted_at", Some(&json::iso(entry.asserted_at)));
    out.extend_from_slice(b"\"extra\": ");
    render::write_object(out, entry.extra.as_deref());
    out.extend_from_slice(b", \"links\": [{\"href\": ");
    render::write_text(out, &link(base, node_uuid, seen));
    out.extend_from_slice(b", \"rel\": \"self\"}]}");
}
