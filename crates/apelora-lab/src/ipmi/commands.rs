//! What the BMC does when it is asked in a session.

use tokio::time::Instant;

use super::bmc::{Fault, Level, Power, State};
use super::packet::Request;

const DONE: u8 = 0x00;
const LEVEL_TOO_HIGH: u8 = 0x81;
const BUSY: u8 = 0xc0;
const NOT_SUPPORTED: u8 = 0xc1;
const WRONG_LENGTH: u8 = 0xc7;
const INVALID_FIELD: u8 = 0xcc;
const INSUFFICIENT_PRIVILEGE: u8 = 0xd4;

/// Chassis status: the server is on, the last switch failed; restore policy "always on".
const POWER_ON: u8 = 0x01;
const CONTROL_FAULT: u8 = 0x10;
const ALWAYS_ON: u8 = 0x40;

/// What comes of a request.
pub(super) struct Outcome {
    /// Completion code and data; none is a BMC that hangs.
    pub(super) answer: Option<(u8, Vec<u8>)>,
    /// The session ends with the answer.
    pub(super) closes: bool,
}

/// Carries a request out. `level` is the session's level and may change up to the limit beside it.
pub(super) fn carry_out(
    state: &mut State,
    now: Instant,
    guid: [u8; 16],
    (level, limit): (&mut Level, Level),
    request: &Request<'_>,
) -> Outcome {
    if let Some(Fault::Busy(left)) = &mut state.fault
        && *left > 0
    {
        *left -= 1;
        return done(BUSY);
    }
    let operator = *level >= Level::Operator;
    match (request.function, request.command, request.data) {
        (0x06, 0x3b, [wanted]) => set_level(level, limit, *wanted),
        (0x06, 0x3b, _) => done(WRONG_LENGTH),
        (0x06, 0x37, []) if state.fault == Some(Fault::NoGuid) => done(NOT_SUPPORTED),
        (0x06, 0x37, []) => with(guid.to_vec()),
        (0x06, 0x3c, _) => Outcome { answer: Some((DONE, Vec::new())), closes: true },
        (0x00, 0x01, []) => with(vec![chassis_state(state, now), 0, ALWAYS_ON, 0]),
        (0x00, 0x02, [_]) if !operator => done(INSUFFICIENT_PRIVILEGE),
        (0x00, 0x02, [0]) => power_off(state, now),
        (0x00, 0x02, [1]) => {
            state.switch.on(now);
            done(DONE)
        }
        (0x00, 0x02, [_]) => done(INVALID_FIELD),
        (0x06, 0x37, _) | (0x00, 0x01 | 0x02, _) => done(WRONG_LENGTH),
        _ => done(NOT_SUPPORTED),
    }
}

fn done(completion: u8) -> Outcome {
    Outcome { answer: Some((completion, Vec::new())), closes: false }
}

fn with(data: Vec<u8>) -> Outcome {
    Outcome { answer: Some((DONE, data)), closes: false }
}

fn set_level(level: &mut Level, limit: Level, wanted: u8) -> Outcome {
    // 0 asks which level the session has.
    if wanted != 0 {
        match Level::from_number(wanted) {
            Some(wanted) if wanted <= limit => *level = wanted,
            _ => return done(LEVEL_TOO_HIGH),
        }
    }
    with(vec![*level as u8])
}

fn chassis_state(state: &State, now: Instant) -> u8 {
    let power = match state.fault {
        Some(Fault::ControlFault) => return CONTROL_FAULT,
        Some(Fault::Lying(power)) => power,
        _ => state.power(now),
    };
    u8::from(power == Power::On) * POWER_ON
}

fn power_off(state: &mut State, now: Instant) -> Outcome {
    state.asked += 1;
    match state.fault {
        Some(Fault::Rejects(completion)) => return done(completion),
        Some(Fault::Ignores) => return done(DONE),
        _ => {}
    }
    state.power_offs += 1;
    state.switch.off(now, state.delay);
    match state.fault {
        Some(Fault::Hangs) => Outcome { answer: None, closes: false },
        _ => done(DONE),
    }
}
