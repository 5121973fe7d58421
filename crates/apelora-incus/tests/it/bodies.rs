//! Bodies as Incus writes them, short.

use serde_json::{Value, json};

pub const OPERATION: &str = "/1.0/operations/95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d";

pub fn member(name: &str, status: &str) -> Value {
    json!({
        "server_name": name, "status": status, "message": "Fully operational", "roles": ["database"],
        "url": "https://10.118.1.11:8443", "database": true, "failure_domain": "default", "architecture": "x86_64",
        "groups": ["default"], "config": {}, "description": "",
    })
}

pub fn server(clustered: bool, config: &Value) -> Value {
    json!({
        "auth": "trusted", "config": config,
        "environment": {
            "server_name": "m1", "server_version": "6.0.4", "server_clustered": clustered,
            "architectures": ["x86_64"], "certificate_fingerprint": "00",
        },
    })
}

pub fn instance(name: &str) -> Value {
    json!({
        "name": name, "project": "default", "location": "m1", "status": "Running", "status_code": 103,
        "type": "container", "architecture": "x86_64", "ephemeral": false, "stateful": false,
        "config": {}, "devices": {}, "profiles": ["default"],
        "expanded_config": {"volatile.last_state.power": "RUNNING", "limits.memory": "2GiB", "user.secret": "x"},
        "expanded_devices": {"root": {"type": "disk", "path": "/", "pool": "shared"}},
    })
}

pub fn accepted_body(operation: &str) -> Value {
    json!({
        "type": "async", "status": "Operation created", "status_code": 100, "operation": operation, "error_code": 0,
        "error": "", "metadata": {},
    })
}

pub fn envelope(metadata: &Value) -> Value {
    json!({
        "type": "sync", "status": "Success", "status_code": 200, "operation": "", "error_code": 0, "error": "",
        "metadata": metadata,
    })
}

pub fn error_body(code: u16, text: &str) -> Value {
    json!({
        "type": "error", "status": "", "status_code": 0, "operation": "", "error_code": code, "error": text,
        "metadata": null,
    })
}
