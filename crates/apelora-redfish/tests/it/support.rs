//! What the tests share: recorded data, certificates, and a wire that never touches a network.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fs, io};

use apelora_lab::redfish::{Authority, CertificatePlan, Server, Service, TlsVersion};
use apelora_redfish::{
    Conversation, Dial, Dialed, Dialing, Endpoint, RedfishError, SystemChoice, SystemPath, Target,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::time::Instant;

/// The address in every certificate. It is never dialled: documentation only (RFC 5737).
pub(crate) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

pub(crate) const USER: &str = "apelora";
pub(crate) const PASSWORD: &str = "S3cr3t-\"marker\"";

/// A file or folder of the recorded data: in the folder that `APELORA_TEST_DATA` names, or in the workspace.
pub(crate) fn data(name: &str) -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the one place where these tests read the environment")]
    let named = std::env::var_os("APELORA_TEST_DATA").map(PathBuf::from);
    let above = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/data"));
    let root = named.or_else(|| above().find(|folder| folder.join("redfish").is_dir()));
    root.expect("tests/data/redfish, or a folder that APELORA_TEST_DATA names").join("redfish").join(name)
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The authority that the tests trust.
pub(crate) fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Test authority").unwrap())
}

/// Writes a CA file of its own for the caller.
pub(crate) fn ca_file(pem: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ca-{}-{number}.pem", std::process::id()));
    fs::write(&path, pem).unwrap();
    path
}

/// A server with a good certificate.
pub(crate) fn server<S: Service>(service: S, version: TlsVersion) -> Arc<Server<S>> {
    let identity = authority().issue(&CertificatePlan::for_address(ADDRESS)).unwrap();
    Server::new(service, identity.server(version).unwrap())
}

/// Dials a server in this process. What a client and a server share is one in-memory pipe, so a paused clock moves only
/// when both of them wait.
pub(crate) struct Wire<S> {
    server: Arc<Server<S>>,
    /// Everything that clients have written, as an eavesdropper sees it.
    tap: Arc<Mutex<Vec<u8>>>,
    dials: AtomicU32,
}

impl<S: Service> Wire<S> {
    pub(crate) fn to(server: &Arc<Server<S>>) -> Arc<Self> {
        Arc::new(Self { server: Arc::clone(server), tap: Arc::default(), dials: AtomicU32::new(0) })
    }

    pub(crate) fn dials(&self) -> u32 {
        self.dials.load(Ordering::Relaxed)
    }

    /// The lengths of the application data records (RFC 8446 section 5.1: type 23) that clients have written.
    pub(crate) fn application_data(&self) -> Vec<usize> {
        let tap = self.tap.lock().unwrap();
        let (mut rest, mut lengths) = (tap.as_slice(), Vec::new());
        while let [kind, _, _, high, low, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if *kind == 23 {
                lengths.push(length);
            }
            rest = &after[length..];
        }
        lengths
    }
}

impl<S: Service> Dial for Wire<S> {
    fn dial<'a>(&'a self, to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            self.dials.fetch_add(1, Ordering::Relaxed);
            if !self.server.service().accepts() {
                let why = io::ErrorKind::ConnectionRefused.into();
                return Err(apelora_http::Cause::Connect { to: to.to_string(), why });
            }
            let (ours, theirs) = duplex(16 * 1024);
            let server = Arc::clone(&self.server);
            tokio::spawn(async move { drop(server.serve(theirs).await) });
            Ok(Dialed { io: Box::new(Tapped { io: ours, tap: Arc::clone(&self.tap) }), peer: None })
        })
    }
}

struct Tapped {
    io: DuplexStream,
    tap: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = written {
            self.tap.lock().unwrap().extend_from_slice(&buf[..count]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

pub(crate) fn path(text: &str) -> SystemChoice {
    SystemChoice::Path(SystemPath::parse(text).unwrap())
}

/// A BMC at [`ADDRESS`], trusted by the test authority.
pub(crate) fn target(system: SystemChoice) -> Target {
    Target {
        endpoint: Endpoint::https(&ADDRESS.to_string()).unwrap(),
        ca_file: Some(ca_file(authority().pem())),
        user: USER.to_owned(),
        system,
    }
}

pub(crate) fn within(time: Duration) -> Instant {
    Instant::now() + time
}

/// A deadline that a healthy BMC never meets.
pub(crate) fn soon() -> Instant {
    within(Duration::from_secs(10))
}

pub(crate) async fn open<S: Service>(
    server: &Arc<Server<S>>,
    target: &Target,
) -> Result<Conversation, RedfishError> {
    Conversation::open_through(Wire::to(server), target, &PASSWORD.into(), soon()).await
}
