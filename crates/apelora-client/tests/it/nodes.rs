//! Nodes and their history.

use apelora_client::{NodeQuery, PatchOp};
use serde_json::{Value, json};

use crate::lab::{ControlPlane, fields, node, refused};

#[tokio::test]
async fn a_node_from_its_making_to_its_end() {
    let server = ControlPlane::start().await;
    let client = server.client();
    let made = client
        .create_node(&fields(&json!({
            "driver": "fake-hardware", "name": "rack1-n1", "lessee": "p1", "extra": {"height": 2, "tags": ["a"]}
        })))
        .await
        .unwrap();
    assert_eq!(
        (made.text("name"), made.text("lessee"), made.maintenance()),
        (Some("rack1-n1"), Some("p1"), false)
    );
    assert_eq!(made.field("extra").unwrap().to_string(), r#"{"height":2,"tags":["a"]}"#);

    let patch = [
        PatchOp::Add { path: "/owner".into(), value: "p2".into() },
        PatchOp::Add { path: "/extra/row".into(), value: "c".into() },
        PatchOp::Remove { path: "/lessee".into() },
    ];
    client.update_node("rack1-n1", &patch).await.unwrap();
    let shown = client.node("rack1-n1").await.unwrap();
    assert_eq!((shown.text("owner"), shown.field("lessee")), (Some("p2"), None));
    assert_eq!(shown.field("extra").unwrap()["row"], "c");
    assert_eq!(client.node(made.text("uuid").unwrap()).await.unwrap(), shown);

    let taken =
        refused(client.create_node(&fields(&json!({"driver": "fake-hardware", "name": "rack1-n1"}))).await);
    assert_eq!((taken.status, taken.message.as_str()), (409, "A node with name rack1-n1 already exists."));
    client.delete_node("rack1-n1").await.unwrap();
    let gone = refused(client.node("rack1-n1").await);
    assert_eq!((gone.status, gone.message.as_str()), (404, "Node rack1-n1 could not be found."));
    assert!(gone.request_id.as_deref().is_some_and(|id| id.starts_with("req-")), "{gone:?}");
}

#[tokio::test]
async fn a_list_keeps_its_filters_over_its_pages() {
    let server = ControlPlane::start().await;
    let client = server.client();
    // More than one page, whose link forgets the lessee as the reference's does.
    for i in 0..1_005 {
        let lessee = if i % 200 == 0 { "p2" } else { "p1" };
        let new = json!({"driver": "fake-hardware", "name": format!("n{i}"), "lessee": lessee});
        client.create_node(&fields(&new)).await.unwrap();
    }
    let leased = |lessee: &str| NodeQuery {
        lessee: Some(lessee.to_owned()),
        fields: vec!["name".to_owned()],
        ..NodeQuery::default()
    };
    let all = client.nodes(&NodeQuery { fields: vec!["name".into()], ..NodeQuery::default() }).await.unwrap();
    assert_eq!(all.len(), 1_005);
    assert_eq!(client.nodes(&leased("p1")).await.unwrap().len(), 999);
    let few = client.nodes(&leased("p2")).await.unwrap();
    assert_eq!(
        few.iter().map(|n| n.text("name").unwrap()).collect::<Vec<_>>(),
        ["n0", "n200", "n400", "n600", "n800", "n1000"]
    );
    assert!(client.nodes(&leased("a&lessee=p2")).await.unwrap().is_empty(), "a value is a value");

    client.set_maintenance("n7", Some("disk")).await.unwrap();
    let held = NodeQuery { maintenance: Some(true), ..NodeQuery::default() };
    let held = client.nodes(&held).await.unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].text("name"), held[0].text("maintenance_reason")), (Some("n7"), Some("disk")));
    assert!(
        held[0].field("created_at").is_some_and(Value::is_string),
        "every field unless some are asked for"
    );
}

#[tokio::test]
async fn the_history_tells_who_did_what() {
    let server = ControlPlane::start().await;
    let client = server.client();
    node(&client, "n1").await;
    client.set_maintenance("n1", Some("rebalancing rack")).await.unwrap();
    client.clear_maintenance("n1").await.unwrap();
    let records = client.history("n1").await.unwrap();
    assert_eq!(records.len(), 2, "{records:?}");
    for record in &records {
        assert_eq!(record.event_type.as_deref(), Some("maintenance"));
        assert_eq!(record.user.as_deref(), Some("noauth"));
        assert!(record.event.as_deref().unwrap().contains("rebalancing rack"), "{record:?}");
        assert!(record.created_at.as_deref().unwrap().starts_with("2026-07-01T09:"), "{record:?}");
    }
    assert_eq!(refused(client.history("n2").await).status, 404);
}
