//! The root documents. Source: tests/data/ironic/README.md section 1.7.

use serde_json::{Map, Value, json};

use super::Call;
use crate::Microversion;
use crate::error::ApiError;
use crate::reply::Success;

/// Resources that `/v1` names, with the version from which on it does.
const RESOURCES: [(&str, u16); 4] = [("chassis", 1), ("nodes", 1), ("ports", 1), ("drivers", 1)];
const LATER_RESOURCES: [(&str, u16); 12] = [
    ("portgroups", 23),
    ("volume", 32),
    ("lookup", 22),
    ("heartbeat", 22),
    ("conductors", 49),
    ("allocations", 52),
    ("events", 54),
    ("deploy_templates", 55),
    ("shards", 82),
    ("runbooks", 92),
    ("inspection_rules", 96),
    ("continue_inspection", 84),
];

/// `/`
pub(super) fn root(call: &Call<'_>) -> Success {
    let version = version_entry(call);
    body(&json!({
        "name": "OpenStack Ironic API",
        "description": "Ironic is an OpenStack project which enables the provision and management of baremetal \
                        machines.",
        "default_version": version,
        "versions": [version],
    }))
}

/// `/v1`
pub(super) fn version(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.query().only(&[]).map_err(|_| ApiError::no_resource())?;
    let base = call.base;
    let mut document = Map::new();
    document.insert("id".into(), "v1".into());
    document.insert(
        "links".into(),
        json!([
            {"href": format!("{base}/v1/"), "rel": "self"},
            {
                "href": "https://docs.openstack.org//ironic/latest/contributor//webapi.html",
                "rel": "describedby",
                "type": "text/html",
            },
        ]),
    );
    document.insert(
        "media_types".into(),
        json!({"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json"}),
    );
    for (name, since) in RESOURCES {
        add_resource(&mut document, call, name, since);
    }
    document.insert("version".into(), version_entry(call));
    for (name, since) in LATER_RESOURCES {
        add_resource(&mut document, call, name, since);
    }
    Ok(body(&Value::Object(document)))
}

fn add_resource(document: &mut Map<String, Value>, call: &Call<'_>, name: &str, since: u16) {
    if call.cx.version >= Microversion::new(since) {
        let base = call.base;
        document.insert(
            name.to_owned(),
            json!([
                {"href": format!("{base}/v1/{name}/"), "rel": "self"},
                {"href": format!("{base}/{name}/"), "rel": "bookmark"},
            ]),
        );
    }
}

fn version_entry(call: &Call<'_>) -> Value {
    json!({
        "id": "v1",
        "links": [{"href": format!("{}/v1/", call.base), "rel": "self"}],
        "status": "CURRENT",
        "min_version": Microversion::MIN.to_string(),
        "version": call.max.to_string(),
    })
}

fn body(value: &Value) -> Success {
    Success::json(apelora_maintenance::json::to_string(value).unwrap_or_default())
}
