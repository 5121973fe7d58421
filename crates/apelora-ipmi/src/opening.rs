//! How a session comes about: one handshake after another, and what was heard while each lasted.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::error::{IpmiError, Noticed};
use crate::frame::{MAX_DATAGRAM, Reject};
use crate::handshake::{Handshake, Nonces, Step};
use crate::link::{Entropy, Log, Network, NoEntropy, draw};
use crate::session::Session;
use crate::setup::{Refusal, SetupMessage};
use crate::suite::CipherSuite;
use crate::target::{Target, Timers, pause};

/// Pauses before a BMC without a free session slot is tried again; the last one repeats.
const NO_SLOT_PAUSES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// Handshakes until one succeeds, is refused for good, or time is over.
pub(crate) async fn establish<N: Network>(
    network: &N,
    entropy: &mut impl Entropy,
    target: &Target,
    timers: Timers,
    log: &mut Log,
    by: Instant,
) -> Result<(Session, N::Link), IpmiError> {
    // The suite survives a restart: silence never leads to another one.
    let mut suite = target.suites.first();
    let mut handshakes = 0;
    let mut without_slot = 0;
    let mut excused = false;
    loop {
        let outcome = attempt(network, entropy, target, suite, timers, log, by).await?;
        let refusal = match outcome {
            Outcome::Established(session, link) => return Ok((*session, link)),
            Outcome::Conflict => return Err(IpmiError::ConflictingAnswers),
            Outcome::Silent(awaited) => {
                handshakes += 1;
                if handshakes >= timers.handshakes {
                    let (awaited, noticed) = (awaited.name(), log.noticed);
                    return Err(IpmiError::Silent { awaited, tries: handshakes, noticed });
                }
                continue;
            }
            Outcome::Refused { refusal, repeated } => {
                if repeated && refusal.explained_by_repetition() && !excused {
                    excused = true;
                    continue;
                }
                refusal
            }
        };
        if refusal.allows_fall_back(suite)
            && let Some(next) = target.suites.after_refusal_of(suite)
        {
            tracing::debug!(%suite, %next, "the BMC refused the suite");
            suite = next;
            continue;
        }
        if let Refusal::Status(SetupMessage::OpenSession, status) = refusal
            && status.out_of_sessions()
        {
            let again = Instant::now() + pause(&NO_SLOT_PAUSES, without_slot);
            if again < by {
                without_slot += 1;
                sleep_until(again).await;
                continue;
            }
        }
        return Err(refused(refusal, suite, target.credentials.has_bmc_key()));
    }
}

/// The final error for a refusal.
fn refused(refusal: Refusal, suite: CipherSuite, bmc_key: bool) -> IpmiError {
    let malformed = |message, what| IpmiError::Malformed { message, what };
    match refusal {
        Refusal::Status(SetupMessage::OpenSession, status) if status.refuses_the_suite() => {
            IpmiError::SuiteRefused { suite, status }
        }
        Refusal::Status(SetupMessage::OpenSession, status) if status.out_of_sessions() => {
            IpmiError::NoFreeSession
        }
        Refusal::Status(message, status) => IpmiError::Setup { message, status },
        Refusal::CounterOffer => IpmiError::OnlySuite3,
        Refusal::Algorithms(answered) => IpmiError::OtherSuite { suite, answered },
        Refusal::Blocks => malformed(SetupMessage::OpenSession, "algorithm blocks"),
        Refusal::SessionIdZero => malformed(SetupMessage::OpenSession, "session id 0"),
        Refusal::Length(message) => malformed(message, "length of the code"),
        Refusal::Privilege(level) => IpmiError::LevelOffered(level),
        Refusal::Password => IpmiError::Password,
        Refusal::BmcKey => IpmiError::BmcKey { configured: bmc_key },
    }
}

/// How an attempt ended.
enum Outcome<L> {
    Established(Box<Session>, L),
    /// Nothing usable came in time.
    Silent(SetupMessage),
    /// The BMC, or somebody in its name, refused; `repeated` says whether datagrams were seen twice.
    Refused {
        refusal: Refusal,
        repeated: bool,
    },
    /// The suite was refused and something else was said as well.
    Conflict,
}

/// One attempt with one suite: new socket, port, tag, session id and random number.
///
/// Nothing in a handshake is authenticated before RAKP 2. So a refusal is not taken at its word at once: until the step
/// is over a good answer still counts. A refusal of the suite waits for `timers.linger` only, and there anything that
/// differs from it is a conflict.
async fn attempt<N: Network>(
    network: &N,
    entropy: &mut impl Entropy,
    target: &Target,
    suite: CipherSuite,
    timers: Timers,
    log: &mut Log,
    by: Instant,
) -> Result<Outcome<N::Link>, IpmiError> {
    log.noticed = Noticed::default();
    let link = network.connect(target.address).await.map_err(|error| IpmiError::Socket(error.kind()))?;
    let nonces = nonces(entropy).map_err(|_none| IpmiError::NoEntropy)?;
    let (mut handshake, request) = Handshake::start(suite, nonces, target.credentials.clone());
    log.send(&link, &request, by).await;
    let mut until = by.min(Instant::now() + timers.step);
    let mut refusal: Option<Refusal> = None;
    let mut repeated = false;
    let mut buffer = [0; MAX_DATAGRAM + 1];
    loop {
        let Some(datagram) = log.receive(&link, &mut buffer, until).await else { break };
        match handshake.receive(datagram) {
            Step::Ignored(reject) => {
                repeated |= reject == Reject::EarlierStep;
                log.dropped(reject);
            }
            Step::Established(session) => return Ok(Outcome::Established(session, link)),
            Step::Send(next) => {
                if refusal.is_some_and(|refusal| refusal.allows_fall_back(suite)) {
                    return Ok(Outcome::Conflict);
                }
                refusal = None;
                log.send(&link, &next, by).await;
                until = by.min(Instant::now() + timers.step);
            }
            Step::Refused(heard) => match refusal {
                None => {
                    refusal = Some(heard);
                    let plausible = repeated && heard.explained_by_repetition();
                    if plausible || heard.allows_fall_back(suite) {
                        until = until.min(Instant::now() + timers.linger);
                    }
                }
                Some(first) if first != heard && first.allows_fall_back(suite) => {
                    return Ok(Outcome::Conflict);
                }
                Some(_) => {}
            },
        }
    }
    match refusal {
        Some(refusal) => Ok(Outcome::Refused { refusal, repeated }),
        None if Instant::now() >= by => {
            Err(IpmiError::Deadline { awaited: handshake.awaits().name(), noticed: log.noticed })
        }
        None => Ok(Outcome::Silent(handshake.awaits())),
    }
}

fn nonces(entropy: &mut impl Entropy) -> Result<Nonces, NoEntropy> {
    let [tag] = draw(entropy)?;
    let rm = draw(entropy)?;
    loop {
        // 0 is not a session id.
        let sidm = draw(entropy)?;
        if sidm != [0; 4] {
            return Ok(Nonces { tag, sidm, rm });
        }
    }
}
