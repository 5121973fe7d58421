//! HTTPS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apelora_server::{Server, ServerConfig, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::Answer;
use crate::lab::{self, Lab};

/// Writes a certificate for `localhost` and its key; the certificate.
fn certificate(files: &TlsFiles) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    made.cert.der().clone()
}

/// Asks for the root document, trusting this certificate alone.
async fn ask(lab: &Lab, trusted: &CertificateDer<'static>) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    // The end of the connection may come without TLS's own word for it.
    let _ = stream.read_to_end(&mut bytes).await;
    Answer::read(&bytes)
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") }
}

#[tokio::test]
async fn https_with_a_certificate_that_is_replaced_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let first = certificate(&files);
    let lab = Lab::configured(|config| {
        config.tls = Some(files.clone());
        config.limits.reload_interval = Duration::from_millis(5);
    })
    .await;
    let answer = ask(&lab, &first).await.unwrap().expect(200);
    assert_eq!(answer.json()["versions"][0]["links"][0]["href"], "https://localhost:1/v1/");
    // Plain HTTP gets no answer.
    assert!(crate::client::raw_then_close(lab.address, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.is_none());
    let second = certificate(&files);
    while ask(&lab, &second).await.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(ask(&lab, &first).await.is_none());
    // A certificate that cannot be used leaves the last one in use.
    std::fs::write(&files.cert, "no certificate").unwrap();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        ask(&lab, &second).await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn what_cannot_be_used_stops_the_start_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = lab::sqlite_store(&folder.path().join("a.db")).await;
    let files = files(folder.path());
    let start = async || {
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), "me");
        config.tls = Some(files.clone());
        Server::bind(config, store.clone(), lab::sources()).await.map(|_| ()).map_err(|e| e.to_string())
    };
    assert!(start().await.unwrap_err().starts_with("tls_cert: cannot use "));
    certificate(&files);
    std::fs::write(&files.key, "").unwrap();
    assert!(start().await.unwrap_err().starts_with("tls_key: cannot use "));
    std::fs::write(&files.cert, "").unwrap();
    assert!(start().await.unwrap_err().contains("it holds no certificate"));
    certificate(&files);
    start().await.unwrap();
}
