//! `apelora node list|show|create|set|delete`, against a real `apelora server`.

use serde_json::json;

use crate::command::{Done, apelora, folder, run};
use crate::running::{Running, address};

/// A server, and how commands reach it.
pub(crate) struct Served {
    pub(crate) here: tempfile::TempDir,
    pub(crate) url: String,
    _server: Running,
}

impl Served {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let here = folder();
        let always = ["server", "--listen", "127.0.0.1:0"];
        let server = Running::start(&mut apelora(here.path(), &[], &[&always, flags].concat()));
        let url = format!("http://{}", address(&server.err("http://")));
        Self { here, url, _server: server }
    }

    /// Runs a command that finds the server by the environment.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        run(self.here.path(), &[("APELORA_ENDPOINT", &self.url)], arguments)
    }

    /// Runs a command that is to succeed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> Done {
        let done = self.run(arguments);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{arguments:?}: {done:?}");
        done
    }

    /// Runs a command that is to be refused, and gives its last words.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!((done.code, done.out.as_str()), (1, ""), "{arguments:?}: {done:?}");
        done.err
    }
}

#[test]
fn a_node_from_its_making_to_its_end() {
    let served = Served::start(&[]);
    let create = [
        "node",
        "create",
        "--driver",
        "fake-hardware",
        "--name",
        "rack1-n1",
        "--resource-class",
        "bm.large",
        "--extra",
        "slot=007",
        "--extra",
        r#"{"row": 3}"#,
        "--property",
        "cpus=8",
        "--format",
        "json",
    ];
    let made = served.ok(&create).json();
    assert_eq!((&made["name"], &made["resource_class"]), (&json!("rack1-n1"), &json!("bm.large")));
    assert_eq!(
        (&made["extra"], &made["properties"]),
        (&json!({"slot": "007", "row": 3}), &json!({"cpus": 8}))
    );

    let set = ["node", "set", "rack1-n1", "--owner", "p1", "--extra", "a-b=1", "--unset", "extra/slot"];
    served.ok(&set);
    let shown = served.ok(&["node", "show", "rack1-n1", "--format", "json"]).json();
    assert_eq!((&shown["owner"], &shown["extra"]), (&json!("p1"), &json!({"row": 3, "a-b": 1})));
    let refused = served.refused(&["node", "set", "rack1-n1", "--extra", "a/b=1"]);
    assert!(refused.contains("'/extra/a~1b'") && refused.contains("(HTTP 400)"), "{refused}");
    let text = served.ok(&["node", "show", "rack1-n1"]).out;
    assert!(text.lines().any(|line| line.starts_with("owner ") && line.ends_with(" p1")), "{text}");
    assert!(!text.contains("links"), "{text}");

    served.ok(&["node", "create", "--driver", "fake-hardware", "--name", "rack1-n2"]);
    let list = served.ok(&["node", "list"]).out;
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[0].starts_with("UUID") && lines[0].contains("Maintenance"), "{list}");
    let uuid = made["uuid"].as_str().unwrap();
    assert!(
        lines[1].starts_with(uuid) && lines[1].contains("rack1-n1") && lines[1].contains(" p1"),
        "{list}"
    );
    let owned = served.ok(&["node", "list", "--owner", "p1", "--format", "json"]).json();
    assert_eq!(owned.as_array().unwrap().len(), 1, "{owned}");
    let chosen = served.ok(&["node", "list", "--fields", "name,driver"]).out;
    assert_eq!(chosen, "name      driver\nrack1-n1  fake-hardware\nrack1-n2  fake-hardware\n");

    // Without a terminal nobody is asked.
    assert_eq!(served.ok(&["node", "delete", "rack1-n1"]).out, "Deleted node rack1-n1.\n");
    let gone = served.refused(&["node", "show", "rack1-n1"]);
    assert!(
        gone.starts_with("apelora: Node rack1-n1 could not be found. (HTTP 404) (request req-"),
        "{gone}"
    );
}

#[test]
fn wrong_input_is_exit_code_2_and_nothing_is_sent() {
    let here = folder();
    for (arguments, named) in [
        (&["node", "set", "n1"][..], "nothing to change"),
        (&["node", "show", ""], "the node"),
        (&["node", "list", "--endpoint", "host:1"], "endpoint"),
        (&["node", "list", "--endpoint", "http://ironic.example.org"], "--plain-http"),
        (&["node", "list", "--request-timeout-secs", "0"], "--request-timeout-secs"),
    ] {
        let done = run(here.path(), &[], arguments);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{arguments:?}: {done:?}");
        assert!(done.err.contains(named) && done.err.lines().count() == 1, "{done:?}");
    }
    let done = run(here.path(), &[("OS_AUTH_TYPE", "kerberos")], &["node", "list"]);
    assert!(done.code == 2 && done.err.contains("OS_AUTH_TYPE"), "{done:?}");
    // Nobody listens there.
    let done = run(here.path(), &[], &["node", "list", "--endpoint", "http://127.0.0.1:1"]);
    assert!(done.code == 1 && done.err.contains("was not reached"), "{done:?}");
}

#[test]
fn a_basic_user_comes_from_the_variables_of_the_openstack_command() {
    let here = folder();
    // The password is `secret`.
    let users = "admin:$2b$05$s2cUKv74ee1mKpoU3kRiqOKUQScwfzR13pSOplP0F3119A0G..Pbq\n";
    std::fs::write(here.path().join("users"), users).unwrap();
    let users = here.path().join("users");
    let served =
        Served::start(&["--auth-strategy", "http_basic", "--http-basic-user-file", users.to_str().unwrap()]);
    let with = |password: &str, arguments: &[&str]| {
        let variables = [
            ("OS_AUTH_TYPE", "http_basic"),
            ("OS_ENDPOINT", served.url.as_str()),
            ("OS_USERNAME", "admin"),
            ("OS_PASSWORD", password),
        ];
        run(here.path(), &variables, arguments)
    };
    assert_eq!(with("secret", &["node", "create", "--driver", "fake-hardware", "--name", "n1"]).code, 0);
    let hold = ["node", "maintenance", "add", "n1", "--type", "operator_hold", "--format", "json"];
    assert_eq!(with("secret", &hold).json()["asserted_by"], "admin");
    let wrong = with("hunter2", &["node", "list"]);
    assert!(wrong.code == 1 && wrong.err.contains("(HTTP 401)"), "{wrong:?}");
    assert!(!wrong.err.contains("hunter2"), "{wrong:?}");
}

#[test]
fn a_refused_keystone_and_a_missing_variable_are_told_by_name() {
    let here = folder();
    let keystone = [
        ("OS_AUTH_URL", "https://127.0.0.1:1/v3"),
        ("OS_USERNAME", "alice"),
        ("OS_PASSWORD", "hunter2"),
        ("OS_SYSTEM_SCOPE", "all"),
    ];
    let away = run(here.path(), &keystone, &["node", "list"]);
    assert_eq!(away.code, 1, "{away:?}");
    assert!(
        away.err.contains("https://127.0.0.1:1 was not reached") && !away.err.contains("hunter2"),
        "{away:?}"
    );
    let unscoped = run(here.path(), &keystone[..3], &["node", "list"]);
    assert!(unscoped.code == 2 && unscoped.err.contains("OS_PROJECT_NAME"), "{unscoped:?}");
}
