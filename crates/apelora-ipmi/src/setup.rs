//! The six messages that set a session up (IPMI 2.0, sections 13.17 to 13.24), without their codes.

use std::fmt;

use crate::frame::{Reject, Setup, build_setup, take};
use crate::suite::{Algorithms, CipherSuite};

/// Privilege level "operator" (IPMI 2.0, section 6.8): the least that may switch power, and all that is ever asked.
pub(crate) const OPERATOR: u8 = 3;

/// Role byte of RAKP 1: operator, and look the user up by name only (bit 4). Without that bit some BMCs demand that the
/// account's level equals the role exactly, and refuse administrators.
pub(crate) const ROLE: u8 = 0x10 | OPERATOR;

/// Which setup answer a status came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupMessage {
    /// RMCP+ Open Session Response.
    OpenSession,
    /// RAKP Message 2.
    Rakp2,
    /// RAKP Message 4.
    Rakp4,
}

impl SetupMessage {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OpenSession => "Open Session Response",
            Self::Rakp2 => "RAKP 2",
            Self::Rakp4 => "RAKP 4",
        }
    }
}

impl fmt::Display for SetupMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A nonzero RMCP+ status code (IPMI 2.0, table 13-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupStatus(pub u8);

impl SetupStatus {
    /// Statuses of an Open Session Response that refuse the proposed algorithms. Only they, and the exact counter-offer
    /// of suite 3, lead from 17 to 3.
    pub(crate) const fn refuses_the_suite(self) -> bool {
        matches!(self.0, 0x04 | 0x05 | 0x06 | 0x07 | 0x10 | 0x11)
    }

    /// The BMC has no session slot left now; it frees idle ones after about a minute.
    pub(crate) const fn out_of_sessions(self) -> bool {
        matches!(self.0, 0x01)
    }

    /// What a BMC says when the two ends no longer talk about the same handshake.
    pub(crate) const fn lost_track(self) -> bool {
        matches!(self.0, 0x02 | 0x08 | 0x0f)
    }
}

impl fmt::Display for SetupStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0x01 => "no session slot is free",
            0x02 => "invalid session id",
            0x03 => "invalid payload type",
            0x04 => "invalid authentication algorithm",
            0x05 => "invalid integrity algorithm",
            0x06 => "no matching authentication payload",
            0x07 => "no matching integrity payload",
            0x08 => "inactive session id",
            0x09 => "invalid role",
            0x0a => "the account may not use the operator role",
            0x0b => "no session slot is free at the operator role",
            0x0c => "invalid name length",
            0x0d => "unknown user name, or the account's level is below operator",
            0x0e => "unauthorised GUID",
            0x0f => "invalid integrity check value",
            0x10 => "invalid confidentiality algorithm",
            0x11 => "no matching cipher suite",
            0x12 => "illegal parameter",
            _ => "unknown status",
        };
        write!(f, "status {:02X}, {text}", self.0)
    }
}

/// Why a setup answer that is meant for us cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Status(SetupMessage, SetupStatus),
    /// Status 0 with exactly suite 3 to a proposal of 17: "I have no 17". Never continued.
    CounterOffer,
    /// Other algorithms than proposed, in well-formed blocks.
    Algorithms(Algorithms),
    /// Algorithm blocks of another kind, order or length.
    Blocks,
    /// The BMC offers less than operator, or a level that does not exist.
    Privilege(u8),
    SessionIdZero,
    /// An answer of success with a length that no suite has.
    Length(SetupMessage),
    /// RAKP 2: wrong password, or tampering.
    Password,
    /// RAKP 4: wrong BMC key, or tampering.
    BmcKey,
}

impl Refusal {
    /// Whether it may lead from a proposal of `suite` to the next suite of the pin.
    pub(crate) fn allows_fall_back(self, suite: CipherSuite) -> bool {
        suite == CipherSuite::Seventeen
            && match self {
                Self::Status(SetupMessage::OpenSession, status) => status.refuses_the_suite(),
                Self::CounterOffer => true,
                _ => false,
            }
    }

    /// Whether a repeated datagram explains it: the BMC took part of another handshake of ours.
    pub(crate) const fn explained_by_repetition(self) -> bool {
        match self {
            Self::Password | Self::BmcKey => true,
            Self::Status(SetupMessage::Rakp2 | SetupMessage::Rakp4, status) => status.lost_track(),
            _ => false,
        }
    }
}

pub(crate) fn open_request(tag: u8, sidm: [u8; 4], suite: CipherSuite) -> Vec<u8> {
    let algorithms = suite.algorithms();
    let mut payload = Vec::with_capacity(32);
    payload.extend([tag, OPERATOR, 0, 0]);
    payload.extend(sidm);
    let numbers = [algorithms.authentication, algorithms.integrity, algorithms.confidentiality];
    for (kind, number) in (0..).zip(numbers) {
        payload.extend([kind, 0, 0, 8, number, 0, 0, 0]);
    }
    build_setup(Setup::OpenRequest, &payload)
}

/// Reads the answer to [`open_request`]: the BMC's session id.
///
/// The outer error is for an answer that is not ours, the inner one for an answer that cannot be continued.
pub(crate) fn open_response(
    payload: &[u8],
    tag: u8,
    sidm: [u8; 4],
    suite: CipherSuite,
) -> Result<Result<[u8; 4], Refusal>, Reject> {
    let message = SetupMessage::OpenSession;
    if let Some(status) = status_of(payload, tag)? {
        // A refusal may be 2, 8 or 36 bytes long: the id is compared when it is there.
        return match payload.get(4..8) {
            Some(id) if id != sidm => Err(Reject::SessionId),
            _ => Ok(Err(Refusal::Status(message, status))),
        };
    }
    let mut rest = payload;
    let [_tag, _status, privilege, _reserved] = take(&mut rest)?;
    if take(&mut rest)? != sidm {
        return Err(Reject::SessionId);
    }
    if payload.len() != 36 {
        return Err(Reject::Lengths);
    }
    let sidc = take(&mut rest)?;
    let mut numbers = [0; 3];
    for (kind, number) in (0..).zip(numbers.iter_mut()) {
        let [got_kind, _, _, length, algorithm, _, _, _] = take(&mut rest)?;
        if got_kind != kind || length != 8 {
            return Ok(Err(Refusal::Blocks));
        }
        *number = algorithm;
    }
    let [authentication, integrity, confidentiality] = numbers;
    let answered = Algorithms { authentication, integrity, confidentiality };
    if answered != suite.algorithms() {
        let counter_offer =
            suite == CipherSuite::Seventeen && answered == CipherSuite::Three.algorithms() && sidc != [0; 4];
        return Ok(Err(if counter_offer { Refusal::CounterOffer } else { Refusal::Algorithms(answered) }));
    }
    if sidc == [0; 4] {
        return Ok(Err(Refusal::SessionIdZero));
    }
    // Unauthenticated and unreliable (some BMCs echo, some say 0 or 4 whatever was asked): refused early when it is
    // too low, for a clear message, and never taken as proof.
    match privilege & 0x0f {
        0 | 3..=5 => Ok(Ok(sidc)),
        low => Ok(Err(Refusal::Privilege(low))),
    }
}

pub(crate) fn rakp1(tag: u8, sidc: [u8; 4], rm: [u8; 16], role: u8, user: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(28 + user.len());
    payload.extend([tag, 0, 0, 0]);
    payload.extend(sidc);
    payload.extend(rm);
    // Credentials hold at most 16 bytes of name.
    payload.extend([role, 0, 0, u8::try_from(user.len()).unwrap_or(u8::MAX)]);
    payload.extend(user);
    build_setup(Setup::Rakp1, &payload)
}

/// RAKP 2 before its code is verified.
pub(crate) struct Rakp2<'a> {
    pub(crate) rc: [u8; 16],
    pub(crate) guid: [u8; 16],
    pub(crate) code: &'a [u8],
}

/// Reads the answer to [`rakp1`]; the errors are as in [`open_response`].
pub(crate) fn rakp2(payload: &[u8], tag: u8, sidm: [u8; 4]) -> Result<Result<Rakp2<'_>, Refusal>, Reject> {
    let message = SetupMessage::Rakp2;
    // OpenBMC refuses with tag 0 and id 0, so an error needs neither to be ours: it is a hint that ends this attempt.
    if let [got_tag, status, ..] = *payload
        && status != 0
        && (got_tag == tag || got_tag == 0)
    {
        return Ok(Err(Refusal::Status(message, SetupStatus(status))));
    }
    status_of(payload, tag)?;
    let mut rest = payload;
    let _tag_status_reserved: [u8; 4] = take(&mut rest)?;
    if take(&mut rest)? != sidm {
        return Err(Reject::SessionId);
    }
    let rc = take(&mut rest)?;
    let guid = take(&mut rest)?;
    Ok(Ok(Rakp2 { rc, guid, code: rest }))
}

pub(crate) fn rakp3(tag: u8, sidc: [u8; 4], code: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(8 + code.len());
    payload.extend([tag, 0, 0, 0]);
    payload.extend(sidc);
    payload.extend(code);
    build_setup(Setup::Rakp3, &payload)
}

/// Reads the answer to [`rakp3`]: the integrity check value before it is verified; the errors are as in
/// [`open_response`].
pub(crate) fn rakp4(payload: &[u8], tag: u8, sidm: [u8; 4]) -> Result<Result<&[u8], Refusal>, Reject> {
    if let Some(status) = status_of(payload, tag)? {
        return Ok(Err(Refusal::Status(SetupMessage::Rakp4, status)));
    }
    let mut rest = payload;
    let _tag_status_reserved: [u8; 4] = take(&mut rest)?;
    if take(&mut rest)? != sidm {
        return Err(Reject::SessionId);
    }
    Ok(Ok(rest))
}

/// The status behind our tag, when it is not 0.
fn status_of(payload: &[u8], tag: u8) -> Result<Option<SetupStatus>, Reject> {
    let [got_tag, status, ..] = *payload else { return Err(Reject::TooShort) };
    if got_tag != tag {
        return Err(Reject::Tag);
    }
    Ok((status != 0).then_some(SetupStatus(status)))
}
