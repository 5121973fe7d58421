//! The hardware types that nodes may have. Source: tests/data/ironic/README.md section 6.

use apelora_maintenance::json;
use serde_json::{Map, Value, json};

use super::Call;
use crate::Microversion;
use crate::authorise;
use crate::error::ApiError;
use crate::node::drivers::{self, DRIVERS, Driver};
use crate::reply::Success;

/// From this version on a hardware type tells its kind and can be asked for in detail.
const KIND_SINCE: Microversion = Microversion::new(30);
/// From this version on a driver links to its properties.
const PROPERTIES_SINCE: Microversion = Microversion::new(14);

/// GET /v1/drivers.
pub(super) fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    authorise::authorise(call.cx.caller, authorise::DRIVER_GET, None)?;
    let args = call.request.query();
    args.only(&["detail", "type"])?;
    let kind = args.text("type")?;
    let detail = args.bool("detail")?;
    if (kind.is_some() || detail.is_some()) && call.cx.version < KIND_SINCE {
        return Err(ApiError::newer_than(KIND_SINCE));
    }
    let detail = detail.unwrap_or(false);
    let drivers: Vec<_> = match kind {
        None | Some("dynamic") => DRIVERS.iter().map(|d| document(call, d, detail)).collect(),
        Some("classic") => Vec::new(),
        Some(_) => {
            return Err(ApiError::bad_request(
                "\"type\" filter must be one of \"classic\" or \"dynamic\", if specified.",
            ));
        }
    };
    body(&json!({"drivers": drivers}))
}

/// GET /v1/drivers/{name}.
pub(super) fn show(call: &Call<'_>) -> Result<Success, ApiError> {
    authorise::authorise(call.cx.caller, authorise::DRIVER_GET, None)?;
    call.request.query().only(&[])?;
    let name = call.tail();
    let driver = drivers::find(name).ok_or_else(|| {
        ApiError::not_found(format!("Could not find the following driver(s) or hardware type(s): {name}."))
    })?;
    body(&document(call, driver, true))
}

fn document(call: &Call<'_>, driver: &Driver, detail: bool) -> Value {
    let (base, name) = (call.base, driver.name);
    let links = |path: String| {
        json!([
            {"href": format!("{base}/v1/drivers/{path}"), "rel": "self"},
            {"href": format!("{base}/drivers/{path}"), "rel": "bookmark"},
        ])
    };
    let mut document = Map::new();
    document.insert("name".into(), name.into());
    document.insert("hosts".into(), json!([call.app.host()]));
    document.insert("links".into(), links(name.to_owned()));
    if call.cx.version >= PROPERTIES_SINCE {
        document.insert("properties".into(), links(format!("{name}/properties")));
    }
    if call.cx.version >= KIND_SINCE {
        document.insert("type".into(), "dynamic".into());
        if detail {
            for interface in driver.interfaces {
                let kind = interface.kind;
                document.insert(format!("default_{kind}_interface"), interface.valid.first().copied().into());
                document.insert(format!("enabled_{kind}_interfaces"), json!(interface.valid));
            }
        }
    }
    Value::Object(document)
}

fn body(value: &Value) -> Result<Success, ApiError> {
    json::to_string(value).map(Success::json).map_err(|_| ApiError::internal())
}
