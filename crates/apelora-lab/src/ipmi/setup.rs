//! The BMC's side of the messages that set a session up (IPMI 2.0, sections 13.17 to 13.24).

use super::packet::plain;

pub(super) const OPEN_REQUEST: u8 = 0x10;
const OPEN_RESPONSE: u8 = 0x11;
pub(super) const RAKP1: u8 = 0x12;
const RAKP2: u8 = 0x13;
pub(super) const RAKP3: u8 = 0x14;
const RAKP4: u8 = 0x15;

pub(super) const NO_SLOT: u8 = 0x01;
pub(super) const INVALID_SESSION: u8 = 0x02;
pub(super) const ROLE_NOT_ALLOWED: u8 = 0x0a;
pub(super) const UNKNOWN_NAME: u8 = 0x0d;
pub(super) const INVALID_CHECK_VALUE: u8 = 0x0f;
pub(super) const NO_MATCHING_SUITE: u8 = 0x11;

/// What both ends have told each other.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub(super) console_random: [u8; 16],
    pub(super) bmc_random: [u8; 16],
    pub(super) guid: [u8; 16],
    pub(super) role: u8,
    pub(super) name: Vec<u8>,
}

impl Opened {
    fn who(&self) -> Vec<u8> {
        let length = u8::try_from(self.name.len()).unwrap_or(u8::MAX);
        [&[self.role, length][..], &self.name].concat()
    }

    pub(super) fn rakp2_covers(&self, console: [u8; 4], bmc: [u8; 4]) -> Vec<u8> {
        let Self { console_random, bmc_random, guid, .. } = self;
        [&console[..], &bmc, console_random, bmc_random, guid, &self.who()].concat()
    }

    pub(super) fn rakp3_covers(&self, console: [u8; 4]) -> Vec<u8> {
        [&self.bmc_random[..], &console, &self.who()].concat()
    }

    pub(super) fn sik_covers(&self) -> Vec<u8> {
        [&self.console_random[..], &self.bmc_random, &self.who()].concat()
    }

    pub(super) fn rakp4_covers(&self, bmc: [u8; 4]) -> Vec<u8> {
        [&self.console_random[..], &bmc, &self.guid].concat()
    }
}

fn answer(kind: u8, tag: u8, status: u8, third: u8, console: [u8; 4], rest: &[&[u8]]) -> Vec<u8> {
    let payload = [&[tag, status, third, 0][..], &console, &rest.concat()].concat();
    plain(kind, [0; 4], 0, &payload)
}

/// RMCP+ Open Session Request.
pub(super) struct OpenRequest {
    tag: u8,
    level: u8,
    pub(super) console: [u8; 4],
    /// Authentication, integrity and confidentiality algorithm.
    pub(super) numbers: [u8; 3],
}

impl OpenRequest {
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let (header, blocks) = payload.split_first_chunk::<8>()?;
        let [tag, level, _, _, console @ ..] = *header;
        let blocks: &[u8; 24] = blocks.try_into().ok()?;
        let numbers = [blocks[4], blocks[12], blocks[20]];
        Some(Self { tag, level: level & 0x0f, console, numbers })
    }

    pub(super) fn refusal(&self, status: u8) -> Vec<u8> {
        answer(OPEN_RESPONSE, self.tag, status, 0, self.console, &[])
    }

    pub(super) fn acceptance(&self, bmc: [u8; 4], numbers: [u8; 3]) -> Vec<u8> {
        let [authentication, integrity, confidentiality] = numbers;
        let blocks = [
            [0, 0, 0, 8, authentication, 0, 0, 0],
            [1, 0, 0, 8, integrity, 0, 0, 0],
            [2, 0, 0, 8, confidentiality, 0, 0, 0],
        ];
        answer(OPEN_RESPONSE, self.tag, 0, self.level, self.console, &[&bmc, &blocks.concat()])
    }
}

/// RAKP Message 1.
pub(super) struct Rakp1<'a> {
    tag: u8,
    pub(super) session: [u8; 4],
    pub(super) random: [u8; 16],
    pub(super) role: u8,
    pub(super) name: &'a [u8],
}

impl<'a> Rakp1<'a> {
    pub(super) fn parse(payload: &'a [u8]) -> Option<Self> {
        let length = usize::from(*payload.get(27)?);
        Some(Self {
            tag: *payload.first()?,
            session: payload.get(4..8)?.try_into().ok()?,
            random: payload.get(8..24)?.try_into().ok()?,
            role: *payload.get(24)?,
            name: payload.get(28..28 + length)?,
        })
    }

    pub(super) fn refusal(&self, console: [u8; 4], status: u8) -> Vec<u8> {
        answer(RAKP2, self.tag, status, 0, console, &[])
    }

    pub(super) fn acceptance(&self, console: [u8; 4], opened: &Opened, code: &[u8]) -> Vec<u8> {
        answer(RAKP2, self.tag, 0, 0, console, &[&opened.bmc_random, &opened.guid, code])
    }
}

/// RAKP Message 3.
pub(super) struct Rakp3<'a> {
    tag: u8,
    pub(super) status: u8,
    pub(super) session: [u8; 4],
    pub(super) code: &'a [u8],
}

impl<'a> Rakp3<'a> {
    pub(super) fn parse(payload: &'a [u8]) -> Option<Self> {
        let [tag, status, ..] = *payload else { return None };
        Some(Self { tag, status, session: payload.get(4..8)?.try_into().ok()?, code: payload.get(8..)? })
    }

    pub(super) fn refusal(&self, console: [u8; 4], status: u8) -> Vec<u8> {
        answer(RAKP4, self.tag, status, 0, console, &[])
    }

    pub(super) fn acceptance(&self, console: [u8; 4], value: &[u8]) -> Vec<u8> {
        answer(RAKP4, self.tag, 0, 0, console, &[value])
    }
}
