//! Hashes, keys and the cipher of a session, as the BMC needs them (IPMI 2.0, sections 13.28 to 13.33).

use aes::Aes128;
use cbc::cipher::consts::U16;
use cbc::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

use super::bmc::Suite;

/// The suite's HMAC. Keys are at most 64 bytes.
pub(super) fn hmac(suite: Suite, key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    match suite {
        Suite::Three => Hmac::<Sha1>::new(&block.into()).chain_update(data).finalize().as_bytes().to_vec(),
        Suite::Seventeen => {
            Hmac::<Sha256>::new(&block.into()).chain_update(data).finalize().as_bytes().to_vec()
        }
    }
}

/// The first bytes of an HMAC, as many as stand behind a packet and in RAKP 4.
pub(super) fn short_hmac(suite: Suite, key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut code = hmac(suite, key, data);
    code.truncate(suite.short_code());
    code
}

/// The keys of one session.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) suite: Suite,
    /// For the codes of packets.
    k1: Vec<u8>,
    /// For AES.
    cipher: [u8; 16],
}

impl Keys {
    /// From the session integrity key.
    pub(super) fn from_sik(suite: Suite, sik: &[u8]) -> Self {
        let mut cipher = [0; 16];
        for (to, from) in cipher.iter_mut().zip(hmac(suite, sik, &[2; 20])) {
            *to = from;
        }
        Self { suite, k1: hmac(suite, sik, &[1; 20]), cipher }
    }

    /// The code over a packet from its authentication type on.
    pub(super) fn code(&self, covered: &[u8]) -> Vec<u8> {
        short_hmac(self.suite, &self.k1, covered)
    }

    /// Pads a message and encrypts it behind its initialisation vector.
    pub(super) fn encrypt(&self, iv: [u8; 16], message: &[u8]) -> Vec<u8> {
        let mut data = message.to_vec();
        let mut padding = 0_u8;
        while !(data.len() + 1).is_multiple_of(16) {
            padding += 1;
            data.push(padding);
        }
        data.push(padding);
        let (blocks, _) = Array::<u8, U16>::slice_as_chunks_mut(&mut data);
        cbc::Encryptor::<Aes128>::new(&self.cipher.into(), &iv.into()).encrypt_blocks(blocks);
        [&iv[..], &data].concat()
    }

    /// The message in an encrypted payload, if that is one.
    pub(super) fn decrypt(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let (iv, data) = payload.split_first_chunk::<16>()?;
        if data.is_empty() || !data.len().is_multiple_of(16) {
            return None;
        }
        let mut data = data.to_vec();
        let (blocks, _) = Array::<u8, U16>::slice_as_chunks_mut(&mut data);
        cbc::Decryptor::<Aes128>::new(&self.cipher.into(), iv.into()).decrypt_blocks(blocks);
        let padding = usize::from(data.pop()?);
        let message = data.len().checked_sub(padding)?;
        data.truncate(message);
        Some(data)
    }
}
