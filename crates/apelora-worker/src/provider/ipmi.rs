//! IPMI 2.0: from the map's entry to the client, and from what the client says to reasons and readings.

use std::net::SocketAddr;

use apelora_fencing::ReasonCode;
use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::identity::{MappedIdentity, RawIdentity};
use apelora_fencing::map::{Access, Address, CipherSuite};
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer};
use apelora_ipmi::{
    Completion, Conversation, Credentials, CredentialsError, IpmiError, NotSent, Power, SendReport, Suites,
    Timers,
};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout_at};

use super::{Facts, Leave, Providers, Scrub, misconfigured, no_secret};

/// At most so many addresses of one name are tried.
const MOST_ADDRESSES: usize = 4;

/// A conversation over IPMI.
#[derive(Debug)]
pub(super) struct Talk {
    client: Conversation,
    scrub: Scrub,
    /// The latest reading was off, with the power control fault.
    fault: bool,
}

impl Talk {
    pub(super) async fn open(providers: &Providers, target: &Target, by: Instant) -> Result<Self, BmcError> {
        let Access::Ipmi { address, user, secret, kg_secret, cipher_suites } = &target.entry.access else {
            return Err(misconfigured(format!("`{}` is not mapped to an IPMI BMC", target.member)));
        };
        let reveal = |name| providers.secrets.reveal(name).map_err(|why| no_secret(why.to_string()));
        let password = reveal(secret)?;
        let key = kg_secret.as_ref().map(reveal).transpose()?;
        let mut scrub = Scrub::default().without(&password);
        if let Some(key) = &key {
            scrub = scrub.without(key);
        }
        let credentials = Credentials::new(user, &password, key.as_ref()).map_err(|why| {
            let key_is_wrong = matches!(why, CredentialsError::NoBmcKey | CredentialsError::BmcKeyTooLong(_));
            match (why, kg_secret) {
                (CredentialsError::NoUser | CredentialsError::UserTooLong(_), _) => {
                    misconfigured(format!("member `{}`, `user`: {why}", target.member))
                }
                (_, Some(name)) if key_is_wrong => no_secret(format!("{}: {why}", name.as_str())),
                _ => no_secret(format!("{}: {why}", secret.as_str())),
            }
        })?;

        let asked = suites(cipher_suites)?;
        let narrowed = providers.has_spoken_17(&target.member);
        let allowed =
            if narrowed { asked.after_speaking(apelora_ipmi::CipherSuite::Seventeen) } else { asked };
        let addresses = resolve(address, by).await?;
        let opened = open_any(&addresses, credentials, allowed, providers.timers, by).await;
        let client = opened.map_err(|why| {
            let mut error = bmc_error(&why, &scrub);
            if error.reason == ReasonCode::CipherSuite && allowed != asked {
                error.detail.push_str(
                    "; it spoke cipher suite 17 before, so 3 is not accepted from it: if the BMC was replaced, restart \
                     the worker",
                );
            }
            error
        })?;
        if client.suite() == apelora_ipmi::CipherSuite::Seventeen {
            providers.note_17(&target.member);
        }
        Ok(Self { client, scrub, fault: false })
    }

    pub(super) async fn read(&mut self, mapped: &MappedIdentity, by: Instant) -> Result<Reported, BmcError> {
        self.fault = false;
        let is_mapped = |guid: apelora_ipmi::SystemGuid| mapped.check(&RawIdentity::Guid(guid.0)).is_ok();
        match self.client.read(is_mapped, by).await {
            Ok(seen) => {
                self.fault = seen.power == Power::OffWithControlFault;
                Ok(Reported {
                    identity: RawIdentity::Guid(seen.guid.0),
                    power: power(seen.power),
                    detail: self.scrub.text(seen),
                })
            }
            // Accepted before, and now told in another way: a firmware that changes under our eyes.
            Err(IpmiError::OtherSystem { guid }) if is_mapped(guid) => Err(BmcError {
                reason: ReasonCode::UuidChanged,
                transient: false,
                detail: format!("the system GUID changed to {guid} within the session"),
            }),
            // The machine compares it itself, and knows whether another answered before. The power was not read.
            Err(IpmiError::OtherSystem { guid }) => Ok(Reported {
                identity: RawIdentity::Guid(guid.0),
                power: PowerWord::Unknown,
                detail: format!("{}, system GUID {guid}", self.client.suite()),
            }),
            Err(why) => Err(bmc_error(&why, &self.scrub)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the one caller of the IPMI client's power-off")]
    pub(super) async fn force_off(&mut self, leave: &mut Leave<'_>, by: Instant) -> SendAnswer {
        let Some(until) = leave.until() else { return SendAnswer::NotSent(ReasonCode::PermitExpired) };
        answer(self.client.force_off(until.min(by), by).await)
    }

    pub(super) fn facts(&self) -> Facts {
        let fault = || {
            let detail = "the power-on bit is clear and the power control fault bit is set";
            (ReasonCode::PowerFault, detail.to_owned())
        };
        Facts {
            suite: Some(self.client.suite().id()),
            privilege: Some(Conversation::PRIVILEGE),
            questions: 2,
            obstacle: self.fault.then(fault),
            ..Facts::default()
        }
    }

    pub(super) async fn close(self, by: Instant) {
        self.client.close(by).await;
    }
}

fn suites(list: &[CipherSuite]) -> Result<Suites, BmcError> {
    let ids: Vec<u8> = list
        .iter()
        .map(|suite| match suite {
            CipherSuite::Suite3 => 3,
            CipherSuite::Suite17 => 17,
        })
        .collect();
    Suites::from_ids(&ids).map_err(|why| misconfigured(why.to_string()))
}

async fn resolve(address: &Address, by: Instant) -> Result<Vec<SocketAddr>, BmcError> {
    let unreachable = |detail: String| BmcError {
        reason: ReasonCode::BmcUnreachable,
        transient: true,
        detail: Scrub::default().text(detail),
    };
    let remedy = "check the name and the resolver of this host";
    let found = timeout_at(by, lookup_host((address.host(), address.port()))).await;
    let found: Vec<_> = match found {
        Err(_) => return Err(late(format!("{address} was not resolved in time: {remedy}"))),
        Ok(Err(why)) => return Err(unreachable(format!("{address} cannot be resolved: {why}; {remedy}"))),
        Ok(Ok(found)) => found.take(MOST_ADDRESSES).collect(),
    };
    if found.is_empty() { Err(unreachable(format!("{address} has no address: {remedy}"))) } else { Ok(found) }
}

fn late(detail: String) -> BmcError {
    BmcError { reason: ReasonCode::Deadline, transient: true, detail }
}

/// Tries the addresses in turn, each with its share of the time, as long as nobody answers. Whoever answers is the one.
async fn open_any(
    addresses: &[SocketAddr],
    credentials: Credentials,
    suites: Suites,
    timers: Timers,
    by: Instant,
) -> Result<Conversation, IpmiError> {
    let mut last = IpmiError::Socket(std::io::ErrorKind::AddrNotAvailable);
    for (tried, &address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let until = now + by.saturating_duration_since(now) / left;
        let target = apelora_ipmi::Target { address, credentials: credentials.clone(), suites };
        match Conversation::open(&target, timers, until).await {
            Err(why @ (IpmiError::Socket(_) | IpmiError::Silent { .. } | IpmiError::Deadline { .. })) => {
                last = why;
            }
            ended => return ended,
        }
    }
    Err(last)
}

fn power(seen: Power) -> PowerWord {
    match seen {
        Power::On => PowerWord::On,
        Power::Off => PowerWord::Off,
        // The BMC tried to switch and does not know what came of it: no proof of anything.
        Power::OffWithControlFault => PowerWord::Unknown,
    }
}

/// Insufficient privilege (IPMI 2.0, table 5-2).
const D4: Completion = Completion(0xd4);

fn bmc_error(why: &IpmiError, scrub: &Scrub) -> BmcError {
    use ReasonCode::{
        BmcUnreachable, CipherSuite, Deadline, IpmiAuth, IpmiPrivilege, Protocol, UuidMismatch, UuidMissing,
    };
    let (reason, transient) = match why {
        IpmiError::Socket(_)
        | IpmiError::NoEntropy
        | IpmiError::Silent { .. }
        | IpmiError::NoFreeSession
        | IpmiError::SessionSpent => (BmcUnreachable, true),
        IpmiError::Deadline { .. } => (Deadline, true),
        IpmiError::SuiteRefused { .. } | IpmiError::OnlySuite3 | IpmiError::OtherSuite { .. } => {
            (CipherSuite, false)
        }
        // Statuses of table 13-15.
        IpmiError::Setup { status, .. } => match status.0 {
            0x01 | 0x0b => (BmcUnreachable, true),
            0x09 | 0x0a => (IpmiPrivilege, false),
            0x0c | 0x0d | 0x0f => (IpmiAuth, false),
            _ => (Protocol, false),
        },
        IpmiError::ConflictingAnswers | IpmiError::Malformed { .. } | IpmiError::WrongLength { .. } => {
            (Protocol, false)
        }
        IpmiError::Password | IpmiError::BmcKey { .. } => (IpmiAuth, false),
        IpmiError::LevelOffered(_) | IpmiError::OperatorRefused(_) | IpmiError::OtherLevel => {
            (IpmiPrivilege, false)
        }
        IpmiError::NoSystemGuid(_) => (UuidMissing, false),
        IpmiError::Failed { completion: D4, .. } => (IpmiPrivilege, false),
        // Busy, timed out inside the BMC, unspecified.
        IpmiError::Failed { completion, .. } => (Protocol, matches!(completion.0, 0xc0 | 0xc3 | 0xff)),
        IpmiError::OtherSystem { .. } => (UuidMismatch, false),
    };
    BmcError { reason, transient, detail: scrub.text(why) }
}

fn answer(sent: SendReport) -> SendAnswer {
    match sent {
        SendReport::NotSent(NotSent::NoFreshOn | NotSent::TooLate) => {
            SendAnswer::NotSent(ReasonCode::PermitExpired)
        }
        SendReport::NotSent(NotSent::NoEntropy | NotSent::SessionSpent | NotSent::Socket(_)) => {
            SendAnswer::NotSent(ReasonCode::BmcUnreachable)
        }
        SendReport::MaybeSent(_) => SendAnswer::Unanswered,
        SendReport::Answered(Completion::SUCCESS) => SendAnswer::Accepted,
        SendReport::Answered(D4) => SendAnswer::Rejected(ReasonCode::IpmiPrivilege),
        SendReport::Answered(_) => SendAnswer::Declined,
    }
}

#[cfg(test)]
mod tests {
    use apelora_ipmi::{SetupMessage, SetupStatus, Unanswered};

    use super::*;

    #[tokio::test]
    async fn every_address_of_a_name_has_its_share_of_the_time() {
        use std::time::Duration;

        use crate::tests::bmcs::{self, PASSWORD, USER};

        let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let bmc = bmcs::ipmi().await;
        let silent = deaf.local_addr().unwrap();
        let good: SocketAddr = bmc.entry["address"].as_str().unwrap().parse().unwrap();
        let timers = Timers { step: Duration::from_millis(20), ..Timers::DEFAULT };
        let open = async |password: &str, addresses: &[SocketAddr]| {
            let credentials = Credentials::new(USER, &password.into(), None).unwrap();
            open_any(addresses, credentials, Suites::Only17, timers, bmcs::soon()).await
        };
        open(PASSWORD, &[silent, good]).await.unwrap().close(bmcs::soon()).await;
        assert!(matches!(open(PASSWORD, &[silent, silent]).await, Err(IpmiError::Silent { .. })));
        // Whoever answers is the one: a refusal is not asked for a second time elsewhere.
        assert_eq!(open("another", &[good, silent]).await.unwrap_err(), IpmiError::Password);
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_unreachable() {
        let address = Address::parse("bmc.invalid", 623).unwrap();
        let by = Instant::now() + std::time::Duration::from_secs(10);
        let error = resolve(&address, by).await.unwrap_err();
        // A resolver that nobody answers is late instead.
        assert!([ReasonCode::BmcUnreachable, ReasonCode::Deadline].contains(&error.reason));
        assert!(error.transient && error.detail.contains("bmc.invalid:623"), "{error:?}");
    }

    #[test]
    fn off_with_a_control_fault_is_not_off() {
        assert_eq!(power(Power::OffWithControlFault), PowerWord::Unknown);
        assert_eq!((power(Power::Off), power(Power::On)), (PowerWord::Off, PowerWord::On));
    }

    #[test]
    fn a_report_keeps_exactly_whether_something_was_sent() {
        let kind = std::io::ErrorKind::NetworkUnreachable;
        let mut reports = vec![
            SendReport::MaybeSent(Unanswered::Silence),
            SendReport::MaybeSent(Unanswered::Unusable),
            SendReport::MaybeSent(Unanswered::Socket(kind)),
        ];
        reports.extend((0..=u8::MAX).map(|code| SendReport::Answered(Completion(code))));
        reports.extend(
            [
                NotSent::NoFreshOn,
                NotSent::TooLate,
                NotSent::NoEntropy,
                NotSent::SessionSpent,
                NotSent::Socket(kind),
            ]
            .map(SendReport::NotSent),
        );
        for report in reports {
            let answer = answer(report);
            assert_eq!(report.may_have_been_sent(), !matches!(answer, SendAnswer::NotSent(_)), "{report:?}");
            assert_eq!(
                answer == SendAnswer::Accepted,
                report == SendReport::Answered(Completion::SUCCESS),
                "only success is acceptance"
            );
        }
        assert_eq!(answer(SendReport::Answered(Completion(0xd5))), SendAnswer::Declined);
        assert_eq!(
            answer(SendReport::Answered(Completion(0xd4))),
            SendAnswer::Rejected(ReasonCode::IpmiPrivilege)
        );
    }

    /// What concerns the account must lead to the longer pause: some BMCs lock accounts.
    #[test]
    fn what_concerns_the_account_pauses_longest() {
        let account = [ReasonCode::IpmiAuth, ReasonCode::IpmiPrivilege];
        let mut errors = vec![
            IpmiError::Password,
            IpmiError::BmcKey { configured: true },
            IpmiError::OperatorRefused(Completion(0x81)),
            IpmiError::NoFreeSession,
            IpmiError::SessionSpent,
            IpmiError::OnlySuite3,
            IpmiError::ConflictingAnswers,
        ];
        errors.extend(
            (0..=u8::MAX)
                .map(|status| IpmiError::Setup { message: SetupMessage::Rakp2, status: SetupStatus(status) }),
        );
        for why in errors {
            let error = bmc_error(&why, &Scrub::default());
            if why.concerns_credentials() {
                assert!(account.contains(&error.reason), "{why}");
            }
            assert!(!(account.contains(&error.reason) && error.transient), "{why}");
        }
    }
}
