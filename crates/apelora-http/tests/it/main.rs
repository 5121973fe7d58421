//! The HTTP door over real sockets: trust, deadlines, limits, and what an error says about the request.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod answers;
mod identity;
mod pins;
mod sockets;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use apelora_http::{Dial, Dialed, Dialing, Endpoint, Limits, Method, Request};
use apelora_lab::redfish::{
    Authority, CertificatePlan, Identity, Listening, Reply, Seen, Server, Service, TlsVersion, Whole,
};
use tokio::io::duplex;
use tokio::time::Instant;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const LIMITS: Limits = Limits { connect: Duration::from_secs(5), head: 16 << 10, body: 64 << 10 };

/// Far away: no test waits for it.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Answers with what it was asked.
struct Mirror;

impl Service for Mirror {
    fn answer(&self, request: &Seen) -> Reply {
        let mut body = format!("{} {}\n", request.method, request.path);
        for (name, value) in &request.headers {
            body.push_str(&format!("{name}: {value}\n"));
        }
        body.push_str(&String::from_utf8_lossy(&request.body));
        Reply::Whole(Whole { body: body.into_bytes(), ..Whole::empty(200) })
    }
}

/// A server on loopback, and its endpoint.
async fn listen<S: Service>(service: S, identity: &Identity) -> (Arc<Server<S>>, Listening, Endpoint) {
    let server = Server::new(service, identity.server(TlsVersion::V13).unwrap());
    let listening = server.listen(SocketAddr::new(LOOPBACK, 0)).await.unwrap();
    let endpoint = Endpoint::https(&listening.address().to_string()).unwrap();
    (server, listening, endpoint)
}

/// Dials a server in this process over an in-memory pipe: a paused clock moves only when both ends wait.
struct Pipe<S>(Arc<Server<S>>);

impl<S: Service> Dial for Pipe<S> {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            let (ours, theirs) = duplex(16 * 1024);
            let server = Arc::clone(&self.0);
            tokio::spawn(async move { drop(server.serve(theirs).await) });
            Ok(Dialed { io: Box::new(ours), peer: None })
        })
    }
}

/// An authority, its CA file, and a good certificate for loopback.
fn trusted() -> (PathBuf, Identity) {
    let authority = Authority::new("Test authority").unwrap();
    let mut plan = CertificatePlan::for_address(LOOPBACK);
    plan.dns_names = vec!["localhost".to_owned()];
    (file(authority.pem()), authority.issue(&plan).unwrap())
}

fn file(text: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("http-{}-{number}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn get(path: &str) -> Request {
    Request::new(Method::Get, path)
}
