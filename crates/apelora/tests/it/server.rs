//! `apelora server`: start, log, stop.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;

use sqlx::{Connection, Executor, SqliteConnection};

use crate::command::{apelora, folder, run};
use crate::running::{Running, address, request};

#[test]
fn it_serves_until_it_is_asked_to_stop() {
    for signal in ["-TERM", "-INT"] {
        let here = folder();
        let server = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
        let at = address(&server.err("http://"));
        assert_eq!(request(&at, "GET", "/readyz", "").0, 200);
        let (status, body) =
            request(&at, "POST", "/v1/nodes", r#"{"driver": "fake-hardware", "name": "n1"}"#);
        assert_eq!(status, 201, "{body}");
        let (code, out, err) = server.stop(signal);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(here.path().join("apelora.db").exists());

        let again = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
        let at = address(&again.err("http://"));
        assert_eq!(request(&at, "GET", "/v1/nodes/n1", "").0, 200, "the node is still there");
    }
}

#[test]
fn systemd_is_told_when_it_serves_and_when_it_ends() {
    let here = folder();
    let socket = here.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    let told = || {
        let mut word = [0; 32];
        let length = systemd.recv(&mut word).unwrap();
        String::from_utf8(word[..length].to_vec()).unwrap()
    };
    let environment = [("NOTIFY_SOCKET", socket.to_str().unwrap())];
    let arguments = ["server", "--listen", "127.0.0.1:0"];
    let server = Running::start(&mut apelora(here.path(), &environment, &arguments));
    assert_eq!(told(), "READY=1");
    let at = address(&server.err("http://"));
    assert_eq!(request(&at, "GET", "/readyz", "").0, 200);
    assert_eq!(server.stop("-TERM").0, Some(0));
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn a_port_that_is_taken_is_exit_code_1() {
    let here = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let done = run(here.path(), &[("APELORA_LOG", "error")], &["server", "--listen", &port]);
    assert_eq!((done.code, done.out.as_str()), (1, ""), "{done:?}");
    assert!(done.err.contains(&format!("apelora: listen: cannot listen on {port}: ")), "{done:?}");
}

#[test]
fn the_log_can_be_json_and_tells_where_settings_came_from() {
    let here = folder();
    let environment = [("APELORA_LOG_FORMAT", "json"), ("APELORA_HISTORY_MAX_ENTRIES", "7")];
    let server =
        Running::start(&mut apelora(here.path(), &environment, &["server", "--listen", "127.0.0.1:0"]));
    let line: serde_json::Value = serde_json::from_str(&server.err("history_max_entries")).unwrap();
    assert_eq!(
        (line["level"].as_str(), line["value"].as_str(), line["origin"].as_str()),
        (Some("INFO"), Some("7"), Some("environment")),
        "{line}"
    );
    server.err("http://");
    let (code, _, rest) = server.stop("-TERM");
    assert_eq!(code, Some(0));
    for line in rest.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

#[test]
fn a_bmc_password_in_its_environment_is_warned_of_and_never_shown() {
    let here = folder();
    let environment = [("APELORA_BMC_SECRET_S1", "calvin")];
    let server =
        Running::start(&mut apelora(here.path(), &environment, &["server", "--listen", "127.0.0.1:0"]));
    let line = server.err("APELORA_BMC_SECRET_S1");
    assert!(line.contains("WARN") && !line.contains("calvin"), "{line}");
    server.err("http://");
    let (code, out, err) = server.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(!out.contains("calvin") && !err.contains("calvin"), "{out}{err}");
}

#[test]
fn http_basic_asks_for_a_password() {
    let here = folder();
    // The password is `secret`.
    std::fs::write(
        here.path().join("users"),
        "admin:$2b$05$s2cUKv74ee1mKpoU3kRiqOKUQScwfzR13pSOplP0F3119A0G..Pbq\n",
    )
    .unwrap();
    let flags = [
        "server",
        "--listen",
        "127.0.0.1:0",
        "--auth-strategy",
        "http_basic",
        "--http-basic-user-file",
        "users",
    ];
    let server = Running::start(&mut apelora(here.path(), &[], &flags));
    let at = address(&server.err("http://"));
    assert_eq!(request(&at, "GET", "/v1/nodes", "").0, 401);
    assert_eq!(request(&at, "GET", "/", "").0, 200);
}

#[test]
fn history_is_cleaned_up_as_its_settings_say() {
    let here = folder();
    let environment = [("APELORA_HISTORY_MAX_ENTRIES", "3"), ("APELORA_HISTORY_CLEANUP_INTERVAL_SECS", "1")];
    let server =
        Running::start(&mut apelora(here.path(), &environment, &["server", "--listen", "127.0.0.1:0"]));
    let at = address(&server.err("http://"));
    assert_eq!(request(&at, "POST", "/v1/nodes", r#"{"driver": "fake-hardware", "name": "n1"}"#).0, 201);
    for n in 0..8 {
        let body = format!(r#"{{"reason": "number {n}"}}"#);
        assert_eq!(request(&at, "PUT", "/v1/nodes/n1/maintenance", &body).0, 202);
    }
    server.err("history cleaned up");
    let (_, left) = request(&at, "GET", "/v1/nodes/n1/history", "");
    let left: serde_json::Value = serde_json::from_str(&left).unwrap();
    let events: Vec<_> = left["history"].as_array().unwrap().iter().map(|h| h["event"].to_string()).collect();
    assert!(events.len() >= 3 && events.last().unwrap().contains("number 7"), "{events:?}");
    assert!(!events.iter().any(|e| e.contains("number 0")), "{events:?}");
}

#[tokio::test]
async fn the_audit_trail_and_ended_restarts_stay_for_ever_or_for_the_days_of_the_setting() {
    let here = folder();
    let start = |environment: &[(&str, &str)]| {
        Running::start(&mut apelora(here.path(), environment, &["server", "--listen", "127.0.0.1:0"]))
    };
    // Audit rows and restarts.
    let rows = async |statement: &'static str| {
        let path = format!("sqlite://{}", here.path().join("apelora.db").display());
        let mut database = SqliteConnection::connect(&path).await.unwrap();
        database.execute(statement).await.unwrap();
        let mut counts = [0_i64; 2];
        let ask = ["SELECT COUNT(*) FROM apelora_audit", "SELECT COUNT(*) FROM apelora_recovery"];
        for (ask, count) in ask.into_iter().zip(&mut counts) {
            *count = sqlx::query_scalar(ask).fetch_one(&mut database).await.unwrap();
        }
        database.close().await.unwrap();
        counts
    };
    let server = start(&[]);
    let at = address(&server.err("http://"));
    for name in ["n1", "n2"] {
        let body = format!(r#"{{"driver": "fake-hardware", "name": "{name}", "maintenance": true}}"#);
        assert_eq!(request(&at, "POST", "/v1/nodes", &body).0, 201);
    }
    assert_eq!(server.stop("-TERM").0, Some(0));
    let old = "UPDATE apelora_audit SET at = '2020-01-01 00:00:00' WHERE node_name = 'n1'; \
        INSERT INTO apelora_recovery (id, member, incarnation, project, instance, start, step, attempts, detail, \
        created_at, updated_at) VALUES ('1', 's1', 1, 'p', 'i', 1, 'done', 1, '', 0, 0), \
        ('2', 's1', 2, 'p', 'i', 1, 'done', 1, '', 0, 0); \
        INSERT INTO apelora_proof (id, member, incarnation, kind, evidence, at, recovery_started, latest) \
        VALUES ('3', 's1', 2, 'person', '{}', 0, 1, 1)";
    assert_eq!(rows(old).await, [2, 2]);

    let server = start(&[]);
    server.err("http://");
    let (_, _, log) = server.stop("-TERM");
    assert!(!log.contains(" pruned"), "{log}");
    assert_eq!(rows("SELECT 1").await, [2, 2]);

    let server = start(&[("APELORA_AUDIT_MIN_DAYS", "1")]);
    server.err("audit trail pruned");
    server.err("ended restarts pruned");
    server.stop("-TERM");
    assert_eq!(
        rows("SELECT 1").await,
        [1, 1],
        "the row of today stays, and the restart of the latest failure"
    );
}

#[test]
fn a_pin_hides_typed_maintenance_and_its_end_brings_flags_and_entries_together() {
    let here = folder();
    let pinned = [("APELORA_PIN_MAX_MICROVERSION", "1.115")];
    let server = Running::start(&mut apelora(here.path(), &pinned, &["server", "--listen", "127.0.0.1:0"]));
    let at = address(&server.err("http://"));
    let (status, body) = request(&at, "GET", "/v1/nodes", "");
    assert!(status == 406 && body.contains("[1.1, 1.115]"), "{status} {body}");
    assert_eq!(server.stop("-TERM").0, Some(0));

    let free = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
    free.err("flags and entries brought together");
    let at = address(&free.err("http://"));
    assert_eq!(request(&at, "GET", "/v1/nodes", "").0, 200);
    assert_eq!(free.stop("-TERM").0, Some(0));

    let again = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
    again.err("http://");
    let (code, _, log) = again.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(!log.contains("brought together"), "{log}");
}

#[tokio::test]
async fn it_stops_when_asked_even_before_it_serves() {
    let here = folder();
    assert_eq!(run(here.path(), &[], &["db", "upgrade"]).code, 0);
    let file = here.path().join("apelora.db");
    let mut busy = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    busy.execute("BEGIN IMMEDIATE").await.unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let server = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", &port]));
    // It has its address before it looks whether flags and entries are to be brought together.
    while TcpStream::connect(&port).is_err() {
        std::thread::yield_now();
    }
    let (code, _, err) = server.stop("-TERM");
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("asked to stop") && !err.contains("the Bare Metal API is at"), "{err}");
    busy.execute("ROLLBACK").await.unwrap();
}

#[test]
fn a_connection_on_which_nothing_was_asked_does_not_hold_up_its_end() {
    let here = folder();
    let server = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
    let at = address(&server.err("http://"));
    let silent = TcpStream::connect(&at).unwrap();
    let mut begun = TcpStream::connect(&at).unwrap();
    begun.write_all(b"GET /v1 HT").unwrap();
    // Connections are accepted in their order.
    assert_eq!(request(&at, "GET", "/healthz", "").0, 200);
    let (code, _, err) = server.stop("-TERM");
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("did not finish in time"), "{err}");
    drop((silent, begun));
}

#[test]
fn a_client_that_has_no_more_to_ask_gets_its_answer() {
    let here = folder();
    let server = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
    let mut client = TcpStream::connect(address(&server.err("http://"))).unwrap();
    client.write_all(b"GET /v1/nodes HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
