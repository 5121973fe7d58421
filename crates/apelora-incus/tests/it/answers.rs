//! How answers are judged, and what is needed in them.

use apelora_incus::{HealingSetting, IncusError, Problem, Refusal, Tie};
use serde_json::{Value, json};

use crate::bodies::{OPERATION, accepted_body, envelope, error_body, instance, member, server};
use crate::peer::{Peer, Reply, answer, piped, sync, whole};
use crate::{later, listed};

async fn members_of(status: u16, body: Value) -> Result<String, IncusError> {
    let peer = Peer::new(move |_| answer(status, &body));
    piped(&peer).members(later()).await.map(|members| listed::members(&members))
}

#[tokio::test]
async fn the_type_is_judged_and_the_status_must_agree() {
    let list = envelope(&json!([member("m1", "Restoring"), member("m2", "some New word")]));
    assert_eq!(members_of(200, list.clone()).await.unwrap(), "m1 Restoring, m2 some New word");
    let with = |key: &str, value: Value| {
        let mut changed = list.clone();
        changed[key] = value;
        changed
    };
    for (status, body, expected) in [
        (500, list.clone(), "not understood: status: 500 does not go with an answer of type sync"),
        (404, list.clone(), "not understood: status: 404 does not go with an answer of type sync"),
        (200, error_body(500, "no"), "Failed 500: no"),
        (200, error_body(404, "no"), "NotFound 404: no"),
        (500, error_body(400, "no"), "Conflict 400: no"),
        (200, error_body(0, "no"), "not understood: error_code: 0 is the code of no error"),
        (202, accepted_body(OPERATION), "not understood: type: async, where sync was expected"),
        (
            202,
            accepted_body("/1.0/instances/s1"),
            "not understood: operation: `/1.0/instances/s1` is no operation",
        ),
        (200, with("type", json!("Sync")), "not understood: type: `Sync` is not sync, async or error"),
        (200, with("type", json!(1)), "not understood: type: invalid type: integer `1`, expected a string"),
        (200, with("error_code", json!(-1)), "not understood: error_code: "),
        (
            200,
            with("metadata", Value::Null),
            "not understood: metadata: invalid type: null, expected a sequence",
        ),
        (200, json!({"type": "sync"}), "not understood: body: missing field `operation`"),
        (
            200,
            json!(["sync", "", 0, "", []]),
            "not understood: body: invalid type: sequence, expected an object",
        ),
        (
            200,
            envelope(&json!([["m1", "u", "Offline", "", true, [], "default", "x86_64"]])),
            "not understood: metadata[0]: invalid type: sequence, expected an object",
        ),
        (302, list.clone(), "the server answers with a redirect (302), which is not followed"),
        (403, error_body(403, "Certificate is restricted"), "Restricted 403: Certificate is restricted"),
        (500, error_body(500, "Certificate is restricted"), "Restricted 500: Certificate is restricted"),
        (
            403,
            error_body(403, "User does not have permission for project \"web\""),
            "Restricted 403: User does not have permission",
        ),
        (401, error_body(401, "who"), "Untrusted 401: who"),
        (500, error_body(500, "Server is not clustered"), "NotClustered 500: Server is not clustered"),
        (403, error_body(403, "not authorized"), "Untrusted 403: not authorized"),
        (400, error_body(400, "a\u{1b}[31m\nb"), "Conflict 400: a [31m b"),
    ] {
        let told = listed::error(&members_of(status, body.clone()).await.unwrap_err());
        assert!(told.starts_with(expected), "{status} {body}: {told}");
    }
}

#[tokio::test]
async fn an_error_names_endpoint_request_field_and_remedy() {
    let mut list = json!([member("m1", "Online"), member("m2", "Online")]);
    list[1]["status"] = json!(103);
    let told = members_of(200, envelope(&list)).await.unwrap_err().to_string();
    assert_eq!(
        told,
        "GET /1.0/cluster/members?recursion=1 at unix:/piped: the answer cannot be used: metadata[1].status: invalid \
         type: integer `103`, expected a string; check that APELORA_INCUS_URL names an Incus server, and its version against \
         the supported ones"
    );
}

#[tokio::test]
async fn an_accepted_change_is_an_operation_and_nothing_else() {
    for (status, body, expected) in [
        (200, envelope(&json!({})), "not understood: type: sync, where async was expected"),
        (202, accepted_body(""), "not understood: operation: `` is no operation"),
        (202, accepted_body("/1.0/operations/../instances/s1"), "not understood: operation"),
        (
            400,
            error_body(400, "Requested target server is the same as current server"),
            "Conflict 400: Requested",
        ),
    ] {
        let peer = Peer::new(move |_| answer(status, &body));
        let told = piped(&peer).move_instance("default", "s1", "m1", later()).await.unwrap_err();
        assert!(listed::error(&told).starts_with(expected), "{told}");
        assert!(told.may_have_been_sent());
    }
}

#[tokio::test]
async fn every_field_of_a_member_is_needed() {
    let whole = member("m1", "Online");
    for field in
        ["server_name", "status", "message", "roles", "url", "database", "failure_domain", "architecture"]
    {
        let mut list = json!([whole.clone()]);
        list[0].as_object_mut().unwrap().remove(field).unwrap();
        let told = listed::error(&members_of(200, envelope(&list)).await.unwrap_err());
        assert_eq!(told, format!("not understood: metadata[0]: missing field `{field}`"));
    }
    let mut bare = json!([whole]);
    bare[0]["roles"] = Value::Null;
    assert_eq!(members_of(200, envelope(&bare)).await.unwrap(), "m1 Online");
    bare[0]["server_name"] = json!("");
    let told = listed::error(&members_of(200, envelope(&bare)).await.unwrap_err());
    assert_eq!(told, "not understood: metadata[0].server_name: it is empty");
}

async fn raw(body: String, full: bool) -> Result<Vec<apelora_incus::Instance>, IncusError> {
    let peer = Peer::new(move |_| Reply::Keep(whole(200, "application/json", body.as_bytes())));
    let client = piped(&peer);
    if full { client.instances_in_full(later()).await } else { client.instances(later()).await }
}

async fn instances(list: &Value) -> Result<Vec<apelora_incus::Instance>, IncusError> {
    raw(envelope(list).to_string(), false).await
}

#[tokio::test]
async fn an_instance_is_read_as_far_as_it_is_known() {
    let read = instances(&json!([instance("s1")])).await.unwrap().remove(0);
    let config = read.config.unwrap();
    assert_eq!((config.root_pool(), config.tie()), (Some("shared"), Tie::Free));
    assert_eq!((config.memory_bytes(), config.was_running()), (Some(2 << 30), true));
    assert_eq!(read.has_backups, None);
    assert!(!format!("{config:?}").contains("secret"), "other settings are not kept");

    let mut gone = instance("s1");
    for field in ["config", "devices", "profiles"] {
        gone[field] = Value::Null;
    }
    gone["architecture"] = json!("");
    for field in ["expanded_config", "expanded_devices"] {
        gone.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(instances(&json!([gone])).await.unwrap()[0].config, None);

    // An empty map is left out by the server, and then there is no root disk: not movable.
    let mut empty = instance("s1");
    empty.as_object_mut().unwrap().remove("expanded_devices");
    let config = instances(&json!([empty])).await.unwrap().remove(0).config.unwrap();
    assert_eq!((config.root_pool(), config.pools().len()), (None, 0));
}

#[tokio::test]
async fn an_instance_that_contradicts_the_contract_is_refused() {
    for field in
        ["name", "project", "location", "status", "type", "architecture", "ephemeral", "config", "devices"]
    {
        let mut list = json!([instance("s1"), instance("s2")]);
        list[1].as_object_mut().unwrap().remove(field).unwrap();
        let told = listed::error(&instances(&list).await.unwrap_err());
        assert_eq!(told, format!("not understood: metadata[1]: missing field `{field}`"));
    }
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 7] = [
        (|i| i["location"] = json!(""), "metadata[0].location: it is empty"),
        (|i| i["name"] = Value::Null, "metadata[0].name: invalid type: null"),
        (|i| i["devices"] = Value::Null, "metadata[0]: one of config and devices is null"),
        (|i| i["config"] = Value::Null, "metadata[0]: one of config and devices is null"),
        (
            |i| i["expanded_config"]["boot.autostart"] = json!(true),
            "metadata[0].expanded_config.boot.autostart: ",
        ),
        (|i| i["expanded_devices"]["root"]["pool"] = json!(1), "metadata[0].expanded_devices.root.pool: "),
        (
            |i| i["expanded_devices"]["eth0"] = json!({}),
            "metadata[0].expanded_devices.eth0: missing field `type`",
        ),
    ];
    for (change, expected) in changes {
        let mut list = json!([instance("s1")]);
        change(&mut list[0]);
        let told = listed::error(&instances(&list).await.unwrap_err());
        assert!(told.starts_with(&format!("not understood: {expected}")), "{told}");
    }
    let told = listed::error(&instances(&json!([instance("s1"), instance("s1")])).await.unwrap_err());
    assert_eq!(told, "not understood: metadata[1]: default/s1 is there twice");
}

/// The parser would take the last one.
#[tokio::test]
async fn repeated_keys_are_refused() {
    let body = envelope(&json!([instance("s1")])).to_string();
    for (once, twice) in [
        (r#""type":"sync""#, r#""type":"error","type":"sync""#),
        (r#""error_code":0"#, r#""error_code":404,"error_code":0"#),
        (r#""location":"m1""#, r#""location":"m2","location":"m1""#),
        (r#""config":{}"#, r#""config":null,"config":{}"#),
        (r#""limits.memory":"2GiB""#, r#""limits.memory":"1GiB","limits.memory":"2GiB""#),
        (r#""root":{"#, r#""root":{"type":"none"},"root":{"#),
        (r#""pool":"shared""#, r#""pool":"local","pool":"shared""#),
    ] {
        assert!(body.contains(once), "{once}");
        let told = listed::error(&raw(body.replacen(once, twice, 1), false).await.unwrap_err());
        assert!(told.contains("duplicate field") || told.contains("is there twice"), "{twice}: {told}");
    }
    assert!(raw(body, false).await.is_ok());
}

#[tokio::test]
async fn backups_are_known_when_they_were_asked_for() {
    for (backups, known, expected) in [
        (json!([{"name": "b0"}]), true, Some(true)),
        (json!([]), true, Some(false)),
        (Value::Null, true, Some(false)),
        (Value::Null, false, None),
    ] {
        let mut one = instance("s1");
        one["backups"] = backups;
        if !known {
            one["config"] = Value::Null;
            one["devices"] = Value::Null;
        }
        let body = envelope(&json!([one])).to_string();
        assert_eq!(raw(body.clone(), true).await.unwrap()[0].has_backups, expected);
        assert_eq!(raw(body, false).await.unwrap()[0].has_backups, None);
    }
    let told = listed::error(&raw(envelope(&json!([instance("s1")])).to_string(), true).await.unwrap_err());
    assert_eq!(told, "not understood: metadata[0].backups: it is missing");
}

#[tokio::test]
async fn another_instance_than_the_asked_one_is_refused() {
    let peer = Peer::new(|_| sync(&instance("s1")));
    let client = piped(&peer);
    assert!(client.instance("default", "s1", later()).await.is_ok());
    for (project, name) in [("default", "s2"), ("web", "s1")] {
        let told = listed::error(&client.instance(project, name, later()).await.unwrap_err());
        assert_eq!(told, "not understood: metadata: it is default/s1");
    }
}

#[tokio::test]
async fn the_server_says_who_it_is_and_what_it_shows() {
    let off = json!({"core.https_address": ":8443"});
    for (config, healing) in [
        (off.clone(), HealingSetting::Off),
        (json!({"cluster.healing_threshold": "0"}), HealingSetting::Off),
        (json!({"cluster.healing_threshold": "30"}), HealingSetting::On("30".to_owned())),
        (json!({"cluster.healing_threshold": "off"}), HealingSetting::On("off".to_owned())),
        (json!({}), HealingSetting::Hidden),
        (Value::Null, HealingSetting::Hidden),
    ] {
        let peer = Peer::new(move |_| sync(&server(true, &config)));
        assert_eq!(piped(&peer).server(later()).await.unwrap().healing, healing);
    }

    // What everybody is told (section 1).
    let peer = Peer::new(|_| sync(&json!({"auth": "untrusted", "api_version": "1.0"})));
    let refused = piped(&peer).server(later()).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::Untrusted));
    assert!(refused.to_string().contains("incus config trust add-certificate"), "{refused}");

    let mut bare = server(true, &off);
    bare["environment"] = Value::Null;
    let peer = Peer::new(move |_| sync(&bare));
    let told = listed::error(&piped(&peer).server(later()).await.unwrap_err());
    assert_eq!(told, "not understood: metadata.environment: it is missing");
}

#[tokio::test]
async fn a_view_is_one_members() {
    let config = json!({"core.https_address": ":8443"});
    let list = json!([member("m1", "Online"), member("m2", "Offline")]);
    let script = |clustered: bool, keep: bool| {
        let (config, list) = (config.clone(), list.clone());
        move |seen: &crate::peer::Seen| match seen.path.as_str() {
            "/1.0" if keep => sync(&server(clustered, &config)),
            "/1.0" => Reply::Close(whole(
                200,
                "application/json",
                envelope(&server(clustered, &config)).to_string().as_bytes(),
            )),
            _ => sync(&list),
        }
    };
    let peer = Peer::new(script(true, true));
    let view = piped(&peer).view(later()).await.unwrap();
    assert_eq!(
        (view.server.name.as_str(), listed::members(&view.members).as_str()),
        ("m1", "m1 Online, m2 Offline")
    );
    assert_eq!(peer.connections(), 1);

    let peer = Peer::new(script(true, false));
    let changed = piped(&peer).view(later()).await.unwrap_err();
    assert!(matches!(changed.problem, Problem::ConnectionChanged), "{changed}");

    let peer = Peer::new(script(false, true));
    let alone = piped(&peer).view(later()).await.unwrap_err();
    assert_eq!(alone.refusal(), Some(Refusal::NotClustered));
    assert!(alone.to_string().contains("fencing needs a cluster"), "{alone}");
    assert_eq!(peer.lines(), ["GET /1.0"]);
}

/// Some thousand instances are an ordinary list.
#[tokio::test]
async fn a_large_list_is_read() {
    let list: Vec<Value> = (0..4000)
        .map(|number| {
            let mut one = instance(&format!("s{number}"));
            one["expanded_config"]["user.user-data"] = json!("x".repeat(2000));
            one
        })
        .collect();
    let body = envelope(&json!(list)).to_string();
    assert!(body.len() > 8 << 20, "{}", body.len());
    assert_eq!(raw(body, false).await.unwrap().len(), 4000);
}
