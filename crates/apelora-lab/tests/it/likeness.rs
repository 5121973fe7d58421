//! Whether a simulated body is like a recorded one: the same keys and kinds of values everywhere, and the same values
//! wherever a value is not one machine's or one moment's.

use serde_json::Value;

/// Keys whose values belong to one machine or one moment.
const OF_THE_MOMENT: [&str; 42] = [
    "id",
    "operation",
    "created_at",
    "updated_at",
    "last_used_at",
    "url",
    "api_extensions",
    "addresses",
    "certificate",
    "certificate_fingerprint",
    "server_pid",
    "cluster.https_address",
    "core.https_address",
    "volatile.base_image",
    "volatile.cloud-init.instance-id",
    "volatile.uuid",
    "volatile.uuid.generation",
    "uptime",
    "load_averages",
    "total_ram",
    "free_ram",
    "shared_ram",
    "buffered_ram",
    "total_swap",
    "free_swap",
    "processes",
    "used",
    "total",
    "uuid",
    "first_seen_at",
    "last_seen_at",
    "count",
    "kernel_version",
    "architectures",
    "last_message",
    "auth_user_name",
    "storage_supported_drivers",
    "kernel_features",
    "lxc_features",
    "driver_version",
    "storage",
    "storage_version",
];

/// Says where two bodies are unlike, if they are.
pub(crate) fn unlike(recorded: &Value, simulated: &Value) -> Result<(), String> {
    compare("body", recorded, simulated)
}

fn compare(at: &str, recorded: &Value, simulated: &Value) -> Result<(), String> {
    let key = at.rsplit('/').next().unwrap_or(at);
    match (recorded, simulated) {
        (Value::Object(recorded), Value::Object(simulated)) => {
            for key in recorded.keys().chain(simulated.keys()) {
                let at = format!("{at}/{key}");
                match (recorded.get(key), simulated.get(key)) {
                    (Some(recorded), Some(simulated)) => compare(&at, recorded, simulated)?,
                    (Some(_), None) => return Err(format!("{at} is missing")),
                    _ => return Err(format!("{at} is not in the recording")),
                }
            }
            Ok(())
        }
        (Value::Array(recorded), Value::Array(simulated)) if key != "api_extensions" => {
            if recorded.len() != simulated.len() {
                return Err(format!("{at} has {} elements instead of {}", simulated.len(), recorded.len()));
            }
            let (recorded, simulated) = (sorted(recorded), sorted(simulated));
            for (number, (recorded, simulated)) in recorded.iter().zip(simulated).enumerate() {
                compare(&format!("{at}/{number}"), recorded, simulated)?;
            }
            Ok(())
        }
        // An instance's URL and the number in a list of them are not of the moment: only the keys above are.
        _ if OF_THE_MOMENT.contains(&key) => same_kind(at, recorded, simulated),
        _ if at.split('/').any(|part| matches!(part, "addresses" | "load_averages")) => {
            same_kind(at, recorded, simulated)
        }
        (Value::String(recorded), Value::String(simulated)) if key == "message" => {
            let (recorded, simulated) = (without_numbers(recorded), without_numbers(simulated));
            if recorded == simulated {
                Ok(())
            } else {
                Err(format!("{at} is `{simulated}` instead of `{recorded}`"))
            }
        }
        _ if recorded == simulated => Ok(()),
        _ => Err(format!("{at} is {simulated} instead of {recorded}")),
    }
}

fn same_kind(at: &str, recorded: &Value, simulated: &Value) -> Result<(), String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    // `NEVER` is a value of its own: it says that a time is not known.
    let never = |value: &Value| *value == "0001-01-01T00:00:00Z";
    if kind(recorded) == kind(simulated) && never(recorded) == never(simulated) {
        return Ok(());
    }
    Err(format!("{at} is {simulated} instead of {recorded}"))
}

/// Lists of names, and of storage drivers, come in any order.
fn sorted(list: &[Value]) -> Vec<&Value> {
    let mut list: Vec<&Value> = list.iter().collect();
    if list.iter().all(|value| value.is_string()) {
        list.sort_by_key(|value| value.as_str().map(str::to_owned));
    }
    if list.iter().all(|value| value["Name"].is_string()) {
        list.sort_by_key(|value| value["Name"].to_string());
    }
    list
}

/// A text with every number as `0`, so that times and durations are alike.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' | '.' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            c => out.push(c),
        }
    }
    out
}

#[test]
fn unlike_bodies_are_told_apart() {
    use serde_json::json;
    let recorded = json!({"name": "a", "id": "1", "message": "for 1.5s", "list": ["b", "a"]});
    assert_eq!(
        unlike(&recorded, &json!({"name": "a", "id": "2", "message": "for 22.75s", "list": ["a", "b"]})),
        Ok(())
    );
    for (simulated, told) in [
        (json!({"name": "b", "id": "1", "message": "for 1s", "list": ["a", "b"]}), "body/name is"),
        (json!({"name": "a", "id": 1, "message": "for 1s", "list": ["a", "b"]}), "body/id is"),
        (json!({"name": "a", "id": "1", "message": "since 1.5s", "list": ["a", "b"]}), "body/message is"),
        (json!({"name": "a", "id": "1", "message": "for 1.5s", "list": ["a"]}), "body/list has"),
        (json!({"name": "a", "id": "1", "message": "for 1.5s"}), "body/list is missing"),
        (json!({"name": "a", "id": "1", "message": "for 1.5s", "list": ["a", "b"], "x": 1}), "body/x is not"),
    ] {
        let why = unlike(&recorded, &simulated).unwrap_err();
        assert!(why.starts_with(told), "{why}");
    }
}
