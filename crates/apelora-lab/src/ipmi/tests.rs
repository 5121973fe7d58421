//! The recorded sessions from the BMC's side.

use std::path::Path;

use serde_json::Value;

use super::bmc::Suite;
use super::crypto::{Keys, hmac, short_hmac};
use super::packet::{Packet, Request, secured};
use super::setup::{OpenRequest, Opened, Rakp1, Rakp3};

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate's tests that reads the environment"
)]
fn sessions() -> Vec<Value> {
    let root = std::env::var_os("APELORA_TEST_DATA").map_or_else(
        || {
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
            workspace
                .into_iter()
                .find(|folder| folder.join("Cargo.lock").is_file())
                .unwrap()
                .join("tests/data")
        },
        Into::into,
    );
    let path = root.join("ipmi/vectors.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut vectors: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(vectors["sessions"].take()).unwrap()
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn array<const N: usize>(value: &Value) -> [u8; N] {
    hex(value).try_into().unwrap()
}

#[test]
fn contract_ipmi_vectors_from_the_bmc_s_side() {
    let (mut sessions_run, mut packets) = (0, 0);
    for session in sessions() {
        let name = session["name"].as_str().unwrap();
        let suite = if session["suite"] == 17 { Suite::Seventeen } else { Suite::Three };
        let (console, bmc) = (array(&session["sidm"]), array(&session["sidc"]));
        let sent = |packet: &str| hex(&session["packets"][packet]);

        let open = sent("open_request");
        let open = OpenRequest::parse(&open[16..]).unwrap();
        assert_eq!((open.console, open.numbers), (console, suite.numbers()), "{name}");
        assert_eq!(open.acceptance(bmc, suite.numbers()), sent("open_response"), "{name}");

        let rakp1 = sent("rakp1");
        let rakp1 = Rakp1::parse(&rakp1[16..]).unwrap();
        assert_eq!(rakp1.session, bmc, "{name}");
        let opened = Opened {
            console_random: rakp1.random,
            bmc_random: array(&session["rc"]),
            guid: array(&session["rakp_guid"]),
            role: rakp1.role,
            name: rakp1.name.to_vec(),
        };
        let password = hex(&session["password_hex"]);
        let code = hmac(suite, &password, &opened.rakp2_covers(console, bmc));
        assert_eq!(rakp1.acceptance(console, &opened, &code), sent("rakp2"), "{name}");

        let rakp3 = sent("rakp3");
        let rakp3 = Rakp3::parse(&rakp3[16..]).unwrap();
        assert_eq!(rakp3.code, hmac(suite, &password, &opened.rakp3_covers(console)), "{name}");
        let key = if session["kg_hex"].is_null() { password } else { hex(&session["kg_hex"]) };
        let sik = hmac(suite, &key, &opened.sik_covers());
        let value = short_hmac(suite, &sik, &opened.rakp4_covers(bmc));
        assert_eq!(rakp3.acceptance(console, &value), sent("rakp4"), "{name}");

        let keys = Keys::from_sik(suite, &sik);
        for exchange in session["exchanges"].as_array().unwrap() {
            let (asked, answered) = (&exchange["request"], &exchange["response"]);
            let datagram = hex(&asked["packet"]);
            let packet = Packet::parse(&datagram, suite.short_code()).unwrap();
            let message = packet.open(&keys).unwrap();
            assert_eq!((packet.session, &message), (bmc, &hex(&asked["lan_message"])), "{name}");
            let request = Request::parse(&message).unwrap();
            let answer = request.answer(0, &hex(&exchange["response_data"]));
            assert_eq!(answer, hex(&answered["lan_message"]), "{name}");
            let sequence = u32::try_from(answered["seq"].as_u64().unwrap()).unwrap();
            let sealed = secured(&keys, console, sequence, array(&answered["iv"]), &answer);
            assert_eq!(sealed, hex(&answered["packet"]), "{name}");
            packets += 2;
        }
        sessions_run += 1;
    }
    println!("{sessions_run} sessions, {packets} packets in them");
    assert!(sessions_run > 0 && packets > 0, "no recorded session was found");
}
