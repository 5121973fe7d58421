//! The client's own certificate: to whom it is shown, and what is wrong with one that cannot be used.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use apelora_http::{
    Cause, ClientIdentity, Connection, Endpoint, HttpError, IdentityProblem, TlsRefusal, Trust, connect_as,
};
use apelora_lab::redfish::Server;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384,
};
use ring::digest::{SHA256, digest};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

use crate::{LIMITS, Mirror, Pipe, file, get, later};

/// A self-signed pair, as `incus remote generate-certificate` and the cluster itself make them.
struct Pair {
    der: CertificateDer<'static>,
    certificate: String,
    key: String,
}

impl Pair {
    fn new() -> Self {
        let mut params = CertificateParams::new(["vm".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "Linux Containers");
        params.distinguished_name.push(DnType::CommonName, "root@vm");
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { der: certificate.der().clone(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    fn pin(&self) -> [u8; 32] {
        digest(&SHA256, &self.der).as_ref().try_into().unwrap()
    }

    fn identity(&self) -> ClientIdentity {
        ClientIdentity::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }
}

/// Demands a client certificate, believes one, and notes all that it is shown.
#[derive(Debug)]
struct Demand {
    believed: Vec<u8>,
    seen: Mutex<Vec<Vec<u8>>>,
}

impl ClientCertVerifier for Demand {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.seen.lock().unwrap().push(end_entity.to_vec());
        if end_entity.as_ref() == self.believed {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &default_provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &default_provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A server that demands the certificate of one client, and what it has seen.
struct Strict {
    server: Pair,
    demand: Arc<Demand>,
    pipe: Pipe<Mirror>,
}

impl Strict {
    fn new(client: &Pair, version: &'static SupportedProtocolVersion) -> Self {
        let server = Pair::new();
        let demand = Arc::new(Demand { believed: client.der.to_vec(), seen: Mutex::default() });
        let key = PrivateKeyDer::try_from(KeyPair::from_pem(&server.key).unwrap().serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(demand.clone())
            .with_single_cert(vec![server.der.clone()], key)
            .unwrap();
        Self { server, demand, pipe: Pipe(Server::new(Mirror, Arc::new(config))) }
    }

    async fn connect(&self, identity: Option<&ClientIdentity>) -> Result<Connection, HttpError> {
        let trust = Trust::PinnedLeaf(vec![self.server.pin()]);
        self.connect_trusting(&trust, identity).await
    }

    /// To a name that the server's certificate does not have, as it is with members that were added later.
    async fn connect_trusting(
        &self,
        trust: &Trust,
        identity: Option<&ClientIdentity>,
    ) -> Result<Connection, HttpError> {
        let to = Endpoint::https("m2.example.org:8443").unwrap();
        connect_as(&self.pipe, &to, trust, identity, &LIMITS, later()).await
    }

    fn requests(&self) -> u64 {
        self.pipe.0.stats().requests()
    }
}

const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

#[tokio::test]
async fn the_right_certificate_opens_the_door() {
    for version in VERSIONS {
        let client = Pair::new();
        let strict = Strict::new(&client, version);
        let mut connection = strict.connect(Some(&client.identity())).await.unwrap();
        for _ in 0..2 {
            assert_eq!(connection.send(get("/1.0"), later()).await.unwrap().status, 200);
        }
        assert_eq!(*strict.demand.seen.lock().unwrap(), [client.der.to_vec()], "{version:?}");
        assert_eq!(client.identity().fingerprint(), client.pin());
    }
}

/// With TLS 1.2 the peer refuses within the handshake; with 1.3 when it is over, so the first request tells.
#[tokio::test]
async fn no_certificate_and_another_one_are_refused() {
    for version in VERSIONS {
        let client = Pair::new();
        let strict = Strict::new(&client, version);
        let another = Pair::new().identity();
        for identity in [None, Some(&another)] {
            let refused = match strict.connect(identity).await {
                Ok(mut connection) => connection.send(get("/1.0"), later()).await.unwrap_err(),
                Err(refused) => refused,
            };
            let (HttpError::Tls(refusal)
            | HttpError::NotSent(Cause::Tls(refusal))
            | HttpError::MaybeSent { cause: Cause::Tls(refusal), status: None }) = &refused
            else {
                panic!("{version:?}: {refused:?}");
            };
            let alert = matches!(refusal, TlsRefusal::ClientCertificate(_));
            assert!(alert, "{version:?}, {}: {refusal:?}", identity.is_some());
            assert!(refused.to_string().contains("name a client certificate and its key"), "{refused}");
        }
        assert_eq!(strict.requests(), 0);
        assert_eq!(strict.demand.seen.lock().unwrap().len(), 1, "the other one, once");
    }
}

/// Even when the refusal is there before the request is written, its reason is told.
#[tokio::test]
async fn a_refusal_before_the_first_request_keeps_its_reason() {
    let client = Pair::new();
    let strict = Strict::new(&client, &rustls::version::TLS13);
    let mut connection = strict.connect(None).await.unwrap();
    while connection.ready(later()).await {
        tokio::task::yield_now().await;
    }
    for _ in 0..2 {
        let refused = connection.send(get("/1.0"), later()).await.unwrap_err();
        assert!(
            matches!(&refused, HttpError::NotSent(Cause::Tls(TlsRefusal::ClientCertificate(_)))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn nothing_is_shown_to_a_peer_that_is_not_believed() {
    let client = Pair::new();
    let strict = Strict::new(&client, &rustls::version::TLS13);
    for trust in [Trust::PinnedLeaf(vec![Pair::new().pin()]), Trust::OnlyFile(file(&Pair::new().certificate))]
    {
        let refused = strict.connect_trusting(&trust, Some(&client.identity())).await.unwrap_err();
        assert!(matches!(refused, HttpError::Tls(_)), "{refused}");
    }
    assert!(strict.demand.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_peer_that_does_not_ask_is_shown_nothing() {
    let server = Pair::new();
    let key = PrivateKeyDer::try_from(KeyPair::from_pem(&server.key).unwrap().serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![server.der.clone()], key)
        .unwrap();
    let pipe = Pipe(Server::new(Mirror, Arc::new(config)));
    let (to, trust) = (Endpoint::https("m1").unwrap(), Trust::PinnedLeaf(vec![server.pin()]));
    let identity = Pair::new().identity();
    let mut connection = connect_as(&pipe, &to, &trust, Some(&identity), &LIMITS, later()).await.unwrap();
    assert_eq!(connection.send(get("/1.0"), later()).await.unwrap().status, 200);
}

fn problem(certificate: &Path, key: &Path) -> (String, IdentityProblem) {
    let error = ClientIdentity::from_files(certificate, key).unwrap_err();
    assert!(error.to_string().starts_with(&error.place), "{error}");
    (error.place, error.problem)
}

fn place(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let pair = Pair::new();
    let (certificate, key) = (file(&pair.certificate), file(&pair.key));
    assert!(ClientIdentity::from_files(&certificate, &key).is_ok());
    let both = file(&format!("{}{}", pair.key, pair.certificate));
    assert!(ClientIdentity::from_files(&both, &both).is_ok());

    let missing = PathBuf::from("/nowhere/client.crt");
    for (certificate, key) in [(&missing, &key), (&certificate, &missing)] {
        let (told, problem) = problem(certificate, key);
        assert_eq!(told, "/nowhere/client.crt");
        assert!(matches!(problem, IdentityProblem::Unreadable(_)), "{problem}");
    }
    let large = file(&"x".repeat((1 << 20) + 1));
    assert!(matches!(problem(&certificate, &large).1, IdentityProblem::Unreadable(_)));

    // Each taken for the other.
    assert_eq!(problem(&key, &key), (place(&key), IdentityProblem::NoCertificate));
    assert_eq!(problem(&certificate, &certificate), (place(&certificate), IdentityProblem::NoKey));
    let empty = file("");
    assert_eq!(problem(&empty, &key), (place(&empty), IdentityProblem::NoCertificate));
    assert_eq!(problem(&certificate, &empty), (place(&empty), IdentityProblem::NoKey));

    let another = Pair::new();
    let other_key = file(&another.key);
    let mismatch = IdentityProblem::Mismatch(place(&certificate));
    assert_eq!(problem(&certificate, &other_key), (place(&other_key), mismatch));
    let two = file(&format!("{}{}", pair.key, another.key));
    assert_eq!(problem(&certificate, &two), (place(&two), IdentityProblem::SeveralKeys));

    let label =
        |label: &str, inside: &str| format!("-----BEGIN {label}-----\n{inside}\n-----END {label}-----\n");
    for text in [
        label("ENCRYPTED PRIVATE KEY", "MIIB"),
        label("EC PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nMIIB"),
    ] {
        let encrypted = file(&text);
        assert_eq!(problem(&certificate, &encrypted), (place(&encrypted), IdentityProblem::EncryptedKey));
    }
    let no_key = file(&label("PRIVATE KEY", "c2VjcmV0"));
    assert!(matches!(problem(&certificate, &no_key).1, IdentityProblem::Key(_)));
    let no_base64 = file(&label("PRIVATE KEY", "!c2VjcmV0!"));
    assert!(matches!(problem(&certificate, &no_base64).1, IdentityProblem::Pem(_)));
    let no_end = file("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n");
    assert!(matches!(problem(&certificate, &no_end).1, IdentityProblem::Pem(_)));
    let no_certificate = file(&label("CERTIFICATE", "c2VjcmV0"));
    let (told, problem) = problem(&no_certificate, &key);
    assert_eq!(told, place(&no_certificate));
    assert!(matches!(problem, IdentityProblem::Certificate(_)), "{problem}");
}

#[test]
fn nothing_of_the_key_is_ever_printed() {
    let pair = Pair::new();
    assert_eq!(format!("{:?}", pair.identity()), "ClientIdentity(..)");
    let secret = "c2VjcmV0";
    for key in [
        format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n"),
        format!("-----BEGIN PRIVATE KEY-----\n!{secret}\n-----END PRIVATE KEY-----\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{secret}\n"),
        format!("-----BEGIN {secret}\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END {secret}-----\n"),
    ] {
        let error = ClientIdentity::from_pem(pair.certificate.as_bytes(), key.as_bytes()).unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(!told.contains(secret) && !told.contains("secret"), "{told}");
    }
}

#[test]
fn pinned_certificates_are_read_from_a_file() {
    let (old, new) = (Pair::new(), Pair::new());
    let file_of_two = file(&format!("# the old and the new one\n{}\n{}", old.certificate, new.certificate));
    let trust = Trust::pinned_leaf_file(&file_of_two).unwrap();
    assert_eq!(trust, Trust::PinnedLeaf(vec![old.pin(), new.pin()]));

    let broken = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
    for (text, why) in [
        (String::new(), "no certificate"),
        (old.key.clone(), "no certificate"),
        (broken.to_owned(), "number 1"),
        (format!("{}{broken}", old.certificate), "number 2"),
        (old.certificate.replace("-----END", "---END"), "not valid PEM"),
        ("x".repeat((1 << 20) + 1), "larger than 1 MiB"),
    ] {
        let unusable = file(&text);
        let error = Trust::pinned_leaf_file(&unusable).unwrap_err();
        assert!(error.why.contains(why), "{error}");
        assert!(error.to_string().contains(&place(&unusable)), "{error}");
    }
    assert!(Trust::pinned_leaf_file(Path::new("/nowhere/cluster.crt")).is_err());
}
