//! What a conversation promises to its caller: one send for one reading, and a flag that never says too little.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use apelora_lab::redfish::{
    After, Bmc, Fault, Personality, Power, Reply, Seen, Server, Service, TlsVersion, Whole,
};
use apelora_redfish::{Conversation, NotSent, PowerWord, ResetAnswer, SendReport, SystemChoice};

use crate::support::{PASSWORD, USER, Wire, open, path, server, soon, target, within};

const DELL: &str = "/redfish/v1/Systems/System.Embedded.1";

fn bmc(name: &str) -> Arc<Server<Bmc>> {
    server(Bmc::new(Personality::named(name).unwrap(), USER, PASSWORD), TlsVersion::V13)
}

#[tokio::test(start_paused = true)]
async fn each_personality_is_switched_off_and_read_back() {
    for name in Personality::names() {
        let server = bmc(name);
        let bmc = server.service();
        let mut conversation = open(&server, &target(path(&bmc.path(0).unwrap()))).await.unwrap();
        bmc.set_power(0, Power::On);
        bmc.set_delay(Duration::from_secs(3));
        let reported = conversation.read(soon()).await.unwrap();
        assert_eq!(reported.power, PowerWord::On, "{name}");
        let report = conversation.force_off(&reported, &mut || true, soon()).await;
        assert!(matches!(report, SendReport::MaybeSent(ResetAnswer::Accepted { .. })), "{name}: {report:?}");
        assert_eq!(conversation.read(soon()).await.unwrap().power, PowerWord::On, "{name}");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(conversation.read(soon()).await.unwrap().power, PowerWord::Off, "{name}");
        assert_eq!((bmc.power(0), bmc.resets()), (Some(Power::Off), 1), "{name}");
        let traffic = conversation.traffic();
        // A BMC that wants a slash costs one redirect, once.
        let redirects = u32::from(name.starts_with("hpe"));
        assert_eq!((traffic.connections, traffic.requests), (1, 4 + redirects), "{name}");
        conversation.close(soon()).await;
    }
}

#[tokio::test]
async fn a_reading_allows_one_send_and_only_the_latest_does() {
    let server = bmc("dell-idrac9-r750");
    server.service().set_fault(Some(Fault::Ignores));
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    let old = conversation.read(soon()).await.unwrap();
    let latest = conversation.read(soon()).await.unwrap();
    let refused = |report| matches!(report, SendReport::NotSent(NotSent::NotFresh));
    assert!(refused(conversation.force_off(&old, &mut || true, soon()).await));
    // Trying with an old one has spent the latest: the caller has lost track and reads again.
    assert!(refused(conversation.force_off(&latest, &mut || true, soon()).await));

    let latest = conversation.read(soon()).await.unwrap();
    let mut other = open(&server, &target(path(DELL))).await.unwrap();
    let foreign = other.read(soon()).await.unwrap();
    assert!(refused(conversation.force_off(&foreign, &mut || true, soon()).await));
    assert!(!conversation.may_have_sent() && server.service().resets() == 0);

    assert!(refused(conversation.force_off(&latest, &mut || true, soon()).await));
    let latest = conversation.read(soon()).await.unwrap();
    assert!(conversation.force_off(&latest, &mut || true, soon()).await.may_have_been_sent());
    assert!(refused(conversation.force_off(&latest, &mut || true, soon()).await));
    assert_eq!(server.service().resets(), 1);
}

#[tokio::test]
async fn a_failed_reading_takes_the_permission_of_the_one_before() {
    let server = bmc("dell-idrac9-r750");
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    server.service().set_fault(Some(Fault::Redirect("/elsewhere".to_owned())));
    conversation.read(soon()).await.unwrap_err();
    let report = conversation.force_off(&reported, &mut || true, soon()).await;
    assert!(matches!(report, SendReport::NotSent(NotSent::NotFresh)), "{report:?}");
    assert_eq!(server.service().resets(), 0);
}

#[tokio::test]
async fn the_caller_has_the_last_word() {
    let server = bmc("dell-idrac9-r750");
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    let mut asked = 0;
    let mut no = || {
        asked += 1;
        false
    };
    let report = conversation.force_off(&reported, &mut no, soon()).await;
    assert!(matches!(report, SendReport::NotSent(NotSent::Withdrawn)), "{report:?}");
    assert_eq!((asked, server.service().resets(), conversation.may_have_sent()), (1, 0, false));
}

#[tokio::test]
async fn a_system_that_is_off_is_never_sent_anything() {
    let server = bmc("dell-idrac9-r750");
    server.service().set_power(0, Power::Off);
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    let report = conversation.force_off(&reported, &mut || true, soon()).await;
    assert!(matches!(report, SendReport::NotSent(NotSent::NotRunning(PowerWord::Off))), "{report:?}");
    assert_eq!(server.service().resets(), 0);
}

/// The first poll after the last word writes, so a call that is given up then may have sent; the flag stays up when
/// the call is given up.
#[tokio::test]
async fn giving_up_half_way_leaves_the_flag_up() {
    let server = bmc("dell-idrac9-r750");
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    let asked = AtomicU32::new(0);
    let mut polls = 0;
    {
        let mut may_start = || asked.fetch_add(1, Ordering::Relaxed) == 0;
        let mut sending = pin!(conversation.force_off(&reported, &mut may_start, soon()));
        // Polls until the request was given to the connection, then drops the call.
        poll_fn(|cx| {
            polls += 1;
            match sending.as_mut().poll(cx) {
                Poll::Pending if asked.load(Ordering::Relaxed) == 0 => Poll::Pending,
                Poll::Pending => Poll::Ready(()),
                Poll::Ready(report) => panic!("{report:?}"),
            }
        })
        .await;
    }
    assert!(conversation.may_have_sent());
    // The connection is not used again; reading goes on over a new one.
    let again = conversation.read(soon()).await.unwrap();
    assert_eq!(conversation.traffic().connections, 2);
    assert!(again.power == PowerWord::On || again.power == PowerWord::Off);
    assert!(conversation.may_have_sent());
}

#[tokio::test(start_paused = true)]
async fn no_answer_to_a_reset_is_maybe_sent() {
    for (fault, what) in [(Fault::Hangs, "closed"), (Fault::Bomb, "bomb"), (Fault::HeaderBomb, "headers")] {
        let server = bmc("dell-idrac9-r750");
        let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
        let reported = conversation.read(soon()).await.unwrap();
        server.service().set_fault(Some(fault));
        let report = conversation.force_off(&reported, &mut || true, soon()).await;
        match (what, &report) {
            // The head of the answer had come.
            ("bomb", SendReport::MaybeSent(ResetAnswer::Accepted { status: 200 })) => {}
            ("closed" | "headers", SendReport::MaybeSent(ResetAnswer::None(_))) => {}
            _ => panic!("{what}: {report:?}"),
        }
        assert!(conversation.may_have_sent(), "{what}");
        server.service().set_fault(None);
        assert!(conversation.read(soon()).await.is_ok(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bmc_that_is_gone_is_proven_to_have_been_sent_nothing() {
    let server = bmc("dell-idrac9-r750");
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    server.service().set_fault(Some(Fault::Restarts(Duration::from_secs(60))));
    let reported = conversation.read(soon()).await.unwrap();
    assert!(conversation.force_off(&reported, &mut || true, soon()).await.may_have_been_sent());
    // It restarts now.
    let why = conversation.read(soon()).await.unwrap_err();
    assert!(why.reason() == "bmc_unreachable" && why.is_passing(), "{why}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(conversation.read(soon()).await.unwrap().power, PowerWord::Off);
}

#[tokio::test]
async fn several_systems_behind_one_bmc() {
    let server = bmc("cray-nc-two-nodes");
    let bmc = server.service();
    let (left, right) = ("5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27", "7f9e2a10-88c4-4f5d-b3d6-51a0c2e4f788");
    bmc.set_uuid(0, left);
    bmc.set_uuid(1, &right.to_uppercase());
    let choice = SystemChoice::Carrying(right.parse().unwrap());
    let mut conversation = open(&server, &target(choice)).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    assert_eq!(reported.uuid.text(), Some(right.to_uppercase().as_str()));
    conversation.force_off(&reported, &mut || true, soon()).await;
    assert_eq!((bmc.power(0), bmc.power(1)), (Some(Power::On), Some(Power::Off)));

    bmc.set_uuid(0, right);
    let why = open(&server, &target(SystemChoice::Carrying(right.parse().unwrap()))).await.unwrap_err();
    assert_eq!(why.reason(), "uuid_ambiguous");
}

/// A BMC that closes its connections: with notice, without, or as HTTP/1.0 does.
pub(crate) struct Closing(pub(crate) Bmc, pub(crate) After);

impl Service for Closing {
    fn answer(&self, request: &Seen) -> Reply {
        match self.0.answer(request) {
            Reply::Whole(whole) => Reply::Whole(Whole { after: self.1, ..whole }),
            other => other,
        }
    }
}

#[tokio::test]
async fn a_bmc_that_closes_each_connection_works() {
    for after in [After::Close, After::Vanish] {
        let bmc = Bmc::new(Personality::named("dell-idrac9-r750").unwrap(), USER, PASSWORD);
        let server = server(Closing(bmc, after), TlsVersion::V12);
        let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
        let reported = conversation.read(soon()).await.unwrap();
        let report = conversation.force_off(&reported, &mut || true, soon()).await;
        assert!(report.may_have_been_sent(), "{after:?}: {report:?}");
        assert_eq!(conversation.read(soon()).await.unwrap().power, PowerWord::Off, "{after:?}");
        assert_eq!(server.service().0.resets(), 1, "{after:?}");
        assert_eq!(conversation.traffic().connections, 3, "{after:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_one_request() {
    let server = bmc("dell-idrac9-r750");
    let wire = Wire::to(&server);
    let mut conversation =
        Conversation::open_through(wire, &target(path(DELL)), &"wrong".into(), soon()).await.unwrap();
    let why = conversation.read(soon()).await.unwrap_err();
    assert!(why.reason() == "http_auth" && !why.is_passing(), "{why}");
    assert!(why.to_string().contains("Operator role") && why.to_string().contains("lock"), "{why}");
    assert_eq!(server.stats().requests(), 1);
}

/// Answers everything with one status.
struct Always(u16);

impl Service for Always {
    fn answer(&self, _request: &Seen) -> Reply {
        Reply::Whole(Whole::empty(self.0))
    }
}

#[tokio::test]
async fn a_refused_account_ends_the_reading_at_once() {
    for status in [401, 403] {
        let server = server(Always(status), TlsVersion::V13);
        let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
        let why = conversation.read(soon()).await.unwrap_err();
        assert!(why.reason() == "http_auth" && !why.is_passing(), "{status}: {why}");
        assert_eq!(server.stats().requests(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_bmc_is_waited_for_until_the_deadline() {
    let server = bmc("dell-idrac9-r750");
    let mut conversation = open(&server, &target(path(DELL))).await.unwrap();
    server.service().set_fault(Some(Fault::Slow(Duration::from_secs(9))));
    assert!(conversation.read(within(Duration::from_secs(10))).await.is_ok());
    let why = conversation.read(within(Duration::from_secs(8))).await.unwrap_err();
    assert!(why.reason() == "deadline" && why.is_passing(), "{why}");
}
