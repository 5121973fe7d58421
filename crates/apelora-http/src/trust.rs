//! Which server certificates are believed.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::pin::{PinnedLeafVerifier, sha256};
use crate::{ClientIdentity, TlsRefusal};

/// A file of trusted certificates is not larger than this, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// Which server certificates are believed. There are three ways and no fourth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// A chain to one of the operating system's roots, for the name or address in the endpoint.
    SystemRoots,
    /// A chain to a certificate of this PEM file and to no other, for the name or address in the endpoint. The file
    /// is read at each connect, so a renewed authority needs no restart; a missing or empty file is a refusal.
    OnlyFile(PathBuf),
    /// Exactly a leaf certificate with one of these SHA-256 digests of its DER form. Name and dates of the certificate
    /// do not count: the pin is the identity. The peer must prove that it holds the certificate's key.
    PinnedLeaf(Vec<[u8; 32]>),
}

impl Trust {
    /// [`Trust::PinnedLeaf`] for the server certificates of a PEM file: the present one, and the next one before it is
    /// installed. The file is read now and not again.
    ///
    /// # Errors
    /// When the file cannot be read, holds no certificate, or something in it is none.
    pub fn pinned_leaf_file(path: &Path) -> Result<Self, PinFileError> {
        let refused = |why: String| PinFileError { path: path.to_owned(), why };
        let pem = read_limited(path).map_err(|why| refused(why.to_string()))?;
        pins_of_pem(&pem).map(Self::PinnedLeaf).map_err(refused)
    }
}

/// A file of pinned server certificates that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the file of pinned server certificates {} cannot be used: {why}; put the server's own certificate into it, in PEM \
         form, and the next one beside it before the server's is renewed", .path.display())]
pub struct PinFileError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub why: String,
}

/// The SHA-256 digests of all certificates in a PEM text, in its order.
fn pins_of_pem(pem: &[u8]) -> Result<Vec<[u8; 32]>, String> {
    let mut pins = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|why| format!("not valid PEM: {why}"))?;
        // One that cannot be read could never be shown by a server, so it is a mistake that is better told now.
        webpki::EndEntityCert::try_from(&certificate)
            .map_err(|why| format!("certificate number {} in it is none: {why}", pins.len() + 1))?;
        pins.push(sha256(&certificate));
    }
    if pins.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(pins) }
}

/// Builds the TLS side of a connection. Reads files: runs on a blocking thread.
pub(crate) fn client_config(
    trust: &Trust,
    identity: Option<&ClientIdentity>,
) -> Result<Arc<ClientConfig>, TlsRefusal> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|why| TlsRefusal::Unusable(why.to_string()))?;
    let builder = match trust {
        Trust::SystemRoots => builder.with_root_certificates(system_roots()?),
        Trust::OnlyFile(path) => builder.with_root_certificates(file_roots(path)?),
        Trust::PinnedLeaf(pins) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinnedLeafVerifier::new(pins.clone(), &provider))),
    };
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity.resolver()),
        None => builder.with_no_client_auth(),
    };
    // Each connection proves the peer's identity anew, from its certificate.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn system_roots() -> Result<RootCertStore, TlsRefusal> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsRefusal::NoSystemRoots) } else { Ok(roots) }
}

fn file_roots(path: &Path) -> Result<RootCertStore, TlsRefusal> {
    let unreadable = |why: String| TlsRefusal::TrustFile { path: path.to_owned(), why };
    let pem = read_limited(path).map_err(|why| unreadable(why.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|why| unreadable(format!("not valid PEM: {why}")))?;
        roots
            .add(certificate)
            .map_err(|why| unreadable(format!("a certificate in it cannot be used: {why}")))?;
    }
    if roots.is_empty() { Err(unreadable("it holds no certificate".to_owned())) } else { Ok(roots) }
}

pub(crate) fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    // Opening one would wait for its writer, on a thread that nobody can end.
    if std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe"));
    }
    let file = File::open(path)?;
    // Large enough at once: a key must not stay behind in the pieces that a growing buffer gives back.
    let size = file.metadata().map_or(0, |about| about.len()).min(FILE_LIMIT) + 64;
    let mut pem = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(FILE_LIMIT + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > FILE_LIMIT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    Ok(pem)
}
