//! One handshake on one socket, and what was heard while it lasted.

use tokio::time::Instant;

use crate::dialogue::{Log, Target, Timers};
use crate::error::{IpmiError, Noticed};
use crate::frame::{MAX_DATAGRAM, Reject};
use crate::handshake::{Handshake, Nonces, Step};
use crate::link::{Entropy, Network, NoEntropy, draw};
use crate::session::Session;
use crate::setup::{Refusal, SetupMessage};
use crate::suite::CipherSuite;

/// How an attempt ended.
pub(crate) enum Outcome<L> {
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
/// Nothing in a handshake is authenticated before RAKP 2. So a refusal is not taken at its word at once: for
/// `timers.linger` a good answer still counts, except after a refusal of the suite, where anything that differs from
/// it is a conflict.
pub(crate) async fn attempt<N: Network>(
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
                    until = by.min(Instant::now() + timers.linger);
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
