//! What is sent again, and what is not.

use apelora_client::{Client, ClientError, Config, NewEntry, Retry};
use apelora_lab::redfish::{After, Reply, Whole};
use serde_json::json;

use crate::lab::{Scripted, config, fault, refused};

const LOCKED: &str = "Node n1 is locked by host c1, please retry after the current operation is completed.";

fn reply(whole: Whole) -> Reply {
    Reply::Whole(whole)
}

fn hold() -> NewEntry {
    NewEntry { entry_type: "operator_hold".into(), ..NewEntry::default() }
}

#[tokio::test]
async fn a_locked_node_is_tried_again_until_it_is_free() {
    let server =
        Scripted::start([reply(fault(409, LOCKED)), reply(fault(409, LOCKED)), reply(Whole::empty(204))])
            .await;
    server.client().clear_maintenance("n1").await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn tries_come_to_an_end() {
    let server = Scripted::start([reply(fault(409, LOCKED))]).await;
    let refusal = refused(server.client().clear_maintenance("n1").await);
    assert!(refusal.is_lock(), "{refusal}");
    assert_eq!(server.seen().len(), 5);

    let patient = Config {
        endpoint: Some(server.url()),
        retry: Retry { within: std::time::Duration::ZERO, ..config().retry },
        ..config()
    };
    refused(Client::new(patient).unwrap().clear_maintenance("n1").await);
    assert!((6..=7).contains(&server.seen().len()), "no time, at most one more try");
}

#[tokio::test]
async fn a_duplicate_and_other_refusals_are_not_tried_again() {
    for (status, text) in [
        (409, "A maintenance entry of type operator_hold at owner scope already exists: 8d8d9a25"),
        (409, "A node with name n1 already exists."),
        (403, "no"),
        (400, "no"),
        (404, "no"),
        (500, "no"),
    ] {
        let server = Scripted::start([reply(fault(status, text))]).await;
        let refusal = refused(server.client().add_entry("n1", &hold()).await);
        assert_eq!((refusal.status, refusal.message.as_str()), (status, text));
        assert_eq!(refusal.to_string(), format!("{text} (HTTP {status}) (request req-8d8d9a25)"));
        assert_eq!(server.seen().len(), 1, "{status} {text}");
    }
}

#[tokio::test]
async fn an_unavailable_server_is_tried_again_where_it_did_nothing() {
    let busy = || fault(503, "busy").with_header("Retry-After", "0");
    let entries = || reply(Whole::json(200, &json!({"maintenance": []})));
    // It says that it did nothing.
    let server = Scripted::start([reply(busy()), reply(Whole::empty(204))]).await;
    server.client().clear_maintenance("n1").await.unwrap();
    // It was a question.
    let server = Scripted::start([reply(fault(503, "away")), entries()]).await;
    assert!(server.client().entries("n1").await.unwrap().is_empty());
    // Whether a change was made is not known.
    let server = Scripted::start([reply(fault(503, "The database did not confirm the change."))]).await;
    assert_eq!(refused(server.client().clear_maintenance("n1").await).status, 503);
    assert_eq!(server.seen().len(), 1);
    // It asks for more patience than there is.
    let server =
        Scripted::start([reply(fault(503, "later").with_header("Retry-After", "3600")), entries()]).await;
    assert_eq!(refused(server.client().entries("n1").await).status, 503);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_change_without_an_answer_may_have_been_made_and_is_not_sent_twice() {
    let server = Scripted::start([Reply::Drop]).await;
    let outcome = server.client().add_entry("n1", &hold()).await;
    let Err(why @ ClientError::Unknown { .. }) = outcome else { panic!("{outcome:?}") };
    assert!(why.to_string().contains("may have been made"), "{why}");
    assert_eq!(server.seen().len(), 1);
    let outcome = server.client().entries("n1").await;
    assert!(matches!(outcome, Err(ClientError::Unanswered { .. })), "{outcome:?}");

    let nobody = Config { endpoint: Some("https://127.0.0.1:1".into()), ..config() };
    let outcome = Client::new(nobody).unwrap().add_entry("n1", &hold()).await;
    assert!(matches!(outcome, Err(ClientError::NotReached { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_connection_is_used_again_and_replaced_when_it_was_closed() {
    let entries = || Whole::json(200, &json!({"maintenance": []}));
    let closing = |after| reply(Whole { after, ..entries() });
    let server = Scripted::start([
        closing(After::Keep),
        closing(After::Close),
        closing(After::Vanish),
        closing(After::Keep),
    ])
    .await;
    let client = server.client();
    for _ in 0..4 {
        client.entries("n1").await.unwrap();
    }
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 2, 3]);
}
