//! BMCs that want to exhaust their client, or to lead it elsewhere: bounded bytes, bounded memory, the right refusal.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use apelora_lab::redfish::{Bmc, Fault, Personality, Reply, Seen, Server, Service, TlsVersion, Whole};
use apelora_redfish::{Conversation, Dial, Dialed, Dialing, Endpoint, NotSent, SendReport};
use tokio::io::{AsyncWriteExt as _, duplex};
use tokio::time::{Instant, sleep};

use crate::support::{PASSWORD, USER, Wire, open, path, server, soon, target, within};

const SYSTEM: &str = "/redfish/v1/Systems/1";

/// What an answer may cost at most: head and body limits of the client.
const BUDGET: u64 = (64 << 10) + (1 << 20);

/// What may be on its way when the client hangs up: the pipe, a TLS record on each side, the piece being written.
const IN_FLIGHT: u64 = 128 << 10;

/// Answers everything with the same bytes.
struct Bomb {
    first: Vec<u8>,
    again: Vec<u8>,
}

impl Service for Bomb {
    fn answer(&self, _request: &Seen) -> Reply {
        Reply::Endless(self.first.clone(), self.again.clone())
    }
}

/// Name, first bytes, bytes without end, reason.
fn bombs() -> Vec<(&'static str, Bomb, &'static str)> {
    let bomb = |first: &str, again: &[u8]| Bomb { first: first.as_bytes().to_vec(), again: again.to_vec() };
    let many = |piece: &str| piece.repeat(16 * 1024 / piece.len()).into_bytes();
    let ok = "HTTP/1.1 200 OK\r\n";
    vec![
        ("one endless header", bomb("HTTP/1.1 200 OK\r\nX-Filler: ", &many("x")), "body_too_large"),
        (
            "endless headers",
            bomb(ok, &many(&format!("X-Filler: {}\r\n", "x".repeat(1000)))),
            "body_too_large",
        ),
        ("endless short headers", bomb(ok, &many("X: y\r\n")), "body_too_large"),
        ("endless status line", bomb("HTTP/1.1 200 ", &many("x")), "body_too_large"),
        (
            "endless informational answers",
            bomb("", &many("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")),
            "body_too_large",
        ),
        ("endless body", bomb("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", &many("[")), "body_too_large"),
        (
            "endless white space",
            bomb("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", &many(" ")),
            "body_too_large",
        ),
        (
            "a body of 10 GiB",
            bomb("HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", &many("[")),
            "body_too_large",
        ),
        (
            "endless chunks",
            bomb("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &many("1\r\n[\r\n")),
            "body_too_large",
        ),
        (
            "one endless chunk",
            bomb("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", &many("[")),
            "body_too_large",
        ),
        (
            "endless chunk extensions",
            bomb("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", &many("x")),
            "bmc_protocol",
        ),
        (
            "endless trailers",
            bomb("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", &many("X: y\r\n")),
            "bmc_protocol",
        ),
        ("no HTTP at all", bomb("SSH-2.0-x\r\n", &many("x")), "bmc_protocol"),
    ]
}

#[tokio::test(start_paused = true)]
async fn bombs_are_cut_off() {
    for (name, bomb, reason) in bombs() {
        let server = server(bomb, TlsVersion::V13);
        let began = Instant::now();
        let mut conversation = open(&server, &target(path(SYSTEM))).await.unwrap();
        let why = conversation.read(soon()).await.unwrap_err();
        let (accepted, written) = (conversation.traffic().received, server.stats().written());
        println!("{name}: {} after {accepted} bytes", why.reason());
        assert_eq!(why.reason(), reason, "{name}: {why}");
        assert!(accepted <= BUDGET + 64 * 1024, "{name}: {accepted} bytes accepted");
        assert!(written <= BUDGET + IN_FLIGHT, "{name}: {written} bytes written");
        assert_eq!(began.elapsed(), Duration::ZERO, "{name}: cut off by counting, not by waiting");
    }
}

/// The variable that makes a test the only one of its process.
const ALONE: &str = "APELORA_TEST_ALONE";

/// Peak memory of a process belongs to all tests in it, so this one starts itself again, alone.
#[test]
fn bombs_do_not_fill_the_memory() {
    #[expect(clippy::disallowed_methods, reason = "how this test knows that it is the second one")]
    let alone = std::env::var_os(ALONE).is_some();
    if alone {
        return peak();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::bombs_do_not_fill_the_memory", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(
        output.status.success() && said.contains("MiB of peak memory"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn peak() {
    const MOST: u64 = 6 << 10;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let good = server(dell(), TlsVersion::V13);
        let mut conversation =
            open(&good, &target(path("/redfish/v1/Systems/System.Embedded.1"))).await.unwrap();
        conversation.read(soon()).await.unwrap();
        let before = peak_kib();
        for (name, bomb, _) in bombs() {
            let server = server(bomb, TlsVersion::V13);
            let mut conversation = open(&server, &target(path(SYSTEM))).await.unwrap();
            conversation.read(soon()).await.expect_err(name);
        }
        let grown = peak_kib() - before;
        println!(
            "{} bombs: {:.1} MiB of peak memory more than one good reading",
            bombs().len(),
            grown as f64 / 1024.0
        );
        assert!(grown <= MOST, "{grown} KiB");
    });
}

/// `VmHWM` of this process (proc(5)).
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

fn dell() -> Bmc {
    Bmc::new(Personality::named("dell-idrac9-r750").unwrap(), USER, PASSWORD)
}

fn at_dell() -> apelora_redfish::Target {
    target(path("/redfish/v1/Systems/System.Embedded.1"))
}

#[tokio::test(start_paused = true)]
async fn a_byte_a_second_ends_at_the_deadline() {
    let slow = Duration::from_secs(1);
    let server = server(dell(), TlsVersion::V12);
    server.service().set_fault(Some(Fault::Drip(slow)));
    let mut conversation = open(&server, &at_dell()).await.unwrap();
    let began = Instant::now();
    let why = conversation.read(within(Duration::from_secs(10))).await.unwrap_err();
    assert_eq!((why.reason(), began.elapsed()), ("deadline", Duration::from_secs(10)));
}

/// A peer that sends one byte a second from its first byte on.
struct Drip(Vec<u8>);

impl Dial for Drip {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        let bytes = self.0.clone();
        Box::pin(async move {
            let (ours, mut theirs) = duplex(1024);
            tokio::spawn(async move {
                for byte in bytes.into_iter().cycle() {
                    sleep(Duration::from_secs(1)).await;
                    if theirs.write_all(&[byte]).await.is_err() {
                        break;
                    }
                }
            });
            Ok(Dialed { io: Box::new(ours), peer: None })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_a_second_in_the_handshake_ends_at_the_connect_limit() {
    // The head of a handshake record that announces 16 KiB.
    let record = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc".to_vec();
    for (by, expected) in [(60, 5), (3, 3)] {
        let began = Instant::now();
        let dial = Arc::new(Drip(record.clone()));
        let opened =
            Conversation::open_through(dial, &at_dell(), &PASSWORD.into(), within(Duration::from_secs(by)))
                .await;
        assert_eq!(opened.unwrap_err().reason(), "deadline");
        assert_eq!(began.elapsed(), Duration::from_secs(expected));
    }
}

/// Dials nobody.
struct Silent;

impl Dial for Silent {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_never_answers_ends_at_the_connect_limit() {
    let began = Instant::now();
    let opened = Conversation::open_through(
        Arc::new(Silent),
        &at_dell(),
        &PASSWORD.into(),
        within(Duration::from_secs(60)),
    )
    .await;
    assert_eq!((opened.unwrap_err().reason(), began.elapsed()), ("deadline", Duration::from_secs(5)));
}

#[tokio::test]
async fn redirects_elsewhere_are_not_followed() {
    for to in [
        "https://attacker.example/redfish/v1/Systems/System.Embedded.1/",
        "http://192.0.2.10/redfish/v1/Systems/System.Embedded.1/",
        "https://192.0.2.10:8443/redfish/v1/Systems/System.Embedded.1/",
        "https://user@192.0.2.10/redfish/v1/Systems/System.Embedded.1/",
        "//attacker.example/redfish/v1/Systems/System.Embedded.1/",
        "/redfish/v1/Systems/2",
        "/redfish/v1/Systems/System.Embedded.1/?x",
        "/redfish/v1/Systems/System.Embedded.1//",
        "/redfish/v1/Systems/System.Embedded.1",
        "System.Embedded.1/",
        "",
        "\t",
    ] {
        let server = server(dell(), TlsVersion::V13);
        server.service().set_fault(Some(Fault::Redirect(to.to_owned())));
        let wire = Wire::to(&server);
        let dial = Arc::clone(&wire) as Arc<dyn Dial>;
        let mut conversation =
            Conversation::open_through(dial, &at_dell(), &PASSWORD.into(), soon()).await.unwrap();
        let why = conversation.read(soon()).await.unwrap_err();
        assert_eq!((why.reason(), why.is_passing()), ("redirect", false), "{to}: {why}");
        assert_eq!((wire.dials(), server.stats().requests()), (1, 1), "{to}");
    }
}

/// A BMC whose every path wants to be another one.
struct Circle;

impl Service for Circle {
    fn answer(&self, request: &Seen) -> Reply {
        let to = request.path.strip_suffix('/').map_or_else(|| format!("{}/", request.path), str::to_owned);
        Reply::Whole(Whole::empty(308).with_header("Location", &to))
    }
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let server = server(Circle, TlsVersion::V13);
    let mut conversation = open(&server, &target(path(SYSTEM))).await.unwrap();
    assert_eq!(conversation.read(soon()).await.unwrap_err().reason(), "redirect");
    assert_eq!(server.stats().requests(), 2);
}

#[tokio::test]
async fn a_reset_target_elsewhere_is_never_used() {
    for to in [
        "https://attacker.example/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset",
        "//attacker.example/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset",
        "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset",
        "/redfish/v1/Managers/iDRAC.Embedded.1/Actions/Manager.Reset",
        "/redfish/v1/Systems/System.Embedded.1/../2/Actions/ComputerSystem.Reset",
        "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset?to=2",
        "",
    ] {
        let server = server(dell(), TlsVersion::V13);
        server.service().set_fault(Some(Fault::Target(to.to_owned())));
        let mut conversation = open(&server, &at_dell()).await.unwrap();
        let reported = conversation.read(soon()).await.unwrap();
        let report = conversation.force_off(&reported, &mut || true, soon()).await;
        let SendReport::NotSent(why) = report else { panic!("{to}: {report:?}") };
        assert!(matches!(why, NotSent::NoReset(_)) && why.reason() == "target_foreign", "{to}: {why}");
        assert_eq!((server.service().resets(), server.stats().requests()), (0, 1), "{to}");
    }
}

#[tokio::test]
async fn an_identity_that_changes_is_reported_as_it_is() {
    let server = server(dell(), TlsVersion::V13);
    let mut conversation = open(&server, &at_dell()).await.unwrap();
    let before = conversation.read(soon()).await.unwrap();
    assert_eq!(before.uuid.text(), Some("4c4c4544-0053-3410-8032-c6c04f363838"));
    let impostor = "7f9e2a10-88c4-4f5d-b3d6-51a0c2e4f788";
    server.service().set_fault(Some(Fault::Impostor(impostor.to_owned())));
    let after = conversation.read(soon()).await.unwrap();
    assert_eq!(after.uuid.text(), Some(impostor));
}

/// A compressed body that nobody asked for.
struct Gzip;

impl Service for Gzip {
    fn answer(&self, request: &Seen) -> Reply {
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        // A gzip member's head (RFC 1952) and one deflate block; what it would unfold to does not matter.
        let mut body = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03".to_vec();
        body.resize(64 << 10, 0);
        Reply::Whole(Whole { body, ..Whole::empty(200) }.with_header("Content-Encoding", "gzip"))
    }
}

#[tokio::test]
async fn compressed_bodies_are_not_unfolded() {
    let server = server(Gzip, TlsVersion::V13);
    let mut conversation = open(&server, &target(path(SYSTEM))).await.unwrap();
    let why = conversation.read(soon()).await.unwrap_err();
    assert_eq!(why.reason(), "bad_json", "{why}");
    assert!(conversation.traffic().received < 65 << 10);
}

/// Checked when this is compiled.
#[test]
fn a_conversation_can_be_sent_to_another_task() {
    fn is_send<T: Send>() {}
    is_send::<Conversation>();
    is_send::<Server<Bmc>>();
}
