//! `apelora bmc check` against simulated BMCs.

use std::collections::BTreeMap;

use apelora_lab::site::{BmcKind, MemberPlan, Site, SitePlan};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::command::{Done, folder, run};

/// Simulated servers with BMCs, on threads of their own.
struct Bmcs {
    here: tempfile::TempDir,
    site: Site,
    secrets: BTreeMap<String, String>,
    _runtime: Runtime,
}

impl Bmcs {
    /// Three with Redfish, one with IPMI.
    fn start() -> Self {
        let here = folder();
        let runtime = Runtime::new().unwrap();
        let mut plan = SitePlan::new(&["s1", "s2", "s3", "s4"], here.path());
        let kinds = [BmcKind::Redfish, BmcKind::Redfish, BmcKind::Redfish, BmcKind::Ipmi];
        plan.members =
            plan.cluster.members.iter().zip(kinds).map(|(name, kind)| MemberPlan::new(name, kind)).collect();
        let site = runtime.block_on(Site::start(plan)).unwrap();
        let secrets = site.secrets().clone();
        Self { here, site, secrets, _runtime: runtime }
    }

    /// Changes the map, of which this is `members`.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let path = self.site.bmc_map();
        let mut map: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut map["members"]);
        std::fs::write(path, map.to_string()).unwrap();
    }

    fn check(&self, arguments: &[&str]) -> Done {
        let map = self.site.bmc_map();
        let mut environment = vec![("APELORA_BMC_MAP", map.to_str().unwrap())];
        environment.extend(self.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let done = run(self.here.path(), &environment, &[&["bmc", "check"], arguments].concat());
        for password in self.secrets.values() {
            assert!(!done.out.contains(password) && !done.err.contains(password), "{done:?}");
        }
        assert_eq!(self.site.power_offs(), 0);
        done
    }
}

#[test]
fn bmcs_that_are_right_are_shown_with_what_they_are() {
    let bmcs = Bmcs::start();
    let text = bmcs.check(&[]);
    assert_eq!((text.code, text.err.as_str()), (0, ""), "{text:?}");
    assert_eq!(
        text.out.lines().filter(|line| line.contains(" ok ") && line.contains(" On ")).count(),
        4,
        "{text:?}"
    );

    let rows = bmcs.check(&["--format", "json"]).json();
    let rows = rows.as_array().unwrap();
    let members: Vec<_> = rows.iter().map(|row| row["member"].as_str().unwrap()).collect();
    assert_eq!(members, ["s1", "s2", "s3", "s4"]);
    for row in rows {
        assert_eq!((&row["failure"], &row["power"]), (&Value::Null, &"On".into()), "{row}");
        assert!(row["round_trip_ms"].is_u64() && row["reported"].is_string(), "{row}");
    }
    assert!(rows[0]["certificate"]["days_left"].as_i64().unwrap() > 0, "{}", rows[0]);
    assert_eq!((&rows[3]["provider"], &rows[3]["suite"]), (&"ipmi".into(), &17.into()), "{}", rows[3]);

    // Everything that is asked about a BMC before it is relied on, for a program and for a person.
    let (over_redfish, over_ipmi) = (&rows[0], &rows[3]);
    let system = bmcs.site.bmc("s1").unwrap().redfish().unwrap().path(0).unwrap();
    assert_eq!(over_redfish["vendor"], "Dell", "{over_redfish}");
    assert_eq!(over_redfish["system"], system, "{over_redfish}");
    assert_eq!(over_redfish["reported"], bmcs.site.bmc("s1").unwrap().uuid());
    assert!(over_redfish["certificate"]["not_after"].is_string(), "{over_redfish}");
    assert_eq!(over_ipmi["privilege"], "operator", "{over_ipmi}");
    let order = over_ipmi["byte_order"].as_str().unwrap();
    let row = |member: &str| text.out.lines().find(|line| line.starts_with(member)).unwrap();
    for words in ["cipher suite 17", "operator", &format!("{order} order"), " ms "] {
        assert!(row("s4").contains(words), "{words} in {}", row("s4"));
    }
    for words in ["Dell", &system, bmcs.site.bmc("s1").unwrap().uuid(), " days ", " ms "] {
        assert!(row("s1").contains(words), "{words} in {}", row("s1"));
    }

    let one = bmcs.check(&["s2", "--format", "json"]).json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0]["member"], "s2");
}

#[test]
fn each_common_mistake_has_its_remedy_and_is_exit_code_1() {
    let mut bmcs = Bmcs::start();
    bmcs.edit(|members| members["s2"]["uuid"] = "0d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27".into());
    bmcs.secrets.insert("APELORA_BMC_SECRET_S3".to_owned(), "wrong-marker".to_owned());
    bmcs.secrets.remove("APELORA_BMC_SECRET_S4");
    let rows = bmcs.check(&["--format", "json"]);
    assert_eq!(rows.code, 1, "{rows:?}");
    let rows = rows.json();
    let reasons: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["failure"]["reason"].as_str().unwrap_or("ok"))
        .collect();
    assert_eq!(reasons, ["ok", "uuid_mismatch", "http_auth", "secret_missing"], "{rows}");

    let text = bmcs.check(&[]);
    assert_eq!((text.code, text.err.as_str()), (1, ""), "{text:?}");
    for words in [
        "s2: The BMC belongs to another server",
        "Correct address or UUID in the BMC map",
        "s3: The BMC rejected the user",
        "s4: The environment of the worker does not hold the BMC's secret.",
        "APELORA_BMC_SECRET_S4",
    ] {
        assert!(text.out.contains(words), "{words} in {}", text.out);
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let bmcs = Bmcs::start();
    let unknown = bmcs.check(&["s9"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""), "{unknown:?}");
    assert!(unknown.err.contains("the BMC map does not name s9"), "{unknown:?}");

    bmcs.edit(|members| members["s1"]["colour"] = "red".into());
    let invalid = bmcs.check(&[]);
    assert_eq!((invalid.code, invalid.out.as_str()), (1, ""), "{invalid:?}");
    assert!(invalid.err.contains("colour") && invalid.err.lines().count() == 1, "{invalid:?}");

    let here = folder();
    let none = run(here.path(), &[], &["bmc", "check"]);
    assert_eq!(
        (none.code, none.err.as_str()),
        (2, "apelora: bmc_map: not set; set APELORA_BMC_MAP or --bmc-map\n"),
        "{none:?}"
    );
}
