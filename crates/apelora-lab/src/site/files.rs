//! What a site writes for a worker, and the names and secrets in it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::ident::digest;

/// The account that all BMCs of a site have.
pub(super) const USER: &str = "apelora";

/// Writes a file that only its owner may read.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// The name of the variable that holds a member's BMC password.
pub(super) fn secret_name(member: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("APELORA_BMC_SECRET_{}", member.chars().map(letter).collect::<String>())
}

/// 32 bytes that belong to one member of one site.
pub(super) fn derive(seed: u64, purpose: &str, member: &str) -> [u8; 32] {
    digest(&[purpose.as_bytes(), &seed.to_be_bytes(), member.as_bytes()])
}
