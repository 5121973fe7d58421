//! An established session as a machine without I/O: requests in, datagrams out; datagrams in, replies out.
//!
//! Only packets that are both authenticated and encrypted exist here, in both directions (IPMI 2.0, section 13.6; the
//! integrity trailer is section 13.28.4, the confidentiality trailer 13.29).

use zeroize::Zeroizing;

use crate::frame::{self, RMCP_LEN, Reject, SECURED_IPMI};
use crate::keys::{BLOCK, SessionKeys};
use crate::lan::{Reply, Request};
use crate::suite::CipherSuite;

/// How far ahead of the last accepted packet a sequence number may be (IPMI 2.0, section 6.12.13).
const WINDOW: u32 = 16;

/// A session is given up after this many packets, so a sequence number never wraps.
const LAST_SEQUENCE: u32 = 1 << 16;

/// A session is given up when this many requests in a row got no answer. Request numbers have six bits: without this
/// bound a withheld answer could become the answer to a request 64 later.
const MAX_UNANSWERED: u8 = 16;

/// Next header byte of the integrity trailer: always 7 (IPMI 2.0, table 13-8).
const NEXT_HEADER: u8 = 0x07;

/// The session is spent: see [`LAST_SEQUENCE`] and [`MAX_UNANSWERED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    request: Request,
    rq_seq: u8,
}

/// One session with its keys. One request is outstanding at a time.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Session {
    suite: CipherSuite,
    keys: SessionKeys,
    /// Our id: every packet to us carries it.
    sidm: [u8; 4],
    /// The BMC's id: every packet of ours carries it.
    sidc: [u8; 4],
    sent: u32,
    seen: u32,
    rq_seq: u8,
    unanswered: u8,
    pending: Option<Pending>,
}

impl Session {
    pub(crate) const fn new(suite: CipherSuite, keys: SessionKeys, sidm: [u8; 4], sidc: [u8; 4]) -> Self {
        Self { suite, keys, sidm, sidc, sent: 0, seen: 0, rq_seq: 0, unanswered: 0, pending: None }
    }

    pub(crate) const fn suite(&self) -> CipherSuite {
        self.suite
    }

    /// The request that closes this session.
    pub(crate) const fn close(&self) -> Request {
        Request::CloseSession { sidc: self.sidc }
    }

    /// Asks; an earlier request that is still unanswered is given up.
    pub(crate) fn ask(&mut self, request: Request, iv: [u8; BLOCK]) -> Result<Vec<u8>, Spent> {
        if self.unanswered >= MAX_UNANSWERED && !matches!(request, Request::CloseSession { .. }) {
            return Err(Spent);
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.rq_seq = (self.rq_seq + 1) & 0x3f;
        let pending = Pending { request, rq_seq: self.rq_seq };
        let packet = self.seal(pending, iv)?;
        self.pending = Some(pending);
        Ok(packet)
    }

    /// Asks the outstanding request once more: new sequence number and initialisation vector, same request number. There
    /// is none for a power-off, which no BMC recognises as a repetition.
    pub(crate) fn repeat(&mut self, iv: [u8; BLOCK]) -> Result<Option<Vec<u8>>, Spent> {
        match self.pending {
            None | Some(Pending { request: Request::PowerDown, .. }) => Ok(None),
            Some(pending) => self.seal(pending, iv).map(Some),
        }
    }

    /// Takes one datagram: the reply to the outstanding request, or the reason why it is none. A rejected datagram
    /// changes nothing.
    pub(crate) fn receive(&mut self, datagram: &[u8]) -> Result<Reply, Reject> {
        let (sequence, message) = self.unseal(datagram)?;
        let Pending { request, rq_seq } = self.pending.ok_or(Reject::NothingAsked)?;
        let reply = request.decode(rq_seq, &message)?;
        self.seen = sequence;
        self.pending = None;
        self.unanswered = 0;
        Ok(reply)
    }

    fn seal(&mut self, pending: Pending, iv: [u8; BLOCK]) -> Result<Vec<u8>, Spent> {
        self.seal_message(pending.request.encode(pending.rq_seq), iv)
    }

    fn seal_message(&mut self, message: Vec<u8>, iv: [u8; BLOCK]) -> Result<Vec<u8>, Spent> {
        let mut plain = message;
        // Pad bytes 1, 2, 3 .. and their number fill the last block.
        let pad = (BLOCK - (plain.len() + 1) % BLOCK) % BLOCK;
        plain.extend((1..).take(pad));
        plain.push(u8::try_from(pad).unwrap_or(0));
        self.seal_padded(plain, iv)
    }

    /// Encrypts whole blocks and wraps them.
    fn seal_padded(&mut self, mut plain: Vec<u8>, iv: [u8; BLOCK]) -> Result<Vec<u8>, Spent> {
        if self.sent >= LAST_SEQUENCE {
            return Err(Spent);
        }
        self.sent += 1;
        self.keys.encrypt(&iv, &mut plain);
        let payload = [&iv[..], &plain].concat();
        let mut packet = frame::build(SECURED_IPMI, self.sidc, self.sent, &payload);
        packet.extend(trailer(payload.len()));
        let code = self.keys.sign(packet.get(RMCP_LEN..).unwrap_or(&[]));
        packet.extend(code.as_bytes());
        Ok(packet)
    }

    /// Checks everything about a packet and returns its sequence number and message. The code is verified before
    /// anything is decrypted, so there is no padding oracle.
    fn unseal(&self, datagram: &[u8]) -> Result<(u32, Zeroizing<Vec<u8>>), Reject> {
        let framed = frame::parse(datagram)?;
        if framed.payload_type != SECURED_IPMI {
            return Err(Reject::NotSecured);
        }
        if framed.session_id != self.sidm {
            return Err(Reject::SessionId);
        }
        let len = framed.payload_len;
        if len < 2 * BLOCK || len % BLOCK != 0 {
            return Err(Reject::Lengths);
        }
        let expected_trailer = trailer(len);
        let (Some((payload, rest)), code_at) =
            (framed.rest.split_at_checked(len), datagram.len().saturating_sub(self.keys.code_len()))
        else {
            return Err(Reject::Lengths);
        };
        if rest.len() != expected_trailer.len() + self.keys.code_len() {
            return Err(Reject::Lengths);
        }
        let (Some((covered, code)), Some((iv, encrypted))) = (
            datagram.get(RMCP_LEN..code_at).zip(datagram.get(code_at..)),
            payload.split_first_chunk::<BLOCK>(),
        ) else {
            return Err(Reject::Lengths);
        };
        if !self.keys.signed(covered, code) {
            return Err(Reject::Code);
        }
        if !rest.starts_with(&expected_trailer) {
            return Err(Reject::Trailer);
        }
        let ahead = framed.sequence.checked_sub(self.seen);
        if !ahead.is_some_and(|ahead| (1..=WINDOW).contains(&ahead)) {
            return Err(Reject::Sequence);
        }
        let mut plain = Zeroizing::new(encrypted.to_vec());
        self.keys.decrypt(iv, &mut plain);
        let message = unpadded_len(&plain).ok_or(Reject::Padding)?;
        plain.truncate(message);
        Ok((framed.sequence, plain))
    }
}

/// The integrity trailer without its code: pad bytes FF so that the covered bytes are a multiple of four, their number,
/// and the next header byte.
fn trailer(payload_len: usize) -> Vec<u8> {
    const SESSION_HEADER_LEN: usize = 12;
    let pad = (4 - (SESSION_HEADER_LEN + payload_len + 2) % 4) % 4;
    let mut trailer = vec![0xff; pad];
    trailer.extend([u8::try_from(pad).unwrap_or(0), NEXT_HEADER]);
    trailer
}

/// Length of the message in front of the confidentiality trailer. A whole block of padding is taken too, because some
/// BMCs emit it.
fn unpadded_len(plain: &[u8]) -> Option<usize> {
    let (pad, rest) = plain.split_last()?;
    let pad = usize::from(*pad);
    let message = rest.len().checked_sub(pad).filter(|len| *len > 0 && pad <= BLOCK)?;
    let padding = rest.get(message..)?;
    padding.iter().zip(1..).all(|(byte, count): (&u8, u8)| *byte == count).then_some(message)
}

/// What tests need to play the other end, and to compare before and after.
#[cfg(test)]
mod probe {
    use super::{BLOCK, Pending, Reject, Request, Session, Zeroizing};

    impl Session {
        pub(crate) fn unseal_after(
            &self,
            seen: u32,
            datagram: &[u8],
        ) -> Result<(u32, Zeroizing<Vec<u8>>), Reject> {
            Self { seen, ..self.clone() }.unseal(datagram)
        }

        pub(crate) fn seal_as(
            &mut self,
            request: Request,
            rq_seq: u8,
            sent: u32,
            iv: [u8; BLOCK],
        ) -> Vec<u8> {
            self.sent = sent;
            self.seal(Pending { request, rq_seq }, iv).unwrap()
        }

        pub(crate) fn seal_any(&mut self, message: &[u8], iv: [u8; BLOCK]) -> Vec<u8> {
            self.seal_message(message.to_vec(), iv).unwrap()
        }

        pub(crate) fn seal_blocks(&mut self, plain: &[u8], iv: [u8; BLOCK]) -> Vec<u8> {
            self.seal_padded(plain.to_vec(), iv).unwrap()
        }

        /// A sealed packet with other bytes and the code that belongs to them.
        pub(crate) fn resigned(&self, packet: &[u8], edit: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
            let mut packet = packet[..packet.len() - self.keys.code_len()].to_vec();
            edit(&mut packet);
            let code = self.keys.sign(&packet[super::RMCP_LEN..]);
            packet.extend(code.as_bytes());
            packet
        }

        /// The other end of a fresh session.
        pub(crate) fn mirrored(&self) -> Self {
            Self::new(self.suite, self.keys.clone(), self.sidc, self.sidm)
        }

        /// Everything that an attacker could want to change.
        pub(crate) fn fingerprint(&self) -> String {
            let Self { suite, sidm, sidc, sent, seen, rq_seq, unanswered, pending, keys: _ } = self;
            format!("{suite} {sidm:?} {sidc:?} {sent} {seen} {rq_seq} {unanswered} {pending:?}")
        }
    }
}
