//! The client and the simulated BMC of `apelora-lab`, which share no code, over real sockets; and other makers' clients
//! against the same BMC.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use apelora_ipmi::{
    CipherSuite, Completion, Conversation, Credentials, IpmiError, Power, SendReport, SetupMessage,
    SetupStatus, Suites, Target, Timers, Unanswered,
};
use apelora_lab::ipmi::{self, Account, Bmc, ByteOrder, Fault, Level, Listening, Server, Suite};
use tokio::time::Instant;

use crate::peers::{OPERATOR, REVERSED, RFC, SMBIOS, fence, is_mapped, soon, target};

/// Short, because nothing is lost on loopback but what a fault loses.
const TIMERS: Timers = Timers { step: Duration::from_millis(100), ..Timers::DEFAULT };

fn bmc() -> Bmc {
    bmc_of(Level::Operator)
}

fn bmc_of(level: Level) -> Bmc {
    let account = Account { name: OPERATOR.0.to_owned(), password: OPERATOR.1.to_owned(), level };
    Bmc::new(RFC, account, [7; 32])
}

async fn listen(bmc: Bmc) -> (Arc<Bmc>, Listening, Target) {
    let bmc = Arc::new(bmc);
    let listening = Server::listen(Arc::clone(&bmc), ([127, 0, 0, 1], 0).into()).await.unwrap();
    let target = target(listening.address(), OPERATOR, Suites::Prefer17);
    (bmc, listening, target)
}

async fn faulty(fault: Fault) -> (Arc<Bmc>, Listening, Target) {
    let bmc = bmc();
    bmc.set_fault(Some(fault));
    listen(bmc).await
}

async fn open(target: &Target) -> Result<Conversation, IpmiError> {
    Conversation::open(target, TIMERS, soon()).await
}

#[tokio::test]
async fn a_server_is_switched_off_with_each_suite_and_byte_order() {
    for (suite, spoken) in [(Suite::Three, CipherSuite::Three), (Suite::Seventeen, CipherSuite::Seventeen)] {
        for (order, bytes) in
            [(ByteOrder::Rfc4122, RFC), (ByteOrder::Smbios, SMBIOS), (ByteOrder::Ipmi, REVERSED)]
        {
            let (bmc, _listening, target) = listen(bmc().with_suites(&[suite]).with_byte_order(order)).await;
            let fenced = fence(&target, TIMERS, 1, |reading| {
                assert_eq!((reading.guid.0, reading.suite), (bytes, spoken));
            })
            .await;
            assert!(fenced.is_off(), "{fenced:?}");
            assert_eq!(fenced.sends, [SendReport::Answered(Completion::SUCCESS)]);
            assert_eq!((bmc.power(Instant::now()), bmc.power_offs()), (ipmi::Power::Off, 1));
            assert_eq!(bmc.sessions(), 0, "the session was not closed");
        }
    }
}

#[tokio::test]
async fn accounts_and_keys_are_judged() {
    let refused = |status| IpmiError::Setup { message: SetupMessage::Rakp2, status: SetupStatus(status) };
    let (_bmc, _listening, good) = listen(bmc()).await;
    let account = |name, password: &str| Credentials::new(name, &password.to_owned().into(), None).unwrap();
    let wrong = Target { credentials: account(OPERATOR.0, "another"), ..good.clone() };
    assert_eq!(open(&wrong).await.unwrap_err(), IpmiError::Password);
    let unknown = Target { credentials: account("nobody", OPERATOR.1), ..good };
    assert_eq!(open(&unknown).await.unwrap_err(), refused(0x0d));
    let (_bmc, _listening, user) = listen(bmc_of(Level::User)).await;
    assert_eq!(open(&user).await.unwrap_err(), refused(0x0a));
    let (_bmc, _listening, administrator) = listen(bmc_of(Level::Administrator)).await;
    open(&administrator).await.unwrap().close(soon()).await;
    let (_bmc, _listening, keyed) = listen(bmc().with_bmc_key(b"a BMC key")).await;
    assert_eq!(open(&keyed).await.unwrap_err(), IpmiError::BmcKey { configured: false });
    let key = "a BMC key".to_owned().into();
    let credentials = Credentials::new(OPERATOR.0, &OPERATOR.1.to_owned().into(), Some(&key)).unwrap();
    open(&Target { credentials, ..keyed }).await.unwrap().close(soon()).await;
}

#[tokio::test]
async fn faults_of_the_session_are_refused() {
    for (fault, expected) in [
        (Fault::Silent, "no usable Open Session Response in 3 tries"),
        (Fault::RefusesSuites(0x11), "refuses cipher suite 3"),
        (Fault::RefusesSuites(0x12), "status 12, illegal parameter"),
        (Fault::OffersSuiteZero, "answered cipher suite 0"),
        (Fault::Unprotected, "not both authenticated and encrypted"),
        (Fault::Slow(TIMERS.step * 2), "no usable Open Session Response in 3 tries"),
    ] {
        let (bmc, _listening, target) = faulty(fault.clone()).await;
        let error = open(&target).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{fault:?}: {error}");
        assert_eq!(bmc.power_offs(), 0);
    }
    let (_bmc, _listening, full) = faulty(Fault::NoSlot).await;
    let by = Instant::now() + Duration::from_millis(500);
    assert_eq!(Conversation::open(&full, TIMERS, by).await.unwrap_err(), IpmiError::NoFreeSession);
}

#[tokio::test]
async fn faults_of_the_server_are_seen() {
    let read = async |fault| {
        let (_bmc, _listening, target) = faulty(fault).await;
        let mut conversation = open(&target).await.unwrap();
        let read = conversation.read(is_mapped, soon()).await;
        conversation.close(soon()).await;
        read
    };
    let power = async |fault| read(fault).await.unwrap().power;
    assert_eq!(power(Fault::Lying(ipmi::Power::Off)).await, Power::Off);
    assert_eq!(power(Fault::ControlFault).await, Power::OffWithControlFault);
    assert_eq!(power(Fault::Lossy(4)).await, Power::On);
    let no_guid = read(Fault::NoGuid).await.unwrap_err();
    assert_eq!(no_guid, IpmiError::NoSystemGuid(Completion(0xc1)));
    let impostor = read(Fault::Impostor([9; 16])).await.unwrap_err();
    assert!(matches!(impostor, IpmiError::OtherSystem { guid } if guid.0 == [9; 16]), "{impostor}");
}

#[tokio::test]
async fn a_power_off_is_read_back_whatever_its_answer() {
    for (fault, report, off) in [
        (Fault::Rejects(0xd5), SendReport::Answered(Completion(0xd5)), false),
        (Fault::Ignores, SendReport::Answered(Completion::SUCCESS), false),
        (Fault::Hangs, SendReport::MaybeSent(Unanswered::Silence), true),
    ] {
        let (bmc, _listening, target) = faulty(fault.clone()).await;
        let mut conversation = open(&target).await.unwrap();
        conversation.read(is_mapped, soon()).await.unwrap();
        assert_eq!(conversation.force_off(soon(), soon()).await, report, "{fault:?}");
        let read = conversation.read(is_mapped, soon()).await.unwrap();
        assert_eq!(read.power == Power::Off, off, "{fault:?}");
        assert_eq!(bmc.power(Instant::now()) == ipmi::Power::Off, off, "{fault:?}");
        conversation.close(soon()).await;
    }
}

/// The worker runs conversations as tasks of their own.
#[tokio::test]
async fn a_conversation_can_be_a_task() {
    let (bmc, _listening, target) = listen(bmc()).await;
    let task = tokio::spawn(async move { fence(&target, TIMERS, 1, |_| ()).await.is_off() });
    assert!(task.await.unwrap());
    assert_eq!(bmc.power_offs(), 1);
}

#[tokio::test]
async fn only_loopback_is_served() {
    let error = Server::listen(Arc::new(bmc()), ([0, 0, 0, 0], 0).into()).await.unwrap_err();
    assert!(error.to_string().contains("loopback only"), "{error}");
}

/// Other makers' clients find a BMC in it: what the simulation says is IPMI, not what our client wants to hear.
#[tokio::test]
#[ignore = "needs ipmitool: scripts/test ipmi"]
async fn ipmitool_speaks_with_the_simulated_bmc() {
    for suite in ["17", "3"] {
        let (bmc, listening, _target) = listen(bmc()).await;
        let port = listening.address().port().to_string();
        let ask = async |words: &[&str]| {
            let mut command = Command::new("ipmitool");
            command.args(["-I", "lanplus", "-H", "127.0.0.1", "-p", &port, "-C", suite, "-L", "OPERATOR"]);
            command.args(["-U", OPERATOR.0, "-P", OPERATOR.1]).args(words);
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let power = async || ask(&["chassis", "power", "status"]).await.trim().to_owned();
        assert_eq!(power().await, "Chassis Power is on");
        assert!(ask(&["mc", "guid"]).await.contains(crate::peers::UUID), "suite {suite}");
        ask(&["chassis", "power", "off"]).await;
        assert_eq!(bmc.power(Instant::now()), ipmi::Power::Off);
        assert_eq!(power().await, "Chassis Power is off");
        ask(&["chassis", "power", "on"]).await;
        assert_eq!(power().await, "Chassis Power is on");
        assert_eq!(bmc.sessions(), 0);
    }
}
