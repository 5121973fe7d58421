//! The recorded data: `tests/data/ipmi` of the workspace, or the folder that `APELORA_TEST_DATA` names.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::credentials::Credentials;
use crate::handshake::{Handshake, Nonces, Step};
use crate::lan::Request;
use crate::session::Session;
use crate::suite::CipherSuite;

/// A lower-case hexadecimal string.
#[derive(Clone, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) struct Hex(pub(super) Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(|| format!("{text:?} is not hexadecimal"));
        let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => Ok(u8::try_from(digit(*high)? * 16 + digit(*low)?).unwrap()),
            _ => Err(format!("{text:?} has an odd length")),
        });
        bytes.collect::<Result<_, _>>().map(Self)
    }
}

impl std::fmt::Debug for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Hex {
    pub(super) fn array<const N: usize>(&self) -> [u8; N] {
        self.0.as_slice().try_into().unwrap()
    }
}

#[derive(Deserialize)]
pub(super) struct Vectors {
    pub(super) guid_orders: Vec<GuidOrder>,
    pub(super) sessions: Vec<Recorded>,
    pub(super) negatives: Vec<Negative>,
}

#[derive(Deserialize)]
pub(super) struct GuidOrder {
    pub(super) rfc: Hex,
    pub(super) smbios: Hex,
    pub(super) reversed: Hex,
}

#[derive(Deserialize)]
pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) suite: u8,
    pub(super) username_hex: Hex,
    pub(super) password_hex: Hex,
    pub(super) kg_hex: Option<Hex>,
    pub(super) role: u8,
    pub(super) sidm: Hex,
    pub(super) sidc: Hex,
    pub(super) rm: Hex,
    pub(super) rc: Hex,
    pub(super) rakp_guid: Hex,
    pub(super) tags: [u8; 3],
    pub(super) rakp2_code: Hex,
    pub(super) rakp3_code: Hex,
    pub(super) sik: Hex,
    pub(super) k1: Hex,
    pub(super) k2: Hex,
    pub(super) aes_key: Hex,
    pub(super) rakp4_icv: Hex,
    pub(super) packets: Packets,
    pub(super) exchanges: Vec<RecordedExchange>,
}

#[derive(Deserialize)]
pub(super) struct Packets {
    pub(super) open_request: Hex,
    pub(super) open_response: Hex,
    pub(super) rakp1: Hex,
    pub(super) rakp2: Hex,
    pub(super) rakp3: Hex,
    pub(super) rakp4: Hex,
}

#[derive(Deserialize)]
pub(super) struct RecordedExchange {
    pub(super) name: String,
    pub(super) rq_seq: u8,
    pub(super) request: Sealed,
    pub(super) response: Sealed,
}

#[derive(Deserialize)]
pub(super) struct Sealed {
    pub(super) seq: u32,
    pub(super) iv: Hex,
    pub(super) lan_message: Hex,
    pub(super) packet: Hex,
}

#[derive(Deserialize)]
pub(super) struct Negative {
    pub(super) session: String,
    pub(super) stage: String,
    pub(super) name: String,
    pub(super) packet: Hex,
}

impl Recorded {
    pub(super) fn suite(&self) -> CipherSuite {
        match self.suite {
            3 => CipherSuite::Three,
            17 => CipherSuite::Seventeen,
            other => panic!("{}: suite {other}", self.name),
        }
    }

    pub(super) fn credentials(&self) -> Credentials {
        let key = self.kg_hex.as_ref().map(|key| key.0.as_slice());
        Credentials::from_bytes(&self.username_hex.0, &self.password_hex.0, key)
    }

    fn nonces(&self) -> Nonces {
        Nonces { tag: self.tags[0], sidm: self.sidm.array(), rm: self.rm.array() }
    }

    /// A handshake that has sent its Open Session Request.
    pub(super) fn opening(&self) -> (Handshake, Vec<u8>) {
        Handshake::start_as(self.role, self.suite(), self.nonces(), self.credentials())
    }

    /// The handshake after the first `answers` recorded answers.
    pub(super) fn handshake(&self, answers: usize) -> Handshake {
        let (mut handshake, _) = self.opening();
        for packet in [&self.packets.open_response, &self.packets.rakp2].into_iter().take(answers) {
            assert!(matches!(handshake.receive(&packet.0), Step::Send(_)), "{}", self.name);
        }
        handshake
    }

    /// The session right after RAKP 4.
    pub(super) fn session(&self) -> Session {
        match self.handshake(2).receive(&self.packets.rakp4.0) {
            Step::Established(session) => *session,
            _ => panic!("{}: RAKP 4 was refused", self.name),
        }
    }

    /// The session after the first `answered` exchanges.
    pub(super) fn session_after(&self, answered: usize) -> Session {
        let mut session = self.session();
        for exchange in self.exchanges.iter().take(answered) {
            session.ask(self.request(exchange), exchange.request.iv.array()).unwrap();
            session.receive(&exchange.response.packet.0).unwrap();
        }
        session
    }

    pub(super) fn request(&self, exchange: &RecordedExchange) -> Request {
        match exchange.name.as_str() {
            "set_session_privilege" => Request::SetOperator,
            "get_system_guid" => Request::GetSystemGuid,
            "get_chassis_status_on" | "get_chassis_status_off" => Request::GetChassisStatus,
            "chassis_control_power_down" => Request::PowerDown,
            "close_session" => Request::CloseSession { sidc: self.sidc.array() },
            other => panic!("unknown exchange {other}"),
        }
    }
}

/// The recorded sessions and the packets to refuse, read once.
pub(super) fn vectors() -> &'static Vectors {
    static VECTORS: LazyLock<Vectors> = LazyLock::new(|| read(&folder().join("vectors.json")));
    &VECTORS
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folder of this contract's data.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate's tests that reads the environment"
)]
pub(super) fn folder() -> PathBuf {
    let root = match std::env::var_os("APELORA_TEST_DATA") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file())
            .expect("the workspace root is above the crate")
            .join("tests/data"),
    };
    root.join("ipmi")
}
