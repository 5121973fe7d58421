//! The cluster's API on the wire: TLS, client certificates, Unix sockets, and what silence looks like.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apelora_lab::https::Identity;
use apelora_lab::incus::Cluster;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::support::{begin, offline, recorded, recorded_plan, seconds};

const V13: &SupportedProtocolVersion = &rustls::version::TLS13;

/// Believes exactly one certificate, under any name.
#[derive(Debug)]
struct Pinned(Vec<u8>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert_eq!(end_entity.as_ref(), self.0, "one certificate for all members");
        Ok(ServerCertVerified::assertion())
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

/// A client that pins this certificate and shows that one (both in PEM form), if any.
pub(crate) fn client(
    pin: &str,
    shown: Option<(&str, &str)>,
    version: &'static SupportedProtocolVersion,
) -> TlsConnector {
    let pinned = Pinned(CertificateDer::from_pem_slice(pin.as_bytes()).unwrap().to_vec());
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned));
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// One request, and its answer once the other side has closed the connection.
pub(crate) async fn exchange<IO: AsyncRead + AsyncWrite + Unpin>(
    io: &mut IO,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, Value)> {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: incus\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    io.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match io.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = match length {
        Some(length) => vec![0; length.parse().unwrap()],
        None => {
            let mut size = Vec::new();
            while !size.ends_with(b"\r\n") {
                size.push(io.read_u8().await.ok()?);
            }
            let size = String::from_utf8(size).unwrap();
            vec![0; usize::from_str_radix(size.trim(), 16).unwrap()]
        }
    };
    io.read_exact(&mut body).await.ok()?;
    if length.is_none() {
        let mut end = [0; 7];
        io.read_exact(&mut end).await.unwrap();
        assert_eq!(&end, b"\r\n0\r\n\r\n");
    }
    Some((status, serde_json::from_slice(&body).unwrap()))
}

/// Asks a member over an in-memory pipe, with TLS.
async fn ask(
    cluster: &Arc<Cluster>,
    member: &'static str,
    shown: Option<&Identity>,
    path: &str,
) -> Option<(u16, Value)> {
    let (ours, theirs) = duplex(64 * 1024);
    let serving = Arc::clone(cluster);
    tokio::spawn(async move { drop(serving.serve(member, theirs).await) });
    let key = shown.map(Identity::key_pem);
    let shown = shown.zip(key.as_deref()).map(|(identity, key)| (identity.pem(), key));
    let connector = client(cluster.certificate_pem(), shown, V13);
    let mut stream = connector.connect(ServerName::try_from("other.example").unwrap(), ours).await.ok()?;
    exchange(&mut stream, "GET", path, "").await
}

#[tokio::test(start_paused = true)]
async fn only_trusted_certificates_see_the_cluster_and_restricted_ones_see_their_projects() {
    let mut plan = recorded_plan();
    plan.instances.push(apelora_lab::incus::InstancePlan::new("shop", "db", "m2"));
    let cluster = Arc::new(Cluster::start(plan).await.unwrap());
    let (ours, theirs) = (Identity::client("ours").unwrap(), Identity::client("theirs").unwrap());
    for shown in [None, Some(&theirs)] {
        let (status, body) = ask(&cluster, "m1", shown, "/1.0").await.unwrap();
        assert_eq!((status, &body["metadata"]["auth"]), (200, &json!("untrusted")));
        assert!(body["metadata"].get("environment").is_none());
        let (status, body) = ask(&cluster, "m1", shown, "/1.0/cluster/members?recursion=1").await.unwrap();
        assert_eq!((status, &body["error"]), (403, &json!("not authorized")));
    }

    cluster.trust(ours.der(), None);
    let (_, body) = ask(&cluster, "m2", Some(&ours), "/1.0").await.unwrap();
    let server = &body["metadata"];
    assert_eq!((&server["auth"], &server["auth_user_method"]), (&json!("trusted"), &json!("tls")));
    assert_eq!(server["environment"]["server_name"], "m2");
    assert_eq!(server["config"]["cluster.offline_threshold"], "11");
    for path in ["/1.0/storage-pools?recursion=1", "/1.0/warnings?recursion=1"] {
        assert_eq!(ask(&cluster, "m2", Some(&ours), path).await.unwrap().0, 200, "{path}");
    }

    // Section 4: least privilege.
    cluster.trust(ours.der(), Some(&["shop"]));
    let (_, body) = ask(&cluster, "m1", Some(&ours), "/1.0").await.unwrap();
    assert_eq!((&body["metadata"]["auth"], &body["metadata"]["config"]), (&json!("trusted"), &json!({})));
    for (path, code, told) in [
        ("/1.0/warnings?recursion=1", 403, "Certificate is restricted"),
        ("/1.0/storage-pools?recursion=1", 500, "Certificate is restricted"),
        ("/1.0/instances/s1", 403, "User does not have permissions for project \"default\""),
    ] {
        let (status, body) = ask(&cluster, "m1", Some(&ours), path).await.unwrap();
        assert_eq!((status, body["error"].as_str().unwrap()), (code, told));
    }
    let (status, body) =
        ask(&cluster, "m1", Some(&ours), "/1.0/instances?recursion=1&all-projects=true").await.unwrap();
    let names: Vec<&Value> = body["metadata"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert_eq!((status, names), (200, vec![&json!("db")]));
    for path in ["/1.0/cluster", "/1.0/cluster/members", "/1.0/cluster/members/m2/state"] {
        assert_eq!(ask(&cluster, "m1", Some(&ours), path).await.unwrap().0, 200, "{path}");
    }
    cluster.distrust(ours.der());
    assert_eq!(ask(&cluster, "m1", Some(&ours), "/1.0/cluster").await.unwrap().0, 403);
}

#[tokio::test(start_paused = true)]
async fn tls_is_1_3_only() {
    let cluster = Arc::new(recorded().await);
    let (ours, theirs) = duplex(64 * 1024);
    let serving = Arc::clone(&cluster);
    let served = tokio::spawn(async move { serving.serve("m1", theirs).await });
    let connector = client(cluster.certificate_pem(), None, &rustls::version::TLS12);
    let name = ServerName::try_from("vm0").unwrap();
    assert!(connector.connect(name, ours).await.is_err());
    assert!(served.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_wait_begins_to_answer_at_once_and_says_later_how_it_ended() {
    let cluster = Arc::new(recorded().await);
    cluster.crash("m3").unwrap();
    cluster.set_lease(apelora_lab::incus::Lease::Exclusive(Duration::from_secs(60)));
    offline(&cluster, "m1", "m3").await;
    let body = json!({"migration": true});
    let operation = begin(&cluster, "m1", "POST", "/1.0/instances/s3?target=m1", &body).await;
    let (mut ours, theirs) = duplex(64 * 1024);
    let serving = Arc::clone(&cluster);
    let us = Identity::client("us").unwrap();
    cluster.trust(us.der(), None);
    tokio::spawn(async move { drop(serving.serve("m2", theirs).await) });
    let key = us.key_pem();
    let connector = client(cluster.certificate_pem(), Some((us.pem(), &key)), V13);
    let mut stream = connector.connect(ServerName::try_from("m2").unwrap(), &mut ours).await.unwrap();
    let asked = Instant::now();
    let request = format!("GET {operation}/wait?timeout=30 HTTP/1.1\r\nHost: incus\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!((&first, asked.elapsed()), (b"HTTP/1.1 200", Duration::ZERO));
    let mut rest = Vec::new();
    while !rest.ends_with(b"0\r\n\r\n") {
        rest.push(stream.read_u8().await.unwrap());
    }
    assert!(asked.elapsed() > Duration::ZERO);
    assert!(String::from_utf8(rest).unwrap().contains("\"Success\""));
    // The same connection serves on, and a failed operation is an error under HTTP 200.
    let body = json!({"action": "start", "timeout": -1}).to_string();
    let (status, answer) = exchange(&mut stream, "PUT", "/1.0/instances/s3/state", &body).await.unwrap();
    assert_eq!(status, 202);
    let path = format!("{}/wait?timeout=30", answer["operation"].as_str().unwrap());
    let (status, answer) = exchange(&mut stream, "GET", &path, "").await.unwrap();
    assert_eq!((status, &answer["type"], &answer["error_code"]), (200, &json!("error"), &json!(500)));
}

#[tokio::test(start_paused = true)]
async fn dead_machines_are_silent_and_dead_daemons_refuse() {
    let cluster = Arc::new(recorded().await);
    let us = Identity::client("us").unwrap();
    cluster.trust(us.der(), None);
    let minutes = Duration::from_secs(600);
    cluster.crash("m1").unwrap();
    cluster.hang("m2").unwrap();
    cluster.cut_off("m3").unwrap();
    for member in ["m1", "m2", "m3"] {
        assert!(timeout(minutes, ask(&cluster, member, Some(&us), "/1.0")).await.is_err(), "{member}");
    }
    // Those on the machine itself are not cut off from it.
    assert!(cluster.ask("m3", "GET", "/1.0", None).await.unwrap().is_some());
    for member in ["m1", "m2", "m3"] {
        cluster.heal(member).unwrap();
    }
    seconds(30.0).await;
    assert_eq!(ask(&cluster, "m3", Some(&us), "/1.0/cluster").await.unwrap().0, 200);
    cluster.kill_daemon("m3").unwrap();
    assert_eq!(ask(&cluster, "m3", Some(&us), "/1.0").await, None);
}

/// Asks over TCP with certificates from files, as a worker does.
pub(crate) async fn over_tcp(
    url: &str,
    cluster: &Path,
    ours: (&Path, &Path),
    path: &str,
) -> Option<(u16, Value)> {
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let connector = client(&text(cluster), Some((&text(ours.0), &text(ours.1))), V13);
    let stream = TcpStream::connect(url.strip_prefix("https://").unwrap()).await.unwrap();
    let mut stream = connector.connect(ServerName::try_from("vm0").unwrap(), stream).await.ok()?;
    exchange(&mut stream, "GET", path, "").await
}

#[tokio::test]
async fn a_unix_socket_needs_no_certificate_and_is_gone_with_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = recorded_plan();
    plan.sockets = Some(folder.path().to_owned());
    let cluster = Cluster::start(plan).await.unwrap();
    let socket = cluster.sockets()[1].clone();
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    let (_, body) = exchange(&mut stream, "GET", "/1.0", "").await.unwrap();
    assert_eq!(body["metadata"]["environment"]["server_name"], "m2");
    assert_eq!(body["metadata"]["auth_user_method"], "unix");
    assert_eq!(cluster.requests("m2").unwrap(), 1);
    drop(cluster);
    assert!(!socket.exists());
}
