//! Policy files: changed while the server serves, broken, and what they can tighten.

use std::path::Path;
use std::time::Duration;

use apelora_server::{Server, ServerConfig, StartError};
use serde_json::json;

use crate::client;
use crate::cloud::{Cloud, project, user, varied};
use crate::lab;

/// A cloud whose server looks at this policy file all the time.
async fn with_file(file: &Path) -> Cloud {
    Cloud::configured(
        |_| {},
        |server| {
            server.policy.file = Some(file.to_owned());
            server.limits.reload_interval = Duration::from_millis(5);
        },
    )
    .await
}

/// A figure of the server.
async fn figure(cloud: &Cloud, name: &str) -> String {
    let figures = client::send(cloud.lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
    let line = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no figure {name} in {figures}")).to_owned()
}

/// Waits until a figure has a value; the bound only ends a run that hangs.
async fn until(cloud: &Cloud, name: &str, value: &str) {
    for _ in 0..12_000 {
        if figure(cloud, name).await == value {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{name} is not {value}");
}

const SWAPPED: &str = "apelora_policy_reads_total{outcome=\"swapped\"}";
const REFUSED: &str = "apelora_policy_reads_total{outcome=\"refused\"}";
const IN_FORCE: &str = "apelora_policy_in_force";

#[tokio::test]
async fn a_changed_file_takes_effect_and_a_broken_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let write = |text: &str| {
        // As an editor does it: whole, by renaming.
        let new = folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    write("\"baremetal:node:list_all\": \"!\"\n");
    let cloud = with_file(&file).await;
    let operator = cloud.persona("system-admin");
    let list = || cloud.call(&operator, "GET", "/v1/nodes", None);
    list().await.expect(403);
    assert_eq!((figure(&cloud, SWAPPED).await, figure(&cloud, IN_FORCE).await), ("0".into(), "1".into()));

    write("\"baremetal:node:list_all\": \"role:admin and system_scope:all\"\n");
    until(&cloud, SWAPPED, "1").await;
    list().await.expect(200);

    // A null would be "always" in the original.
    write("\"baremetal:node:list_all\":\n");
    until(&cloud, REFUSED, "1").await;
    list().await.expect(200);
    let reader = cloud.persona("system-reader");
    cloud.call(&reader, "GET", "/v1/nodes", None).await.expect(403);
    assert_eq!(figure(&cloud, IN_FORCE).await, "0");

    // A file that is gone is no policy either: what it forbade stays forbidden.
    std::fs::remove_file(&file).unwrap();
    until(&cloud, REFUSED, "2").await;
    cloud.call(&reader, "GET", "/v1/nodes", None).await.expect(403);

    write("{}\n");
    until(&cloud, SWAPPED, "2").await;
    assert_eq!(figure(&cloud, IN_FORCE).await, "1");
    cloud.call(&reader, "GET", "/v1/nodes", None).await.expect(200);
    // Looked at again and again, and counted once for each change.
    assert_eq!(figure(&cloud, REFUSED).await, "2");

    // The folder beside it outranks it.
    std::fs::create_dir(folder.path().join("policy.d")).unwrap();
    std::fs::write(folder.path().join("policy.d/10-lists.yaml"), "\"baremetal:node:list_all\": \"!\"\n")
        .unwrap();
    until(&cloud, SWAPPED, "3").await;
    list().await.expect(403);
}

#[tokio::test]
async fn a_broken_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let store = lab::sqlite_store(&folder.path().join("a.db")).await;
    let start = async || {
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), "me");
        config.policy.file = Some(file.clone());
        Server::bind(config, store.clone(), lab::sources()).await.map(drop)
    };
    for (text, words) in [
        (None, "cannot read"),
        (Some("\"baremetal:node:get\": \"role:admin\"\n\"baremetal:node:list\": !\n"), "policy.yaml:2"),
        (Some("\"baremetal:node:get\": \"not typo\"\n"), "baremetal:node:get"),
    ] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let Err(StartError::Policy(error)) = start().await else { panic!("{text:?} was taken") };
        assert!(error.contains(words), "{error}");
    }
    std::fs::write(&file, "").unwrap();
    assert!(start().await.is_ok());
}

#[tokio::test]
async fn release_can_be_left_to_the_person_who_asserted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(
        &file,
        "\"baremetal:node:maintenance:remove\": \"role:member and user_id:%(maintenance.asserted_by)s\"\n",
    )
    .unwrap();
    let cloud = with_file(&file).await;
    let operator = cloud.persona("system-admin");
    let owner = project("owner-a-member");
    cloud.node(&operator, "n1", Some(&owner), None).await;
    let (first, second) = (cloud.persona("owner-a-member"), cloud.persona("owner-a-member2"));
    let path = "/v1/nodes/n1/maintenance";
    let new = Some(json!({"type": "operator_hold", "reason": "my hands are in it"}));
    let entry = cloud.call(&first, "POST", path, new).await.expect(201).json();
    let single = format!("{path}/{}", entry["uuid"].as_str().unwrap());
    // Neither a team mate nor an operator, by whichever door.
    let patch = json!([{"op": "replace", "path": "/maintenance", "value": false}]);
    for other in [&second, &operator] {
        for (method, path, body) in [
            ("DELETE", single.as_str(), None),
            ("DELETE", path, None),
            ("PATCH", "/v1/nodes/n1", Some(patch.clone())),
        ] {
            let refused = cloud.call(other, method, path, body).await.expect(403).fault();
            let words = format!(
                "Cannot release maintenance entry {} (type operator_hold, scope owner): not permitted by policy",
                entry["uuid"].as_str().unwrap()
            );
            assert_eq!(refused, words);
            assert!(!refused.contains(&user("owner-a-member")));
        }
    }
    cloud.call(&operator, "DELETE", "/v1/nodes/n1", None).await.expect(403);
    // What the boolean set is still released by whoever passes the boolean's policy.
    cloud.call(&second, "PUT", path, Some(json!({"reason": "legacy"}))).await.expect(202);
    let listed = cloud.call(&second, "GET", path, None).await.expect(200).json();
    let legacy = listed["maintenance"].as_array().unwrap().iter().find(|e| e["type"] == "legacy").unwrap();
    let legacy = format!("{path}/{}", legacy["uuid"].as_str().unwrap());
    cloud.call(&operator, "DELETE", &legacy, None).await.expect(204);
    cloud.call(&first, "DELETE", &single, None).await.expect(204);
}

#[tokio::test]
async fn policy_cannot_lift_the_floor_and_can_give_a_right_without_standing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let open = [
        "get",
        "set_maintenance",
        "clear_maintenance",
        "maintenance:get",
        "maintenance:add",
        "maintenance:remove",
        "history:get",
        "delete",
        "update",
    ]
    .map(|rule| format!("\"baremetal:node:{rule}\": \"@\"\n"))
    .concat();
    std::fs::write(&file, open).unwrap();
    let cloud = with_file(&file).await;
    let operator = cloud.persona("system-admin");
    cloud.node(&operator, "n1", Some(&project("owner-a-member")), None).await;
    let outsider = cloud.persona("outsider-member");
    let path = "/v1/nodes/n1/maintenance";
    let new = || Some(json!({"type": "hardware_failure"}));
    cloud.call(&operator, "POST", path, new()).await.expect(201);
    cloud.call(&outsider, "POST", path, new()).await.expect(403);
    for (method, path) in [("DELETE", path), ("DELETE", "/v1/nodes/n1")] {
        cloud.call(&outsider, method, path, None).await.expect(403);
    }
    // The boolean is the policy's alone. Whom it lets without standing is written down with the lowest rank.
    cloud.call(&outsider, "PUT", path, Some(json!({"reason": "x"}))).await.expect(202);
    let listed = cloud.call(&operator, "GET", path, None).await.expect(200).json();
    let legacy =
        listed["maintenance"].as_array().unwrap().iter().find(|e| e["type"] == "legacy").unwrap().clone();
    assert_eq!(
        (&legacy["scope"], &legacy["asserted_by_project"]),
        (&json!("lessee"), &json!(project("outsider-member")))
    );
    cloud
        .call(&outsider, "DELETE", &format!("{path}/{}", legacy["uuid"].as_str().unwrap()), None)
        .await
        .expect(204);
}

#[tokio::test]
async fn secrets_of_nodes_are_shown_by_policy_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "show_password: \"user_id:trusted\"\nshow_instance_secrets: \"user_id:trusted\"\n")
        .unwrap();
    let cloud = with_file(&file).await;
    let roles = ["admin", "manager", "member", "reader"];
    let trusted = cloud.know(varied("system-admin", "trusted", None, &roles));
    let other = cloud.know(varied("system-admin", "other", None, &roles));
    let body = json!({"driver": "fake-hardware", "name": "n1", "driver_info": {"redfish_password": "pw"},
                      "instance_info": {"configdrive": "cd"}});
    cloud.call(&other, "POST", "/v1/nodes", Some(body)).await.expect(201);
    for (token, password, drive) in [(&trusted, "pw", "cd"), (&other, "******", "******")] {
        for path in ["/v1/nodes/n1", "/v1/nodes/n1?fields=driver_info,instance_info"] {
            let node = cloud.call(token, "GET", path, None).await.expect(200).json();
            assert_eq!(node["driver_info"]["redfish_password"], password);
            assert_eq!(node["instance_info"]["configdrive"], drive);
        }
        let listed = cloud.call(token, "GET", "/v1/nodes/detail", None).await.expect(200).json();
        assert_eq!(listed["nodes"][0]["driver_info"]["redfish_password"], password);
    }
}
