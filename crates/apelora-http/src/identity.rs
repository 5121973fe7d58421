//! The client's own certificate and key.

use std::path::Path;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use zeroize::{Zeroize as _, Zeroizing};

use crate::pin::sha256;
use crate::trust::read_limited;

/// How an encrypted key announces itself: the label of PKCS #8, and the header of the older form (RFC 1421).
const ENCRYPTED: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];

/// A certificate chain and its private key, shown to a peer that asks for a client certificate (see
/// [`connect_as`](crate::connect_as)).
///
/// The texts and the decoded key are wiped from memory once they are read. What stays is the signing key inside the
/// cryptography library, which has no way out.
#[derive(Clone)]
pub struct ClientIdentity(Arc<CertifiedKey>);

/// Why there is no [`ClientIdentity`]. Says where, and never what a key holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct IdentityError {
    /// The file, or which of the two texts.
    pub place: String,
    /// What is wrong with it.
    pub problem: IdentityProblem,
}

/// What is wrong with a client certificate or its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityProblem {
    /// The system does not let it be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// Not PEM.
    #[error("it is not valid PEM: {0}")]
    Pem(String),
    /// No certificate.
    #[error("it holds no certificate; the client certificate is needed in PEM form")]
    NoCertificate,
    /// A certificate that cannot be used.
    #[error("the certificate in it cannot be used: {0}")]
    Certificate(String),
    /// No private key.
    #[error("it holds no private key; the client certificate's key is needed in PEM form")]
    NoKey,
    /// More than one key: it would be a guess which one is meant.
    #[error("it holds several private keys; leave the one that belongs to the client certificate")]
    SeveralKeys,
    /// A key that wants a password.
    #[error(
        "the private key is encrypted, and nobody is here to type its password; write a file without one, readable by \
         the service only: openssl pkey -in OLD -out NEW"
    )]
    EncryptedKey,
    /// A key of a kind that is not spoken.
    #[error(
        "the private key cannot be used ({0}); make one of ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits or more"
    )]
    Key(String),
    /// A key of another certificate.
    #[error("the private key does not belong to the certificate of {0}; name the two files of one pair")]
    Mismatch(String),
}

impl ClientIdentity {
    /// Reads two PEM files, of at most 1 MiB each, which may be the same one. Blocks while it reads.
    ///
    /// # Errors
    /// [`IdentityError`], with the file's path.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let read = |path: &Path| {
            read_limited(path).map(Zeroizing::new).map_err(|why| IdentityError {
                place: path.display().to_string(),
                problem: IdentityProblem::Unreadable(why.to_string()),
            })
        };
        let (chain, secret) = (read(certificate)?, read(key)?);
        Self::read(&certificate.display().to_string(), &chain, &key.display().to_string(), &secret)
    }

    /// Takes two PEM texts, which may be the same one. The caller's copies are the caller's to wipe.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        Self::read("the client certificate", certificate, "the client key", key)
    }

    /// The SHA-256 digest of the certificate's DER form: what a server knows it by.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.0.cert.first().map(|leaf| sha256(leaf)).unwrap_or_default()
    }

    pub(crate) fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.0)))
    }

    fn read(cert_place: &str, chain: &[u8], key_place: &str, secret: &[u8]) -> Result<Self, IdentityError> {
        let at = |place: &str, problem| IdentityError { place: place.to_owned(), problem };
        let chain = certificates(chain).map_err(|problem| at(cert_place, problem))?;
        let mut key = private_key(secret).map_err(|problem| at(key_place, problem))?;
        let signing = any_supported_type(&key);
        key.zeroize();
        let signing = signing.map_err(|why| at(key_place, IdentityProblem::Key(why.to_string())))?;
        let certified = CertifiedKey::new(chain, signing);
        match certified.keys_match() {
            Ok(()) => Ok(Self(Arc::new(certified))),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(at(key_place, IdentityProblem::Mismatch(cert_place.to_owned())))
            }
            Err(why) => Err(at(cert_place, IdentityProblem::Certificate(why.to_string()))),
        }
    }
}

/// Without anything of it.
impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientIdentity(..)")
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityProblem> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| IdentityProblem::Pem(why.to_string()))?;
    if chain.is_empty() { Err(IdentityProblem::NoCertificate) } else { Ok(chain) }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, IdentityProblem> {
    if ENCRYPTED.iter().any(|sign| pem.windows(sign.len()).any(|there| there == *sign)) {
        return Err(IdentityProblem::EncryptedKey);
    }
    let mut only: Option<PrivateKeyDer<'static>> = None;
    let mut problem = None;
    for key in PrivateKeyDer::pem_slice_iter(pem) {
        match (key, &mut only) {
            (Ok(key), None) => only = Some(key),
            (Ok(mut another), Some(_)) => {
                another.zeroize();
                problem = Some(IdentityProblem::SeveralKeys);
            }
            (Err(why), _) => {
                problem = Some(of_pem(&why));
                break;
            }
        }
    }
    match (only, problem) {
        (Some(key), None) => Ok(key),
        (None, None) => Err(IdentityProblem::NoKey),
        (mut key, Some(problem)) => {
            key.zeroize();
            Err(problem)
        }
    }
}

/// The parser's word may repeat a line of the text, so only its kind is told.
fn of_pem(why: &pem::Error) -> IdentityProblem {
    IdentityProblem::Pem(
        match why {
            pem::Error::MissingSectionEnd { .. } => "a section has no end",
            pem::Error::IllegalSectionStart { .. } => "a section has no proper beginning",
            pem::Error::Base64Decode(_) => "a section is not base64",
            _ => "it cannot be decoded",
        }
        .to_owned(),
    )
}
