//! Who calls, over HTTP.

use std::time::Duration;

use apelora_server::{AuthStrategy, Server, ServerConfig};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{self, Answer};
use crate::goldens::user_line;
use crate::lab::{self, Lab};

struct Basic {
    lab: Lab,
    file: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Basic {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        std::fs::write(&file, [user_line("alice", "wonder:land"), user_line("bob", "b")].concat()).unwrap();
        let lab = Lab::configured(|config| {
            config.auth = AuthStrategy::HttpBasic { user_file: file.clone() };
            config.limits.reload_interval = Duration::from_millis(5);
        })
        .await;
        Self { lab, file, _folder: folder }
    }

    async fn call(
        &self,
        who: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
        more: &[(&str, &str)],
    ) -> Answer {
        let credentials = format!("Basic {}", STANDARD.encode(who));
        let mut headers = vec![
            ("Authorization", credentials.as_str()),
            ("X-OpenStack-Ironic-API-Version", "1.116"),
            ("Content-Type", "application/json"),
        ];
        headers.extend_from_slice(more);
        let body = body.map(|b| b.to_string());
        client::send(self.lab.address, method, path, &headers, body.as_deref().map(str::as_bytes)).await
    }
}

#[tokio::test]
async fn the_user_stands_in_entries_and_history_whatever_headers_say() {
    let basic = Basic::start().await;
    let alice = "alice:wonder:land";
    let node = json!({"driver": "fake-hardware", "name": "n1"});
    basic.call(alice, "POST", "/v1/nodes", Some(node), &[]).await.expect(201);
    let forged = [
        ("X-User-Id", "root"),
        ("X-Project-Id", "p"),
        ("X-Roles", "admin"),
        ("OpenStack-System-Scope", "all"),
    ];
    let entry = json!({"type": "operator_hold"});
    let made =
        basic.call(alice, "POST", "/v1/nodes/n1/maintenance", Some(entry), &forged).await.expect(201).json();
    assert_eq!(made["asserted_by"], "alice");
    assert_eq!(made["asserted_by_project"], "");
    assert_eq!(made["scope"], "system");
    let history =
        basic.call("bob:b", "GET", "/v1/nodes/n1/history?detail=True", None, &[]).await.expect(200).json();
    assert_eq!(history["history"][0]["user"], "alice");
    // One trust domain: the other user may release it.
    let path = format!("/v1/nodes/n1/maintenance/{}", made["uuid"].as_str().unwrap());
    basic.call("bob:b", "DELETE", &path, None, &[]).await.expect(204);
    // An owner cannot be forged at creation either.
    let owned = json!({"driver": "fake-hardware", "name": "n2", "owner": "p"});
    basic.call(alice, "POST", "/v1/nodes", Some(owned), &forged).await.expect(400);
}

#[tokio::test]
async fn passwords() {
    let basic = Basic::start().await;
    let long = "x".repeat(73);
    for (who, status) in [
        ("alice:wonder:land", 200),
        ("alice:wonder:land", 200),
        ("alice:wonder:lan", 401),
        ("alice:", 401),
        ("nobody:b", 401),
        ("Alice:wonder:land", 401),
        (&format!("bob:{long}"), 401),
        ("bob:b\u{0}", 401),
        ("bob:b", 200),
    ] {
        let answer = basic.call(who, "GET", "/v1/nodes", None, &[]).await.expect(status);
        let challenge = (status == 401).then_some("Basic realm=\"Baremetal API\"");
        assert_eq!(answer.header("www-authenticate"), challenge, "{who}");
    }
    for path in ["/", "/v1", "/healthz", "/readyz", "/openapi.json", "/metrics"] {
        client::send(basic.lab.address, "GET", path, &[], None).await.expect(200);
    }
    let figures = client::send(basic.lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
    assert!(figures.contains("apelora_auth_failures_total{why=\"unauthorized\"} 6"), "{figures}");
}

#[tokio::test]
async fn a_changed_file_of_users_counts_without_a_restart_and_a_broken_one_does_not() {
    let basic = Basic::start().await;
    basic.call("bob:b", "GET", "/v1/nodes", None, &[]).await.expect(200);
    // Also a password that was right a moment ago is asked for anew.
    std::fs::write(&basic.file, user_line("bob", "changed-it")).unwrap();
    while basic.call("bob:changed-it", "GET", "/v1/nodes", None, &[]).await.status != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    basic.call("bob:b", "GET", "/v1/nodes", None, &[]).await.expect(401);
    basic.call("alice:wonder:land", "GET", "/v1/nodes", None, &[]).await.expect(401);
}

#[tokio::test]
async fn what_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = lab::sqlite_store(&folder.path().join("a.db")).await;
    let start = async |change: &dyn Fn(&mut ServerConfig)| {
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), "me");
        change(&mut config);
        Server::bind(config, store.clone(), lab::sources())
            .await
            .map(|s| s.address())
            .map_err(|e| e.to_string())
    };
    let refused = start(&|c| c.listen = "0.0.0.0:0".parse().unwrap()).await.unwrap_err();
    assert!(refused.contains("listen") && refused.contains("http_basic"), "{refused}");
    let refused = start(&|c| c.host = String::new()).await.unwrap_err();
    assert!(refused.starts_with("host: "), "{refused}");
    let file = folder.path().join("users");
    std::fs::write(&file, "a:{SHA}x\n").unwrap();
    let basic = |file: &std::path::Path| AuthStrategy::HttpBasic { user_file: file.to_owned() };
    let refused = start(&|c| c.auth = basic(&file)).await.unwrap_err();
    assert!(refused.contains("http_basic_user_file") && refused.contains("line 1"), "{refused}");
    let refused = start(&|c| c.auth = basic(&folder.path().join("nosuch"))).await.unwrap_err();
    assert!(refused.contains("nosuch"), "{refused}");
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr();
    let holder = std::net::TcpListener::bind(taken.unwrap()).unwrap();
    let refused = start(&|c| c.listen = holder.local_addr().unwrap()).await.unwrap_err();
    assert!(refused.starts_with("listen: "), "{refused}");
    std::fs::write(&file, user_line("a", "b")).unwrap();
    start(&|c| {
        c.auth = basic(&file);
        c.listen = "0.0.0.0:0".parse().unwrap();
    })
    .await
    .unwrap();
}

/// Measured requests of a strategy: `tests/data/policy`, or the folder that `APELORA_TEST_DATA` names.
fn measured(file: &str) -> Vec<Value> {
    let data =
        lab::variable_of("APELORA_TEST_DATA").map_or_else(|| lab::root().join("tests/data"), Into::into);
    let text = std::fs::read_to_string(data.join("policy").join(file)).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    document["rows"].as_array().unwrap().clone()
}

/// Sends the request of a row and compares what the row has of the answer.
async fn judge(lab: &Lab, row: &Value, overruled: Option<u16>) {
    let case = row["case"].as_str().unwrap();
    let text = |key: &str| row[key].as_str().unwrap();
    let headers: Vec<(&str, &str)> = row["request_headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap()))
        .collect();
    let answer = client::send(lab.address, text("method"), text("path"), &headers, None).await;
    if let Some(status) = overruled {
        assert_eq!(answer.status, status, "{case}: {}", answer.body);
        return;
    }
    assert_eq!(u64::from(answer.status), row["status"].as_u64().unwrap(), "{case}: {}", answer.body);
    for (name, value) in row["headers"].as_object().into_iter().flatten() {
        assert_eq!(answer.header(&name.to_lowercase()), value.as_str(), "{case}");
    }
    if row["body"].get("error").is_some() {
        assert_eq!(answer.json(), row["body"], "{case}");
    } else if let Some(decoded) = row["body"].get("error_message(decoded)") {
        let inner: Value = serde_json::from_str(answer.json()["error_message"].as_str().unwrap()).unwrap();
        assert_eq!(&inner, decoded, "{case}");
    }
}

/// Cases that the design overrules, with the status that it wants and why.
const OVERRULED: [(&str, u16, &str); 8] = [
    ("password-73-bytes", 401, "a password that bcrypt would cut is refused, and crashes nothing"),
    ("md5-entry-login", 401, "a file with such a line is not taken, so the user is unknown"),
    ("file-gone", 200, "the users that were read last stay"),
    ("public-/v1/lookup", 404, "not served"),
    ("public-/v1/heartbeat/abc", 404, "not served"),
    ("public-/v1/continue_inspection", 404, "not served"),
    ("create", 201, "an error of the measuring set-up"),
    ("create-with-project-header", 201, "an error of the measuring set-up"),
];

fn overruled(row: &Value) -> Option<u16> {
    OVERRULED.iter().find(|(case, ..)| row["case"] == *case).map(|(_, status, _)| *status)
}

#[tokio::test]
async fn contract_http_basic() {
    let folder = tempfile::tempdir().unwrap();
    let user_file = folder.path().join("users");
    let users = [
        ("admin", "adminpw"),
        ("colon", "a:b"),
        ("late", "late"),
        ("dup", "one"),
        ("dup", "two"),
        ("long", &"p".repeat(72)),
    ];
    let lines: Vec<_> = users.iter().map(|(user, password)| user_line(user, password)).collect();
    std::fs::write(&user_file, format!("# comment\n{}", lines.concat())).unwrap();
    let lab = Lab::configured(|config| config.auth = AuthStrategy::HttpBasic { user_file }).await;
    let credentials = format!("Basic {}", STANDARD.encode("admin:adminpw"));
    let headers = [
        ("Authorization", credentials.as_str()),
        ("X-OpenStack-Ironic-API-Version", "latest"),
        ("Content-Type", "application/json"),
    ];
    let body = json!({"driver": "fake-hardware", "name": "owned"}).to_string();
    client::send(lab.address, "POST", "/v1/nodes", &headers, Some(body.as_bytes())).await.expect(201);
    lab.sql("UPDATE nodes SET uuid='00000001-0000-4000-8000-000000000001'").await;
    let rows = measured("http-basic.json");
    for row in &rows {
        let mut row = row.clone();
        // The rows name no version; names of nodes begin with 1.5.
        row["request_headers"]["X-OpenStack-Ironic-API-Version"] = json!("1.115");
        judge(&lab, &row, overruled(&row)).await;
    }
    println!("{} cases", rows.len());
    assert!(!rows.is_empty());
}

#[tokio::test]
async fn contract_noauth() {
    let lab = Lab::sqlite().await;
    for name in ["owned", "unowned", "third"] {
        lab.node(name).await;
    }
    let rows = measured("noauth.json");
    for row in &rows {
        let mut row = row.clone();
        row["request_headers"]["X-OpenStack-Ironic-API-Version"] = json!("1.115");
        if row["method"] == "POST" {
            // The rows do not tell the body.
            row["request_headers"]["Content-Type"] = json!("application/json");
            let headers: Vec<_> = row["request_headers"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str().unwrap()))
                .collect();
            let body = json!({"driver": "fake-hardware"}).to_string();
            let made = client::send(lab.address, "POST", "/v1/nodes", &headers, Some(body.as_bytes())).await;
            assert_eq!(Some(made.status), overruled(&row), "{}", made.body);
            // Whatever project a header names: nobody owns it.
            assert!(made.json()["owner"].is_null());
        } else {
            judge(&lab, &row, overruled(&row)).await;
        }
    }
    println!("{} cases", rows.len());
    assert!(!rows.is_empty());
}
