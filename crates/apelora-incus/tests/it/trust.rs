//! Who is believed, who is told who we are, and what an error says about it.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use apelora_http::{ClientIdentity, HttpError, TlsRefusal, Trust};
use apelora_incus::Problem;
use apelora_lab::redfish::{CertificatePlan, Identity};
use serde_json::json;
use tempfile::TempDir;

use crate::later;
use crate::peer::{Peer, cluster_certificate, error, piped_tls_as, socket, sync};

#[tokio::test]
async fn the_clusters_certificate_is_believed_under_any_name() {
    let peer = Peer::new(|_| sync(&json!([])));
    let (shown, trust) = cluster_certificate();
    assert!(piped_tls_as(&peer, &shown, trust.clone(), None).members(later()).await.is_ok());

    // The renewed one is pinned beside the old one.
    let (renewed, new) = cluster_certificate();
    let (Trust::PinnedLeaf(mut pins), Trust::PinnedLeaf(more)) = (trust.clone(), new) else { panic!() };
    pins.extend(more);
    assert!(piped_tls_as(&peer, &renewed, Trust::PinnedLeaf(pins), None).members(later()).await.is_ok());

    let asked = peer.seen().len();
    for (shown, trust) in [
        (&renewed, trust.clone()),
        (&shown.with_another_key().unwrap(), trust),
        (&shown, Trust::PinnedLeaf(Vec::new())),
    ] {
        let refused = piped_tls_as(&peer, shown, trust, None).members(later()).await.unwrap_err();
        assert!(matches!(refused.problem, Problem::Http(HttpError::Tls(_))), "{refused}");
        assert!(!refused.may_have_been_sent());
    }
    assert_eq!(peer.seen().len(), asked, "nothing was asked of a stranger");
}

#[tokio::test]
async fn a_stranger_is_told_apart_from_a_renewal() {
    let peer = Peer::new(|_| sync(&json!([])));
    let ((shown, _), (_, trust)) = (cluster_certificate(), cluster_certificate());
    let refused = piped_tls_as(&peer, &shown, trust, None).members(later()).await.unwrap_err();
    assert!(matches!(refused.problem, Problem::Http(HttpError::Tls(TlsRefusal::NotPinned))), "{refused}");
    assert!(refused.to_string().contains("APELORA_INCUS_SERVER_CERT"), "{refused}");

    // A cluster's certificate is of no authority, so an authority's file does not help.
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.crt");
    let plan = CertificatePlan {
        common_name: "another authority".to_owned(),
        ..CertificatePlan::for_address("10.118.1.12".parse().unwrap())
    };
    let other = Identity::self_signed(&plan).unwrap();
    std::fs::write(&ca, other.pem()).unwrap();
    let refused = piped_tls_as(&peer, &shown, Trust::OnlyFile(ca), None).members(later()).await.unwrap_err();
    assert!(refused.remedy().is_some_and(|remedy| remedy.contains("APELORA_INCUS_SERVER_CERT")), "{refused}");
}

/// Incus takes every certificate in the handshake and says afterwards what it thinks of it.
#[tokio::test]
async fn an_unknown_client_is_told_what_to_do() {
    let peer = Peer::new(|_| error(403, "not authorized"));
    let (shown, trust) = cluster_certificate();
    let pem = shown.pem().to_owned();
    let wrong = ClientIdentity::from_pem(pem.as_bytes(), b"").unwrap_err();
    assert!(wrong.to_string().contains("the client key"), "{wrong}");
    let refused = piped_tls_as(&peer, &shown, trust, None).members(later()).await.unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("incus config trust add-certificate"), "{told}");
    assert!(told.starts_with("GET /1.0/cluster/members?recursion=1 at https://10.118.1.12:8443: "), "{told}");
}

#[tokio::test]
async fn a_socket_that_cannot_be_used_says_why() {
    let peer = Peer::new(|_| sync(&json!([])));
    let socket = socket(&peer);
    assert!(socket.client().members(later()).await.is_ok());

    let missing = apelora_incus::endpoint(&format!("unix://{}.gone", socket.path().display())).unwrap();
    let client = apelora_incus::Client::new(missing, Trust::SystemRoots, None);
    let refused = client.members(later()).await.unwrap_err();
    assert!(refused.to_string().contains("APELORA_INCUS_URL"), "{refused}");
    assert!(!refused.may_have_been_sent());

    // Nobody listens any more.
    let path = socket.path();
    let stale = socket.client();
    drop(peer);
    let folder = TempDir::new().unwrap();
    let kept = folder.path().join("unix.socket");
    std::fs::rename(&path, &kept).unwrap();
    drop(socket);
    tokio::task::yield_now().await;
    let dead = apelora_incus::endpoint(&format!("unix://{}", kept.display())).unwrap();
    let refused = apelora_incus::Client::new(dead.clone(), Trust::SystemRoots, None)
        .members(later())
        .await
        .unwrap_err();
    assert_eq!(refused.remedy(), Some("check that incusd runs"), "{refused}");
    assert!(stale.members(later()).await.is_err());

    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o000)).unwrap();
    let refused = forbidden(dead).await;
    assert!(refused.contains("incus-admin"), "{refused}");
}

/// A user who may do everything is never refused, so the system's word is given instead of asked for.
async fn forbidden(endpoint: apelora_http::Endpoint) -> String {
    struct Forbidden;
    impl apelora_http::Dial for Forbidden {
        fn dial<'a>(
            &'a self,
            to: &'a apelora_http::Endpoint,
            _by: tokio::time::Instant,
        ) -> apelora_http::Dialing<'a> {
            let why = std::io::ErrorKind::PermissionDenied.into();
            Box::pin(async move { Err(apelora_http::Cause::Connect { to: to.to_string(), why }) })
        }
    }
    let client = apelora_incus::Client::through(Arc::new(Forbidden), endpoint, Trust::SystemRoots, None);
    client.members(later()).await.unwrap_err().to_string()
}
