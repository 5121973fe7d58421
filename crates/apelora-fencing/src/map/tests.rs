//! What makes a map invalid, one example each.

use super::*;

const UUID_A: &str = "4c4c4544-0042-4a10-8038-b4c04f5a3332";
const UUID_B: &str = "61a39523-78f2-11e5-9862-e6402cfc3223";

fn parse(json: &str) -> Result<BmcMap, String> {
    BmcMap::parse(json.as_bytes(), &["apelora-san".into()]).map_err(|e| e.to_string())
}

fn members(entries: &[(&str, String)]) -> String {
    let entries: Vec<_> = entries.iter().map(|(name, entry)| format!("\"{name}\": {{{entry}}}")).collect();
    format!("{{\"members\": {{{}}}}}", entries.join(", "))
}

fn redfish(address: &str, uuid: &str, more: &str) -> String {
    format!(
        r#""provider": "redfish", "address": "{address}", "user": "apelora", "secret": "APELORA_BMC_SECRET_S1", "uuid": "{uuid}"{more}"#
    )
}

fn ipmi(address: &str, uuid: &str, more: &str) -> String {
    redfish(address, uuid, more).replace("redfish", "ipmi")
}

fn lima(vm: &str) -> String {
    format!(r#""provider": "lima", "address": "{vm}""#)
}

#[test]
fn the_example_of_the_design_is_valid() {
    let map = parse(
        r#"{"members": {
          "s1": {"provider": "redfish", "address": "10.0.0.11", "system": "/redfish/v1/Systems/1", "user": "apelora",
                 "secret": "APELORA_BMC_SECRET_S1", "ca_file": "/etc/apelora/bmc-ca.pem", "uuid": "5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27"},
          "s2": {"provider": "ipmi", "address": "10.0.0.12:623", "user": "apelora", "secret": "APELORA_BMC_SECRET_S2",
                 "cipher_suites": [17], "uuid": "4c4c4544-0042-3510-8047-b3c04f4e4d32"},
          "s3": {"provider": "lima", "address": "apelora-s3"}}}"#,
    )
    .unwrap();
    assert_eq!(map.len(), 3);
    let target = |m: &str| map.get(&m.into()).unwrap().target();
    assert_eq!(target("s1"), "10.0.0.11:443/redfish/v1/Systems/1");
    assert_eq!(target("s2"), "10.0.0.12:623");
    assert_eq!(target("s3"), "apelora-s3");
    assert!(parse(r#"{"members": {}}"#).unwrap().is_empty());
}

#[test]
fn every_edit_has_another_digest() {
    let a = parse(r#"{"members": {}}"#).unwrap().sha();
    assert_ne!(a, parse(r#"{"members":  {}}"#).unwrap().sha());
    assert_eq!(a.to_string().len(), 64);
}

#[test]
fn one_wrong_entry_refuses_the_whole_map() {
    let good = ("s1", redfish("10.0.0.11", UUID_A, ""));
    assert!(parse(&members(std::slice::from_ref(&good))).is_ok());
    let cases = [
        ("unknown key", redfish("10.0.0.12", UUID_B, r#", "insecure": true"#), "insecure"),
        ("key twice", redfish("10.0.0.12", UUID_B, r#", "user": "b""#), "duplicate field `user`"),
        ("no uuid", redfish("10.0.0.12", "", "").replace(r#", "uuid": """#, ""), "`uuid`"),
        ("uuid form", redfish("10.0.0.12", "61a3952378f211e59862e6402cfc3223", ""), "8-4-4-4-12"),
        ("placeholder", redfish("10.0.0.12", "03000200-0400-0500-0006-000700080009", ""), "placeholder"),
        ("zeros", ipmi("10.0.0.12", "00000000-0000-0000-0000-000000000000", ""), "placeholder"),
        ("address", redfish("https://bmc", UUID_B, ""), "scheme"),
        (
            "secret",
            redfish("b", UUID_B, "").replace("APELORA_BMC_SECRET_S1", "hunter2"),
            "name of a variable",
        ),
        ("system", redfish("b", UUID_B, r#", "system": "/redfish/v1/Systems/1/../2""#), "one path segment"),
        ("system dots", redfish("b", UUID_B, r#", "system": "/redfish/v1/Systems/..""#), "one path segment"),
        ("ca path", redfish("b", UUID_B, r#", "ca_file": "ca.pem""#), "absolute"),
        ("redfish with suites", redfish("b", UUID_B, r#", "cipher_suites": [17]"#), "means nothing"),
        ("ipmi with ca", ipmi("b", UUID_B, r#", "ca_file": "/ca""#), "means nothing"),
        ("suite 0", ipmi("b", UUID_B, r#", "cipher_suites": [17, 0]"#), "[17], [3] or [17, 3]"),
        (
            "long user",
            ipmi("b", UUID_B, "").replace("\"apelora\"", "\"apeloraapeloraapelora\""),
            "1 to 16 bytes",
        ),
        ("storage VM", lima("apelora-san"), "never stopped"),
        ("foreign VM", lima("production-1"), "lab VM"),
        ("lima with a secret", lima("apelora-b") + r#", "secret": "APELORA_BMC_SECRET_B""#, "means nothing"),
        ("provider", lima("apelora-b").replace("lima", "ilo"), "unknown variant"),
    ];
    for (what, entry, expected) in cases {
        let error = parse(&members(&[good.clone(), ("s2", entry)])).unwrap_err();
        assert!(error.contains(expected), "{what}: {error}");
        assert!(!error.contains("hunter2"), "{what}: an error never repeats what may be a password");
    }
    for json in ["", "{}", "[]", "{\"members\": []}", "{\"members\": {}} x", "{\"members\": {}, \"v\": 1}"] {
        assert!(parse(json).is_err(), "{json}");
    }
}

#[test]
fn a_member_twice_is_refused() {
    let twice = members(&[("s1", redfish("a", UUID_A, "")), ("s1", redfish("b", UUID_B, ""))]);
    assert!(parse(&twice).unwrap_err().contains("`s1` is there twice"));
}

#[test]
fn two_members_that_could_be_one_machine_are_refused() {
    let swapped = "44454c4c-4200-104a-8038-b4c04f5a3332";
    let reversed = "32335a4f-c0b4-3880-104a-420044454c4c";
    for (a, b) in [
        (redfish("a", UUID_A, ""), redfish("b", &UUID_A.to_uppercase(), "")),
        (redfish("a", UUID_A, ""), redfish("b", swapped, "")),
        (ipmi("a", UUID_A, ""), ipmi("b", reversed, "")),
        (ipmi("a", swapped, ""), redfish("b", reversed, "")),
        (redfish("bmc", UUID_A, ""), redfish("BMC.:443", UUID_B, "")),
        (redfish("::ffff:10.0.0.1", UUID_A, ""), redfish("10.0.0.1", UUID_B, "")),
        (ipmi("bmc", UUID_A, ""), ipmi("bmc:623", UUID_B, "")),
        (redfish("bmc", UUID_A, ""), ipmi("bmc", UUID_B, "")),
        (
            redfish("bmc", UUID_A, r#", "system": "/redfish/v1/Systems/1""#),
            redfish("bmc", UUID_B, r#", "system": "/redfish/v1/Systems/1/""#),
        ),
        (redfish("bmc", UUID_A, r#", "system": "/redfish/v1/Systems/1""#), redfish("bmc", UUID_B, "")),
        (lima("apelora-a"), lima("apelora-a")),
    ] {
        let error = parse(&members(&[("s1", a.clone()), ("s2", b.clone())])).unwrap_err();
        assert!(error.contains("`s1`") && error.contains("`s2`"), "{a} {b}: {error}");
    }
}

#[test]
fn neighbours_are_allowed() {
    for (a, b) in [
        (redfish("127.0.0.1:8001", UUID_A, ""), redfish("127.0.0.1:8002", UUID_B, "")),
        (redfish("127.0.0.1:8001", UUID_A, ""), ipmi("127.0.0.1:8002", UUID_B, "")),
        (
            redfish("bmc", UUID_A, r#", "system": "/redfish/v1/Systems/1""#),
            redfish("bmc", UUID_B, r#", "system": "/redfish/v1/Systems/2""#),
        ),
    ] {
        let both = members(&[("s1", a), ("s2", b)]);
        assert!(parse(&both).is_ok(), "{both}");
    }
}
