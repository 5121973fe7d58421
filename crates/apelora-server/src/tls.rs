//! HTTPS with a certificate that may be replaced while the server runs.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

use crate::config::TlsFiles;
use crate::files;

/// Certificate and key in use.
pub(crate) struct Tls {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// # Errors
    /// What is wrong with certificate or key, with the name of the setting.
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, String> {
        Ok(Self { acceptor: RwLock::new(acceptor(files)?), files: files.clone() })
    }

    pub(crate) fn watched(&self) -> [&Path; 2] {
        [&self.files.cert, &self.files.key]
    }

    /// Reads the files again; what cannot be used leaves the old ones in use.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let new = acceptor(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let acceptor = self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone();
        acceptor.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn acceptor(named: &TlsFiles) -> Result<TlsAcceptor, String> {
    let TlsFiles { cert, key } = named;
    let bad_cert = |e: &dyn fmt::Display| format!("tls_cert: cannot use {}: {e}", cert.display());
    let bad_key = |e: &dyn fmt::Display| format!("tls_key: cannot use {}: {e}", key.display());
    let chain = files::read(cert).map_err(|e| bad_cert(&e))?;
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&chain).collect::<Result<_, _>>().map_err(|e| bad_cert(&e))?;
    if chain.is_empty() {
        return Err(bad_cert(&"it holds no certificate in PEM form"));
    }
    let private = Zeroizing::new(files::read(key).map_err(|e| bad_key(&e))?);
    let private = PrivateKeyDer::from_pem_slice(&private).map_err(|e| bad_key(&e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| bad_key(&e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
