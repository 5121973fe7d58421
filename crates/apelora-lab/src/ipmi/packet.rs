//! Datagrams as the BMC reads and writes them (IPMI 2.0, sections 13.6 and 13.8).

use super::crypto::Keys;

/// Payload type of a packet that is neither encrypted nor authenticated.
pub(super) const PLAIN: u8 = 0x00;
/// Payload type of a packet in a session.
pub(super) const SECURED: u8 = 0xc0;

/// RMCP version 1.0, no acknowledgement, class IPMI.
const RMCP: [u8; 4] = [0x06, 0x00, 0xff, 0x07];

/// An RMCP+ packet, taken apart and not yet believed.
pub(super) struct Packet<'a> {
    pub(super) kind: u8,
    pub(super) session: [u8; 4],
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
    /// From the authentication type to the next header byte, if there is a trailer.
    covered: &'a [u8],
    code: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Takes an RMCP+ packet apart; other packets are none of ours.
    pub(super) fn parse(datagram: &'a [u8], code_len: usize) -> Option<Self> {
        if datagram.len() > 1024 || datagram.get(0..1)? != [0x06] || datagram.get(3..5)? != [0x07, 0x06] {
            return None;
        }
        let payload_len = usize::from(u16::from_le_bytes(datagram.get(14..16)?.try_into().ok()?));
        let end = datagram.len().checked_sub(code_len)?;
        Some(Self {
            kind: *datagram.get(5)?,
            session: datagram.get(6..10)?.try_into().ok()?,
            sequence: u32::from_le_bytes(datagram.get(10..14)?.try_into().ok()?),
            payload: datagram.get(16..16 + payload_len)?,
            covered: datagram.get(4..end)?,
            code: datagram.get(end..)?,
        })
    }

    /// The message inside, if the packet is whole, signed and encrypted with these keys.
    pub(super) fn open(&self, keys: &Keys) -> Option<Vec<u8>> {
        let whole = self.covered.len() == 12 + self.payload.len() + 4;
        if self.kind != SECURED || !whole || keys.code(self.covered) != self.code {
            return None;
        }
        keys.decrypt(self.payload)
    }
}

/// A packet without a session.
pub(super) fn plain(kind: u8, session: [u8; 4], sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = RMCP.to_vec();
    packet.extend([0x06, kind]);
    packet.extend(session);
    packet.extend(sequence.to_le_bytes());
    packet.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_le_bytes());
    packet.extend(payload);
    packet
}

/// A packet of a session: signed and encrypted.
pub(super) fn secured(keys: &Keys, console: [u8; 4], sequence: u32, iv: [u8; 16], message: &[u8]) -> Vec<u8> {
    let mut packet = plain(SECURED, console, sequence, &keys.encrypt(iv, message));
    // Encrypted payloads are whole blocks, so two bytes of padding always make the covered part a multiple of four.
    packet.extend([0xff, 0xff, 0x02, 0x07]);
    let code = keys.code(packet.get(4..).unwrap_or(&[]));
    packet.extend(code);
    packet
}

/// A request inside a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) function: u8,
    pub(super) command: u8,
    pub(super) data: &'a [u8],
    console: u8,
    number: u8,
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_sub(*byte))
}

impl<'a> Request<'a> {
    /// Reads a message that is addressed to the BMC and whole.
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let (header, body) = message.split_at_checked(3)?;
        let (&[to, function, _], &[console, number, command, ..]) = (header, body) else { return None };
        let data = body.get(3..body.len().checked_sub(1)?)?;
        let whole = checksum(header) == 0 && checksum(body) == 0;
        (whole && to == 0x20 && function & 0x07 == 0).then_some(Self {
            function: function >> 2,
            command,
            data,
            console,
            number,
        })
    }

    /// The answer to it.
    pub(super) fn answer(&self, completion: u8, data: &[u8]) -> Vec<u8> {
        let header = [self.console, (self.function + 1) << 2];
        let body = [&[0x20, self.number, self.command, completion][..], data].concat();
        [&header[..], &[checksum(&header)], &body, &[checksum(&body)]].concat()
    }
}

/// Get Channel Authentication Capabilities, which tools ask in IPMI 1.5 framing before they open a session: RMCP+ only.
pub(super) fn channel_capabilities(datagram: &[u8]) -> Option<Vec<u8>> {
    const SESSIONLESS: [u8; 9] = [0; 9];
    if datagram.get(3..13)? != [&[0x07][..], &SESSIONLESS].concat() {
        return None;
    }
    let length = usize::from(*datagram.get(13)?);
    let request = Request::parse(datagram.get(14..14 + length)?)?;
    if (request.function, request.command) != (0x06, 0x38) {
        return None;
    }
    let answer = request.answer(0, &[0x01, 0x80, 0x04, 0x02, 0, 0, 0, 0]);
    let length = [u8::try_from(answer.len()).ok()?];
    Some([&RMCP[..], &SESSIONLESS, &length, &answer].concat())
}
