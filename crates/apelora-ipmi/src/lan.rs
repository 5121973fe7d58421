//! IPMI LAN messages (IPMI 2.0, section 13.8): the closed set of requests and what their answers say.

use crate::frame::{Reject, take};
use crate::report::{ChassisStatus, Completion, SystemGuid};
use crate::setup::OPERATOR;

/// Responder address of the BMC and requester address of remote console software (IPMI 2.0, table 5-4).
const BMC: u8 = 0x20;
const CONSOLE: u8 = 0x81;

/// Every request that can be sent. There is no other variant and no raw form: no serial console, virtual media, user
/// management, sensors, boot devices or firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Set Session Privilege Level to operator: a session starts at user level whatever was asked for.
    SetOperator,
    /// Get System GUID: the server, not the controller chip (that would be Get Device GUID).
    GetSystemGuid,
    /// Get Chassis Status.
    GetChassisStatus,
    /// Chassis Control, power down: hard, without the operating system.
    PowerDown,
    /// Close Session, of this session.
    CloseSession { sidc: [u8; 4] },
}

/// What an authenticated answer to the outstanding request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The session now has the operator level, not lower and not higher.
    Operator,
    /// The session was given another level, or none was named.
    OtherLevel,
    Guid(SystemGuid),
    Status(ChassisStatus),
    /// The BMC accepted the power-down. Acceptance only: nothing follows from it.
    PowerDownAccepted,
    Closed,
    /// The request failed; the data of a failed request are not read.
    Failed(Completion),
    /// Success with so many bytes of data that they cannot be what was asked for.
    WrongLength(usize),
}

impl Request {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SetOperator => "Set Session Privilege Level",
            Self::GetSystemGuid => "Get System GUID",
            Self::GetChassisStatus => "Get Chassis Status",
            Self::PowerDown => "Chassis Control (power down)",
            Self::CloseSession { .. } => "Close Session",
        }
    }

    const fn code(self) -> (u8, u8) {
        match self {
            Self::SetOperator => (0x06, 0x3b),
            Self::GetSystemGuid => (0x06, 0x37),
            Self::GetChassisStatus => (0x00, 0x01),
            Self::PowerDown => (0x00, 0x02),
            Self::CloseSession { .. } => (0x06, 0x3c),
        }
    }

    /// The whole message with both checksums.
    pub(crate) fn encode(self, rq_seq: u8) -> Vec<u8> {
        let (net_fn, command) = self.code();
        let header = [BMC, net_fn << 2];
        let mut body = vec![CONSOLE, rq_seq << 2, command];
        match self {
            Self::SetOperator => body.push(OPERATOR),
            Self::PowerDown => body.push(0),
            Self::CloseSession { sidc } => body.extend(sidc),
            Self::GetSystemGuid | Self::GetChassisStatus => {}
        }
        body.push(sum(&body).wrapping_neg());
        [&header[..], &[sum(&header).wrapping_neg()], &body].concat()
    }

    /// Reads the answer to this request.
    ///
    /// # Errors
    /// The message is malformed or answers something else; nothing in it may be used.
    pub(crate) fn decode(self, rq_seq: u8, message: &[u8]) -> Result<Reply, Reject> {
        let (header, body) = message.split_first_chunk::<3>().ok_or(Reject::Message)?;
        let (_checksum, mut body_rest) = body.split_last().ok_or(Reject::Message)?;
        let answer: [u8; 4] = take(&mut body_rest).map_err(|_short| Reject::Message)?;
        // The two's complement checksums make each part sum to 0.
        if sum(header) != 0 || sum(body) != 0 {
            return Err(Reject::Message);
        }
        let (net_fn, command) = self.code();
        let [requester, answer_fn, _] = *header;
        let [responder, answer_seq, answer_command, completion] = answer;
        // The low two bits are the LUNs; both are 0.
        let ours = requester == CONSOLE
            && answer_fn == (net_fn + 1) << 2
            && responder == BMC
            && answer_seq == rq_seq << 2
            && answer_command == command;
        if !ours {
            return Err(Reject::OtherRequest);
        }
        Ok(match completion {
            0 => self.success(body_rest),
            failed => Reply::Failed(Completion(failed)),
        })
    }

    fn success(self, data: &[u8]) -> Reply {
        let reply = match self {
            Self::SetOperator if data == [OPERATOR] => Some(Reply::Operator),
            Self::SetOperator => Some(Reply::OtherLevel),
            Self::GetSystemGuid => data.try_into().ok().map(|bytes| Reply::Guid(SystemGuid(bytes))),
            Self::GetChassisStatus => ChassisStatus::from_bytes(data).map(Reply::Status),
            Self::PowerDown => data.is_empty().then_some(Reply::PowerDownAccepted),
            Self::CloseSession { .. } => data.is_empty().then_some(Reply::Closed),
        };
        reply.unwrap_or(Reply::WrongLength(data.len()))
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}
