//! Trust in exactly one leaf certificate.

use apelora_http::{HttpError, TlsRefusal, Trust, connect};
use apelora_lab::redfish::{CertificatePlan, Identity, Life};
use ring::digest::{SHA256, digest};

use crate::{LIMITS, LOOPBACK, Mirror, get, later, listen};

fn pin(identity: &Identity) -> [u8; 32] {
    digest(&SHA256, identity.der()).as_ref().try_into().unwrap()
}

#[tokio::test]
async fn the_pinned_certificate_is_believed_whatever_it_says() {
    let expired =
        CertificatePlan { life: Life::Expired, ..CertificatePlan::for_address("192.0.2.1".parse().unwrap()) };
    for plan in [CertificatePlan::for_address(LOOPBACK), expired] {
        let identity = Identity::self_signed(&plan).unwrap();
        let (_server, _listening, endpoint) = listen(Mirror, &identity).await;
        let trust = Trust::PinnedLeaf(vec![[0; 32], pin(&identity)]);
        let mut connection = connect(&endpoint, &trust, &LIMITS, later()).await.unwrap();
        assert_eq!(connection.leaf(), Some(identity.der()));
        assert_eq!(connection.send(get("/"), later()).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn no_other_certificate_is_believed() {
    let identity = Identity::self_signed(&CertificatePlan::for_address(LOOPBACK)).unwrap();
    let other = Identity::self_signed(&CertificatePlan::for_address(LOOPBACK)).unwrap();
    let (server, _listening, endpoint) = listen(Mirror, &identity).await;
    for pins in [vec![pin(&other)], Vec::new()] {
        let refused = connect(&endpoint, &Trust::PinnedLeaf(pins), &LIMITS, later()).await.unwrap_err();
        assert!(matches!(refused, HttpError::Tls(TlsRefusal::NotPinned)), "{refused}");
        assert!(!refused.may_have_been_sent());
    }
    assert_eq!(server.stats().requests(), 0);
}

/// A peer that shows the pinned certificate, which everybody can read, without having its key.
#[tokio::test]
async fn the_key_must_be_the_certificates() {
    let identity = Identity::self_signed(&CertificatePlan::for_address(LOOPBACK)).unwrap();
    let thief = identity.with_another_key().unwrap();
    let (server, _listening, endpoint) = listen(Mirror, &thief).await;
    let trust = Trust::PinnedLeaf(vec![pin(&identity)]);
    let refused = connect(&endpoint, &trust, &LIMITS, later()).await.unwrap_err();
    assert!(matches!(refused, HttpError::Tls(TlsRefusal::Weak(_))), "{refused}");
    assert_eq!(server.stats().requests(), 0);
}
