//! The negotiation of versions.

use apelora_client::{ClientError, NewEntry, Version};
use apelora_lab::redfish::Reply;
use apelora_server::Microversion;

use crate::lab::{ControlPlane, Scripted, fault, node, refused};

#[tokio::test]
async fn an_older_server_is_spoken_to_at_its_version() {
    let server = ControlPlane::configured(|config, _| config.max_microversion = Microversion::new(115)).await;
    let client = server.client();
    node(&client, "n1").await;
    client.set_maintenance("n1", Some("old way")).await.unwrap();
    assert_eq!(client.node("n1").await.unwrap().text("maintenance_reason"), Some("old way"));
    for outcome in [
        client.entries("n1").await.map(drop),
        client
            .add_entry("n1", &NewEntry { entry_type: "operator_hold".into(), ..NewEntry::default() })
            .await
            .map(drop),
        client.remove_entry("n1", "8d8d9a25-c1d0-4d4c-93a6-2a4a7e2bf7d8").await,
    ] {
        let Err(why @ ClientError::Version { needed, served, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((needed, served), (Version::TYPED_MAINTENANCE, Version::new(115)));
        let text = why.to_string();
        assert!(text.contains("needs version 1.116") && text.contains("has 1.115 at most"), "{text}");
    }
    client.clear_maintenance("n1").await.unwrap();

    // Also when it is the first thing that is asked.
    let outcome = server.client().entries("n1").await;
    assert!(matches!(outcome, Err(ClientError::Version { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_refusal_that_lowers_nothing_is_told() {
    let range = |low: &str, high: &str| {
        let whole = fault(406, "no such version")
            .with_header("X-OpenStack-Ironic-API-Minimum-Version", low)
            .with_header("X-OpenStack-Ironic-API-Maximum-Version", high);
        Reply::Whole(whole)
    };
    let same = Scripted::start([range("1.1", "1.116")]).await;
    assert_eq!(refused(same.client().node("n1").await).status, 406);
    assert_eq!(same.seen().len(), 1);
    let newer = Scripted::start([range("1.200", "1.300")]).await;
    let outcome = newer.client().node("n1").await;
    assert!(
        matches!(&outcome, Err(ClientError::TooNew { lowest }) if *lowest == Version::new(200)),
        "{outcome:?}"
    );
    let older = Scripted::start([range("1.1", "1.30"), Reply::Whole(fault(404, "none"))]).await;
    assert_eq!(refused(older.client().node("n1").await).status, 404);
    let asked: Vec<_> =
        older.seen().iter().map(|s| s.header("x-openstack-ironic-api-version").unwrap().to_owned()).collect();
    assert_eq!(asked, ["1.116", "1.30"]);
}
