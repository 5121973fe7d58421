//! Which room may know which, through however many others: what the manifests of the workspace say, as cargo reads them.
//! `deny.toml` looks at direct dependants alone.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// For each crate of the workspace those that it is built from.
fn direct() -> BTreeMap<String, BTreeSet<String>> {
    let done = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let name = |of: &Value| of["name"].as_str().unwrap().to_owned();
    let packages = told["packages"].as_array().unwrap();
    let ours: BTreeSet<String> = packages.iter().map(&name).collect();
    let uses = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        // What only tests use is not shipped; optional and platforms' own dependencies are.
        all.filter(|used| used["kind"] != "dev").map(&name).filter(|used| ours.contains(used)).collect()
    };
    packages.iter().map(|package| (name(package), uses(package))).collect()
}

/// Everything of ours that a crate is built from.
fn all_of(crates: &BTreeMap<String, BTreeSet<String>>, name: &str) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(of) = next.pop() {
        let uses = crates.get(&of).unwrap_or_else(|| panic!("no crate {of}"));
        next.extend(uses.iter().filter(|used| found.insert((*used).clone())).cloned());
    }
    found
}

fn check(crates: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    // Whatever reaches a BMC or the cluster, holds a BMC's secret, or stands for one of them.
    let dangerous = [
        "apelora",
        "apelora-incus",
        "apelora-ipmi",
        "apelora-lab",
        "apelora-redfish",
        "apelora-sanlock",
        "apelora-worker",
    ];
    let mut wrong = Vec::new();
    let mut must_not = |name: &str, others: &[&str]| {
        let uses = all_of(crates, name);
        let bad = others.iter().filter(|other| uses.contains(**other));
        wrong.extend(bad.map(|bad| format!("{name} is built from {bad}")));
    };
    for room in ["apelora-server", "apelora-client", "apelora-store", "apelora-keystone", "apelora-policy"] {
        must_not(room, &dangerous);
    }
    must_not("apelora-worker", &["apelora-server", "apelora-client", "apelora-policy", "apelora-keystone"]);
    for name in crates.keys().filter(|name| *name != "apelora") {
        must_not(name, &["apelora-lab", "apelora"]);
    }
    for pure in ["apelora-fencing", "apelora-maintenance", "apelora-policy"] {
        wrong.extend(all_of(crates, pure).iter().map(|used| format!("{pure} is built from {used}")));
    }
    wrong
}

#[test]
fn nothing_of_the_server_can_reach_a_bmc_or_its_secret() {
    let mut crates = direct();
    let binary = all_of(&crates, "apelora");
    for linked in ["apelora-server", "apelora-worker", "apelora-ipmi", "apelora-redfish", "apelora-lab"] {
        assert!(binary.contains(linked), "the graph is not whole: {binary:?}");
    }
    assert_eq!(check(&crates), Vec::<String>::new());

    // A way round by another crate is found.
    crates.get_mut("apelora-maintenance").unwrap().insert("apelora-redfish".to_owned());
    assert!(check(&crates).contains(&"apelora-server is built from apelora-redfish".to_owned()));
}
