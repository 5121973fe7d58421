//! The codes and keys of the RAKP handshake (IPMI 2.0, sections 13.28 to 13.32) and the session's cipher.

use aes::Aes128;
use cbc::cipher::consts::U16;
use cbc::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::credentials::Credentials;
use crate::suite::CipherSuite;

/// AES block and initialisation vector, in bytes.
pub(crate) const BLOCK: usize = 16;

/// Block of both hashes, in bytes: what HMAC pads its key to.
const HASH_BLOCK: usize = 64;

/// A key or code of the suite's hash: 20 or 32 bytes, zeroed on drop.
#[cfg_attr(test, derive(Clone))]
#[derive(ZeroizeOnDrop)]
pub(crate) struct HashValue {
    bytes: [u8; 32],
    len: usize,
}

impl HashValue {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    fn copied_from(digest: &[u8]) -> Self {
        let mut value = Self { bytes: [0; 32], len: digest.len().min(32) };
        for (to, from) in value.bytes.iter_mut().zip(digest) {
            *to = *from;
        }
        value
    }
}

/// How much of a code is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// RAKP 2 and RAKP 3.
    Whole,
    /// RAKP 4 and packets in a session.
    Truncated,
}

impl Length {
    pub(crate) const fn of(self, suite: CipherSuite) -> usize {
        match self {
            Self::Whole => suite.hash_len(),
            Self::Truncated => suite.code_len(),
        }
    }
}

/// An HMAC over the concatenation of `parts`. Keys are at most 32 bytes here, so they always fit the hash's block.
fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]], block: impl Fn(&[u8; HASH_BLOCK]) -> M) -> M {
    let mut padded = Zeroizing::new([0; HASH_BLOCK]);
    for (to, from) in padded.iter_mut().zip(key) {
        *to = *from;
    }
    parts.iter().fold(block(&padded), Mac::chain_update)
}

fn sha1_mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha1> {
    mac(key, parts, |block| Hmac::<Sha1>::new(block.into()))
}

fn sha256_mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    mac(key, parts, |block| Hmac::<Sha256>::new(block.into()))
}

/// The suite's HMAC, whole.
pub(crate) fn hmac(suite: CipherSuite, key: &[u8], parts: &[&[u8]]) -> HashValue {
    match suite {
        CipherSuite::Three => HashValue::copied_from(sha1_mac(key, parts).finalize().as_bytes()),
        CipherSuite::Seventeen => HashValue::copied_from(sha256_mac(key, parts).finalize().as_bytes()),
    }
}

/// Whether `code` is the suite's HMAC with exactly that length, compared in constant time.
pub(crate) fn hmac_is(suite: CipherSuite, key: &[u8], parts: &[&[u8]], length: Length, code: &[u8]) -> bool {
    if code.len() != length.of(suite) {
        return false;
    }
    match suite {
        CipherSuite::Three => sha1_mac(key, parts).verify_truncated_left(code).is_ok(),
        CipherSuite::Seventeen => sha256_mac(key, parts).verify_truncated_left(code).is_ok(),
    }
}

/// What both ends know once RAKP 2 has arrived; the names are those of the specification.
pub(crate) struct Exchange<'a> {
    pub(crate) suite: CipherSuite,
    pub(crate) credentials: &'a Credentials,
    /// Console (our) session id, as on the wire.
    pub(crate) sidm: [u8; 4],
    /// BMC session id, as on the wire.
    pub(crate) sidc: [u8; 4],
    pub(crate) rm: [u8; 16],
    pub(crate) rc: [u8; 16],
    pub(crate) guid: [u8; 16],
    /// The role byte exactly as it was sent.
    pub(crate) role: u8,
}

impl Exchange<'_> {
    fn name_len(&self) -> [u8; 1] {
        // Credentials hold at most 16 bytes of name.
        [u8::try_from(self.credentials.user().len()).unwrap_or(u8::MAX)]
    }

    /// Whether the BMC proved in RAKP 2 that it knows the password.
    pub(crate) fn rakp2_is(&self, code: &[u8]) -> bool {
        let user = self.credentials.user();
        let parts: [&[u8]; 8] =
            [&self.sidm, &self.sidc, &self.rm, &self.rc, &self.guid, &[self.role], &self.name_len(), user];
        hmac_is(self.suite, self.credentials.password(), &parts, Length::Whole, code)
    }

    /// Our proof in RAKP 3.
    pub(crate) fn rakp3(&self) -> HashValue {
        let parts: [&[u8]; 5] =
            [&self.rc, &self.sidm, &[self.role], &self.name_len(), self.credentials.user()];
        hmac(self.suite, self.credentials.password(), &parts)
    }

    /// The session integrity key.
    pub(crate) fn sik(&self) -> HashValue {
        let parts: [&[u8]; 5] = [&self.rm, &self.rc, &[self.role], &self.name_len(), self.credentials.user()];
        hmac(self.suite, self.credentials.session_key(), &parts)
    }

    /// Whether the BMC proved in RAKP 4 that it has the same session integrity key.
    pub(crate) fn rakp4_is(&self, sik: &HashValue, code: &[u8]) -> bool {
        hmac_is(self.suite, sik.as_bytes(), &[&self.rm, &self.sidc, &self.guid], Length::Truncated, code)
    }
}

/// The keys of an established session: K1 for the codes, the first 16 bytes of K2 for AES.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct SessionKeys {
    suite: CipherSuite,
    k1: HashValue,
    aes: Zeroizing<[u8; BLOCK]>,
}

impl SessionKeys {
    pub(crate) fn derive(suite: CipherSuite, sik: &HashValue) -> Self {
        // Twenty constant bytes for SHA-256 too: ipmitool, FreeIPMI and pyghmi agree.
        let k2 = hmac(suite, sik.as_bytes(), &[&[2; 20]]);
        let mut aes = Zeroizing::new([0; BLOCK]);
        for (to, from) in aes.iter_mut().zip(k2.as_bytes()) {
            *to = *from;
        }
        Self { suite, k1: hmac(suite, sik.as_bytes(), &[&[1; 20]]), aes }
    }

    pub(crate) const fn code_len(&self) -> usize {
        self.suite.code_len()
    }

    /// The code of a packet, as long as it is on the wire.
    pub(crate) fn sign(&self, covered: &[u8]) -> HashValue {
        let mut code = hmac(self.suite, self.k1.as_bytes(), &[covered]);
        code.len = self.suite.code_len();
        code
    }

    pub(crate) fn signed(&self, covered: &[u8], code: &[u8]) -> bool {
        hmac_is(self.suite, self.k1.as_bytes(), &[covered], Length::Truncated, code)
    }

    /// Encrypts whole blocks in place; a rest shorter than a block stays as it is.
    pub(crate) fn encrypt(&self, iv: &[u8; BLOCK], data: &mut [u8]) {
        let (blocks, _rest) = Array::<u8, U16>::slice_as_chunks_mut(data);
        cbc::Encryptor::<Aes128>::new((&*self.aes).into(), iv.into()).encrypt_blocks(blocks);
    }

    /// Decrypts whole blocks in place; a rest shorter than a block stays as it is.
    pub(crate) fn decrypt(&self, iv: &[u8; BLOCK], data: &mut [u8]) {
        let (blocks, _rest) = Array::<u8, U16>::slice_as_chunks_mut(data);
        cbc::Decryptor::<Aes128>::new((&*self.aes).into(), iv.into()).decrypt_blocks(blocks);
    }

    #[cfg(test)]
    pub(crate) fn k1(&self) -> &[u8] {
        self.k1.as_bytes()
    }

    #[cfg(test)]
    pub(crate) fn aes(&self) -> &[u8] {
        &*self.aes
    }
}
