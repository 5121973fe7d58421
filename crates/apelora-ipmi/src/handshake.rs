//! One attempt at a session, as a machine without I/O: datagrams in, datagrams out.
//!
//! Open Session, RAKP 1 to RAKP 4. A message is never sent twice: a lost one ends the attempt, because no BMC recovers
//! from a repeated RAKP 3 and some draw new ids for a repeated Open Session or RAKP 1.

use crate::credentials::Credentials;
use crate::frame::{self, Reject, Setup};
use crate::keys::{Exchange, Length, SessionKeys};
use crate::session::Session;
use crate::setup::{self, Refusal, SetupMessage};
use crate::suite::CipherSuite;

/// The unpredictable values of one attempt. All are new for each attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonces {
    pub(crate) tag: u8,
    /// Our session id; never 0.
    pub(crate) sidm: [u8; 4],
    pub(crate) rm: [u8; 16],
}

/// What a datagram led to.
pub(crate) enum Step {
    /// The next message of the handshake.
    Send(Vec<u8>),
    /// The BMC proved that it knows the password and the session key.
    Established(Box<Session>),
    /// An answer that cannot be continued. The state is as before: nothing authenticates an error, so a good answer
    /// that arrives afterwards still counts.
    Refused(Refusal),
    /// Not an answer to what was asked; nothing changed.
    Ignored(Reject),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Rakp1Sent { sidc: [u8; 4] },
    Rakp3Sent { sidc: [u8; 4], rc: [u8; 16], guid: [u8; 16] },
    Finished,
}

/// One attempt.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Handshake {
    suite: CipherSuite,
    role: u8,
    nonces: Nonces,
    credentials: Credentials,
    state: State,
}

impl Handshake {
    /// Begins an attempt with `suite` alone; the second value is the Open Session Request.
    pub(crate) fn start(suite: CipherSuite, nonces: Nonces, credentials: Credentials) -> (Self, Vec<u8>) {
        Self::start_as(setup::ROLE, suite, nonces, credentials)
    }

    pub(crate) fn start_as(
        role: u8,
        suite: CipherSuite,
        nonces: Nonces,
        credentials: Credentials,
    ) -> (Self, Vec<u8>) {
        let request = setup::open_request(nonces.tag, nonces.sidm, suite);
        (Self { suite, role, nonces, credentials, state: State::Opening }, request)
    }

    /// The message whose answer is awaited.
    pub(crate) const fn awaits(&self) -> SetupMessage {
        match self.state {
            State::Opening => SetupMessage::OpenSession,
            State::Rakp1Sent { .. } => SetupMessage::Rakp2,
            State::Rakp3Sent { .. } | State::Finished => SetupMessage::Rakp4,
        }
    }

    /// Takes one datagram.
    pub(crate) fn receive(&mut self, datagram: &[u8]) -> Step {
        match self.advance(datagram) {
            Ok(Ok(step)) => step,
            Ok(Err(refusal)) => Step::Refused(refusal),
            Err(reject) => Step::Ignored(reject),
        }
    }

    fn advance(&mut self, datagram: &[u8]) -> Result<Result<Step, Refusal>, Reject> {
        let framed = frame::parse(datagram)?;
        let expected = match self.state {
            State::Opening => Setup::OpenResponse,
            State::Rakp1Sent { .. } => Setup::Rakp2,
            State::Rakp3Sent { .. } => Setup::Rakp4,
            State::Finished => return Err(Reject::NothingAsked),
        } as u8;
        let kind = framed.payload_type;
        if kind != expected {
            let earlier = (Setup::OpenResponse as u8..expected).contains(&kind);
            return Err(if earlier { Reject::EarlierStep } else { Reject::OtherMessage });
        }
        let payload = frame::parse_setup(&framed)?;
        match self.state {
            State::Opening => self.opened(payload),
            State::Rakp1Sent { sidc } => self.rakp2(payload, sidc),
            State::Rakp3Sent { sidc, rc, guid } => self.rakp4(payload, sidc, rc, guid),
            State::Finished => Err(Reject::NothingAsked),
        }
    }

    const fn tag(&self, step: u8) -> u8 {
        self.nonces.tag.wrapping_add(step)
    }

    fn exchange(&self, sidc: [u8; 4], rc: [u8; 16], guid: [u8; 16]) -> Exchange<'_> {
        let Nonces { sidm, rm, .. } = self.nonces;
        Exchange {
            suite: self.suite,
            credentials: &self.credentials,
            sidm,
            sidc,
            rm,
            rc,
            guid,
            role: self.role,
        }
    }

    fn opened(&mut self, payload: &[u8]) -> Result<Result<Step, Refusal>, Reject> {
        let sidc = match setup::open_response(payload, self.tag(0), self.nonces.sidm, self.suite)? {
            Ok(sidc) => sidc,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.state = State::Rakp1Sent { sidc };
        let user = self.credentials.user();
        Ok(Ok(Step::Send(setup::rakp1(self.tag(1), sidc, self.nonces.rm, self.role, user))))
    }

    fn rakp2(&mut self, payload: &[u8], sidc: [u8; 4]) -> Result<Result<Step, Refusal>, Reject> {
        let answer = match setup::rakp2(payload, self.tag(1), self.nonces.sidm)? {
            Ok(answer) => answer,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if answer.code.len() != Length::Whole.of(self.suite) {
            return Ok(Err(Refusal::Length(SetupMessage::Rakp2)));
        }
        let exchange = self.exchange(sidc, answer.rc, answer.guid);
        // RAKP 3 gives a listener something to guess the password against, so a BMC that does not know it gets none.
        if !exchange.rakp2_is(answer.code) {
            return Ok(Err(Refusal::Password));
        }
        let rakp3 = setup::rakp3(self.tag(2), sidc, exchange.rakp3().as_bytes());
        self.state = State::Rakp3Sent { sidc, rc: answer.rc, guid: answer.guid };
        Ok(Ok(Step::Send(rakp3)))
    }

    fn rakp4(
        &mut self,
        payload: &[u8],
        sidc: [u8; 4],
        rc: [u8; 16],
        guid: [u8; 16],
    ) -> Result<Result<Step, Refusal>, Reject> {
        let code = match setup::rakp4(payload, self.tag(2), self.nonces.sidm)? {
            Ok(code) => code,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if code.len() != Length::Truncated.of(self.suite) {
            return Ok(Err(Refusal::Length(SetupMessage::Rakp4)));
        }
        let exchange = self.exchange(sidc, rc, guid);
        let sik = exchange.sik();
        if !exchange.rakp4_is(&sik, code) {
            return Ok(Err(Refusal::BmcKey));
        }
        let session = Session::new(self.suite, SessionKeys::derive(self.suite, &sik), self.nonces.sidm, sidc);
        self.state = State::Finished;
        Ok(Ok(Step::Established(Box::new(session))))
    }

    /// Everything that an attacker could want to change, for tests that compare it before and after.
    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> String {
        format!("{:?} {:?} {:?} {}", self.suite, self.nonces, self.state, self.role)
    }
}
