//! `apelora demo`: a fleet on loopback that leaves nothing behind.

use std::path::Path;

use crate::command::{apelora, folder};
use crate::running::{Running, address, request};

#[test]
fn the_first_printed_address_serves_the_fleet_and_nothing_stays() {
    let here = folder();
    let temporary = folder();
    let at_home = temporary.path().to_str().unwrap();
    // A database of the surroundings is none of the demo's business.
    let environment = [("TMPDIR", at_home), ("APELORA_DATABASE_URL", "sqlite://precious.db")];
    for signal in ["-INT", "-TERM"] {
        let demo =
            Running::start(&mut apelora(here.path(), &environment, &["demo", "--listen", "127.0.0.1:0"]));
        let at = address(&demo.out("http://"));
        let (status, body) = request(&at, "GET", "/v1/nodes/detail", "");
        assert_eq!(status, 200, "{body}");
        let nodes: serde_json::Value = serde_json::from_str(&body).unwrap();
        let nodes = nodes["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 16);
        assert!(nodes.iter().filter(|n| n["owner"].is_string()).count() > 6, "{body}");
        assert!(nodes.iter().filter(|n| n["lessee"].is_string()).count() > 3, "{body}");
        let mut seen = std::collections::BTreeSet::new();
        for node in nodes {
            let path = format!("/v1/nodes/{}/maintenance", node["uuid"].as_str().unwrap());
            let entries: serde_json::Value = serde_json::from_str(&request(&at, "GET", &path, "").1).unwrap();
            let entries = entries["maintenance"].as_array().unwrap();
            assert_eq!(node["maintenance"].as_bool(), Some(!entries.is_empty()), "{node}");
            for entry in entries {
                seen.insert(format!(
                    "{} {}",
                    entry["type"].as_str().unwrap(),
                    entry["scope"].as_str().unwrap()
                ));
            }
        }
        let seen: Vec<_> = seen.iter().map(String::as_str).collect();
        assert_eq!(
            seen,
            [
                "fault system",
                "hardware_failure owner",
                "hardware_failure system",
                "legacy system",
                "operator_hold lessee",
                "operator_hold owner",
                "operator_hold system"
            ]
        );
        demo.out("Ctrl-C");
        let (code, _, err) = demo.stop(signal);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(files(temporary.path()), 0, "the demo left something behind");
        assert_eq!(files(here.path()), 0, "the demo wrote into the folder where it was started");
    }
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn without_an_address_it_finds_a_free_port() {
    let here = folder();
    let environment = [("TMPDIR", here.path().to_str().unwrap())];
    let demos = [(); 2].map(|()| Running::start(&mut apelora(here.path(), &environment, &["demo"])));
    let addresses = demos.each_ref().map(|demo| address(&demo.out("http://")));
    assert_ne!(addresses[0], addresses[1]);
    for at in addresses {
        assert!(at.starts_with("127.0.0.1:"), "{at}");
        assert_eq!(request(&at, "GET", "/v1/nodes", "").0, 200);
    }
}
