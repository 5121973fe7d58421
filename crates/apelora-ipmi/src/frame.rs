//! Framing: the RMCP header and the RMCP+ session header (IPMI 2.0, sections 13.1 and 13.6). No keys here.

/// Largest datagram that is looked at, in bytes. The largest honest one is 88.
pub(crate) const MAX_DATAGRAM: usize = 1024;

/// RMCP version 1.0, no acknowledgement wanted, class IPMI (IPMI 2.0, table 13-8).
const RMCP_VERSION: u8 = 0x06;
const RMCP_NO_ACK: u8 = 0xff;
const RMCP_CLASS_IPMI: u8 = 0x07;
/// Authentication type "RMCP+" (IPMI 2.0, table 13-8).
const FORMAT_RMCP_PLUS: u8 = 0x06;

/// Bytes of the RMCP header: the authentication code covers what follows it.
pub(crate) const RMCP_LEN: usize = 4;

/// Payload type byte of a packet in a session: encrypted, authenticated, IPMI message. The only one taken there.
pub(crate) const SECURED_IPMI: u8 = 0xc0;

/// Session setup payload types (IPMI 2.0, table 13-16); setup messages carry no flag bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Setup {
    OpenRequest = 0x10,
    OpenResponse = 0x11,
    Rakp1 = 0x12,
    Rakp2 = 0x13,
    Rakp3 = 0x14,
    Rakp4 = 0x15,
}

/// Why a datagram was dropped. Dropping changes nothing and is never answered; the reason is for the log and for the
/// text of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reject {
    #[error("it came from another address or port")]
    Sender,
    #[error("it is larger than 1024 bytes")]
    TooLong,
    #[error("it is too short")]
    TooShort,
    #[error("it is not RMCP+")]
    NotRmcpPlus,
    #[error("it is another message than the one awaited")]
    OtherMessage,
    #[error("it answers an earlier step")]
    EarlierStep,
    #[error("it is not both authenticated and encrypted")]
    NotSecured,
    #[error("it carries another session id")]
    SessionId,
    #[error("it carries another message tag")]
    Tag,
    #[error("its lengths do not add up")]
    Lengths,
    #[error("its integrity code is wrong")]
    Code,
    #[error("its integrity trailer is malformed")]
    Trailer,
    #[error("its sequence number was used or is too far ahead")]
    Sequence,
    #[error("its confidentiality padding is malformed")]
    Padding,
    #[error("its message is malformed")]
    Message,
    #[error("it does not answer the outstanding request")]
    OtherRequest,
    #[error("nothing was asked")]
    NothingAsked,
}

/// A packet's header, whatever it says, and what follows it.
pub(crate) struct Framed<'a> {
    pub(crate) payload_type: u8,
    pub(crate) session_id: [u8; 4],
    pub(crate) sequence: u32,
    pub(crate) payload_len: usize,
    /// Everything behind the header: payload and, in a session, the trailer.
    pub(crate) rest: &'a [u8],
}

/// Takes `N` bytes from the front of `bytes`, or leaves them alone and says `TooShort`.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Reject> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or(Reject::TooShort)?;
    *bytes = tail;
    Ok(*head)
}

/// Reads the two headers. The RMCP reserved and sequence bytes are covered by no code and mean nothing to us, so they
/// are not looked at.
pub(crate) fn parse(datagram: &[u8]) -> Result<Framed<'_>, Reject> {
    if datagram.len() > MAX_DATAGRAM {
        return Err(Reject::TooLong);
    }
    let mut rest = datagram;
    let [version, _reserved, _sequence, class] = take(&mut rest)?;
    let [format, payload_type] = take(&mut rest)?;
    if version != RMCP_VERSION || class != RMCP_CLASS_IPMI || format != FORMAT_RMCP_PLUS {
        return Err(Reject::NotRmcpPlus);
    }
    let session_id = take(&mut rest)?;
    let sequence = u32::from_le_bytes(take(&mut rest)?);
    let payload_len = usize::from(u16::from_le_bytes(take(&mut rest)?));
    Ok(Framed { payload_type, session_id, sequence, payload_len, rest })
}

/// The payload of a setup message: session id and sequence 0, no flags, and nothing behind the payload.
pub(crate) fn parse_setup<'a>(framed: &Framed<'a>) -> Result<&'a [u8], Reject> {
    if framed.session_id != [0; 4] || framed.sequence != 0 {
        return Err(Reject::SessionId);
    }
    if framed.payload_len != framed.rest.len() {
        return Err(Reject::Lengths);
    }
    Ok(framed.rest)
}

/// Both headers and a payload of at most 65,535 bytes; ours are below 100.
pub(crate) fn build(payload_type: u8, session_id: [u8; 4], sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(16 + payload.len() + 32);
    packet.extend([RMCP_VERSION, 0, RMCP_NO_ACK, RMCP_CLASS_IPMI, FORMAT_RMCP_PLUS, payload_type]);
    packet.extend(session_id);
    packet.extend(sequence.to_le_bytes());
    packet.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_le_bytes());
    packet.extend(payload);
    packet
}

/// A setup message.
pub(crate) fn build_setup(message: Setup, payload: &[u8]) -> Vec<u8> {
    build(message as u8, [0; 4], 0, payload)
}
