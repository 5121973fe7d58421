//! Digests and UUIDs that are made, not drawn.

use sha2::{Digest as _, Sha256};

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest of these parts, each with its length.
pub(crate) fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A UUID (version 4 by its looks) made of these parts.
pub(crate) fn uuid(parts: &[&[u8]]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest(parts)[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// A UUID as it is printed.
pub(crate) fn uuid_text(uuid: [u8; 16]) -> String {
    let text = hex(&uuid);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}
