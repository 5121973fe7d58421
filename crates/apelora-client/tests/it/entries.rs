//! Maintenance entries.

use apelora_client::{ClientError, NewEntry};
use apelora_lab::redfish::{Reply, Whole};
use serde_json::{Value, json};

use crate::lab::{ControlPlane, Scripted, fault, node, refused};

/// Numbers that no machine number holds.
const NUMBERS: &str = r#"{"load":1.5,"big":12345678901234567890123}"#;

fn new(entry_type: &str, reason: Option<&str>) -> NewEntry {
    NewEntry { entry_type: entry_type.into(), reason: reason.map(str::to_owned), ..NewEntry::default() }
}

#[tokio::test]
async fn entries_come_and_go_one_at_a_time() {
    let server = ControlPlane::start().await;
    let client = server.client();
    node(&client, "n1").await;
    assert!(client.entries("n1").await.unwrap().is_empty());

    let disk = NewEntry {
        extra: serde_json::from_str(NUMBERS).unwrap(),
        ..new("hardware_failure", Some("Disk 3 has bad sectors"))
    };
    let disk = client.add_entry("n1", &disk).await.unwrap();
    let row = client.add_entry("n1", &new("operator_hold", None)).await.unwrap();
    assert_eq!((disk.scope.as_str(), disk.asserted_by.as_deref()), ("system", Some("noauth")));
    assert_eq!((disk.asserted_by_project.as_deref(), row.reason.as_deref()), (Some(""), None));
    assert_eq!(Value::from(disk.extra.clone()).to_string(), NUMBERS);
    assert_eq!(client.entries("n1").await.unwrap(), [disk.clone(), row.clone()]);

    client.remove_entry("n1", &row.uuid).await.unwrap();
    assert_eq!(client.entries("n1").await.unwrap(), [disk]);
    let gone = refused(client.remove_entry("n1", &row.uuid).await);
    assert_eq!(gone.status, 404);
    client.clear_maintenance("n1").await.unwrap();
    assert!(!client.node("n1").await.unwrap().maintenance());
}

#[tokio::test]
async fn the_servers_refusals_are_told_in_its_words() {
    let server = ControlPlane::start().await;
    let client = server.client();
    node(&client, "n1").await;
    let first = client.add_entry("n1", &new("operator_hold", None)).await.unwrap();
    let again = refused(client.add_entry("n1", &new("operator_hold", None)).await);
    assert!(again.status == 409 && again.message.contains(&first.uuid), "{again}");
    for reserved in ["legacy", "fault", "no_such_type"] {
        let refusal = refused(client.add_entry("n1", &new(reserved, None)).await);
        assert!(refusal.status == 400 && refusal.message.contains(reserved), "{refusal}");
    }
    assert_eq!(refused(client.entries("n2").await).status, 404);
    assert!(matches!(client.entries("").await, Err(ClientError::Input(_))));
    assert!(matches!(client.remove_entry("n1", "..").await, Err(ClientError::Input(_))));
    assert_eq!(client.entries("n1").await.unwrap(), [first], "nothing else was done");
}

/// An item of the list of all nodes, as `all_entries.rs` describes it.
fn placed(number: usize, stale: bool) -> Value {
    json!({
        "node": {"uuid": format!("node-{number}"), "name": null, "owner": "p1", "lessee": null},
        "entry": {
            "uuid": format!("entry-{number}"), "type": "operator_hold", "reason": "r", "scope": "lessee",
            "asserted_by": null, "asserted_by_project": null, "asserted_at": "2026-06-10T10:30:00+00:00",
            "extra": serde_json::from_str::<Value>(NUMBERS).unwrap(), "links": []
        },
        "stale": stale,
    })
}

#[tokio::test]
async fn the_entries_of_all_nodes_come_page_by_page() {
    let first: Vec<_> = (0..1_000).map(|number| placed(number, true)).collect();
    let pages = [
        json!({"maintenance": first, "next": "https://elsewhere.example.org/never-followed"}),
        json!({"maintenance": [placed(1_000, false)]}),
    ];
    let server = Scripted::start(pages.map(|page| Reply::Whole(Whole::json(200, &page)))).await;
    let entries = server.client().entries_of_all_nodes(true).await.unwrap();
    assert_eq!(entries.len(), 1_001);
    assert!(entries[0].stale && !entries[1_000].stale);
    assert_eq!(
        (entries[0].entry.asserted_by.as_deref(), entries[0].node.owner.as_deref()),
        (None, Some("p1"))
    );
    assert_eq!(serde_json::to_value(&entries[5]).unwrap(), placed(5, true));
    let asked: Vec<_> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(
        asked,
        [
            "/apelora/v1/maintenance?stale=true&limit=1000",
            "/apelora/v1/maintenance?stale=true&limit=1000&marker=entry-999"
        ]
    );
}

#[tokio::test]
async fn a_server_that_repeats_a_page_is_not_asked_for_ever() {
    let page = json!({"maintenance": [placed(1, false)], "next": "x"});
    let server = Scripted::start([Reply::Whole(Whole::json(200, &page))]).await;
    let outcome = server.client().entries_of_all_nodes(false).await;
    assert!(matches!(outcome, Err(ClientError::Answer(_))), "{outcome:?}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_server_without_the_list_of_all_nodes_is_said_to_lack_it() {
    let server = Scripted::start([Reply::Whole(fault(404, "Not Found"))]).await;
    let outcome = server.client().entries_of_all_nodes(true).await;
    assert!(
        matches!(&outcome, Err(why @ ClientError::Lacks { .. }) if why.to_string().contains("upgrade")),
        "{outcome:?}"
    );
}
