//! Node history over HTTP.

use serde_json::{Value, json};

use crate::lab::{Lab, engines};

#[tokio::test]
async fn the_link_to_the_next_page_can_be_followed() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        for i in 0..5 {
            lab.call("PUT", "/v1/nodes/n1/maintenance", Some(json!({"reason": format!("r{i}")})))
                .await
                .expect(202);
        }
        for order in ["", "&sort_dir=desc", "&detail=True"] {
            let mut path = format!("/v1/nodes/n1/history?limit=2{order}");
            let mut events: Vec<Value> = Vec::new();
            loop {
                let page = lab.get(&path).await;
                events.extend(page["history"].as_array().unwrap().iter().cloned());
                let Some(next) = page["next"].as_str() else { break };
                path = next.strip_prefix(&format!("http://{}", lab.address)).unwrap().to_owned();
                assert!(events.len() < 20, "{engine} {order}");
            }
            assert_eq!(events.len(), 5, "{engine} {order}");
            let last = events[if order.contains("desc") { 0 } else { 4 }]["event"].as_str().unwrap();
            assert!(last.ends_with("r4"), "{engine} {order} {last}");
            assert_eq!(events[0].get("user").is_some(), order.contains("detail"));
        }
    }
}

#[tokio::test]
async fn a_long_event_is_whole_in_its_record_and_short_in_the_list() {
    let lab = Lab::sqlite().await;
    lab.node("n1").await;
    lab.entry("n1", "operator_hold", &"\u{fc}".repeat(2_000)).await;
    let listed = lab.get("/v1/nodes/n1/history").await["history"][0].clone();
    let short = listed["event"].as_str().unwrap();
    assert_eq!(short.chars().count(), 254);
    assert!(short.ends_with("\u{fc}..."));
    let record = lab.get(&format!("/v1/nodes/n1/history/{}", listed["uuid"].as_str().unwrap())).await;
    assert!(record["event"].as_str().unwrap().ends_with(&"\u{fc}".repeat(2_000)));
}

#[tokio::test]
async fn a_record_is_found_under_its_own_node_alone() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        lab.node("n2").await;
        lab.entry("n1", "operator_hold", "x").await;
        let uuid = lab.get("/v1/nodes/n1/history").await["history"][0]["uuid"].as_str().unwrap().to_owned();
        lab.call("GET", &format!("/v1/nodes/n1/history/{uuid}"), None).await.expect(200);
        let refused =
            lab.call("GET", &format!("/v1/nodes/n2/history/{uuid}"), None).await.expect(404).fault();
        assert_eq!(refused, format!("Node history record {uuid} could not be found."), "{engine}");
        let refused =
            lab.call("GET", &format!("/v1/nodes/n2/history?marker={uuid}"), None).await.expect(404).fault();
        assert_eq!(refused, format!("Node history record {uuid} could not be found."), "{engine}");
    }
}
