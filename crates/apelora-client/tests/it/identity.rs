//! Who asks.

use apelora_client::{Auth, Client, ClientError, Config, Domain, Interface, LogIn, Named, Proof, Scope};
use apelora_lab::keystone::{Call, Keystone};
use apelora_lab::redfish::{Listening, Reply, Server, Whole};
use apelora_server::AuthStrategy;
use serde_json::json;

use crate::lab::{ControlPlane, Scripted, config, fault, https, node, refused};

const PASSWORD: &str = "S3cr3t-\"marker\"";

#[tokio::test]
async fn a_basic_user_is_who_asserts() {
    // The password is `secret`.
    let users = "admin:$2b$05$s2cUKv74ee1mKpoU3kRiqOKUQScwfzR13pSOplP0F3119A0G..Pbq\n";
    let server = ControlPlane::configured(|config, folder| {
        let user_file = folder.join("users");
        std::fs::write(&user_file, users).unwrap();
        config.auth = AuthStrategy::HttpBasic { user_file };
    })
    .await;
    assert!(server.folder.path().join("users").exists());
    let basic = |password: &str| Auth::HttpBasic { user: "admin".into(), password: password.into() };
    let client = server.client_as(basic("secret"));
    node(&client, "n1").await;
    let hold = apelora_client::NewEntry { entry_type: "operator_hold".into(), ..Default::default() };
    assert_eq!(client.add_entry("n1", &hold).await.unwrap().asserted_by.as_deref(), Some("admin"));
    for wrong in [basic("wrong"), Auth::None, Auth::Token("secret".into())] {
        assert_eq!(refused(server.client_as(wrong).node("n1").await).status, 401);
    }
}

/// A Keystone that logs in one user for one project, with a catalogue that leads to `api`.
struct Cloud {
    keystone: std::sync::Arc<Server<Keystone>>,
    listening: Listening,
}

impl Cloud {
    async fn start(api: &str) -> Self {
        let keystone = https(Keystone::new(Keystone::account("alice", PASSWORD, "rack", "Default")));
        let listening = keystone.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let cloud = Self { keystone, listening };
        cloud.lead_to(api, "token-1");
        cloud
    }

    fn lead_to(&self, api: &str, token: &str) {
        let body = json!({"token": {"catalog": [{"type": "baremetal", "endpoints": [
            {"interface": "public", "region": "RegionOne", "url": format!("{api}/v1")}]}]}});
        let reply = Reply::Whole(Whole::json(201, &body).with_header("X-Subject-Token", token));
        self.keystone.service().set_instead(Call::LogIn, Some(reply));
    }

    fn log_in(&self) -> LogIn {
        let name = |name: &str| Named::Name { name: name.into(), domain: Domain::Name("Default".into()) };
        LogIn {
            url: format!("https://{}/v3", self.listening.address()),
            proof: Proof::Password { user: name("alice"), password: PASSWORD.into() },
            scope: Scope::Project(name("rack")),
            interface: Interface::Public,
            region: None,
        }
    }

    fn client(&self, endpoint: Option<String>) -> Client {
        Client::new(Config { endpoint, auth: Auth::Keystone(Box::new(self.log_in())), ..config() }).unwrap()
    }
}

#[tokio::test]
async fn a_log_in_gives_token_and_address() {
    let api = Scripted::start([Reply::Whole(Whole::json(200, &json!({"uuid": "u1"})))]).await;
    let cloud = Cloud::start(&api.url()).await;
    let client = cloud.client(None);
    client.node("n1").await.unwrap();
    client.node("n2").await.unwrap();
    let tokens: Vec<_> =
        api.seen().iter().map(|seen| seen.header("x-auth-token").unwrap().to_owned()).collect();
    assert_eq!(tokens, ["token-1", "token-1"]);
    assert_eq!(api.seen()[0].path, "/v1/nodes/n1");
    assert_eq!(cloud.keystone.service().count(Call::LogIn), 1, "once for all requests");
    let body: serde_json::Value =
        serde_json::from_slice(&cloud.keystone.service().last(Call::LogIn).unwrap().body).unwrap();
    assert_eq!(body["auth"], Keystone::account("alice", PASSWORD, "rack", "Default"));
    assert!(!format!("{client:?}").contains("S3cr3t") && !format!("{client:?}").contains("token-1"));

    // A configured address goes before the catalogue's.
    let other = Scripted::start([Reply::Whole(Whole::json(200, &json!({"uuid": "u1"})))]).await;
    cloud.client(Some(other.url())).node("n3").await.unwrap();
    assert_eq!((api.seen().len(), other.seen().len()), (2, 1));
}

#[tokio::test]
async fn a_token_that_has_ended_is_replaced_once() {
    let unknown = || Reply::Whole(fault(401, "who?"));
    let api =
        Scripted::start([unknown(), Reply::Whole(Whole::json(200, &json!({"uuid": "u1"}))), unknown()]).await;
    let cloud = Cloud::start(&api.url()).await;
    let client = cloud.client(None);
    client.node("n1").await.unwrap();
    assert_eq!(cloud.keystone.service().count(Call::LogIn), 2);
    assert_eq!(refused(client.node("n1").await).status, 401);
    assert_eq!((cloud.keystone.service().count(Call::LogIn), api.seen().len()), (3, 4));
}

#[tokio::test]
async fn a_refused_log_in_says_what_to_check_and_repeats_nothing() {
    let api = Scripted::start([Reply::Whole(Whole::json(200, &json!({"uuid": "u1"})))]).await;
    let cloud = Cloud::start(&api.url()).await;
    for (reply, wanted) in [
        (
            Reply::Whole(Whole::json(401, &json!({"error": {"code": 401, "message": PASSWORD}}))),
            "OS_PASSWORD",
        ),
        (
            Reply::Whole(Whole::json(400, &json!({"error": {"code": 400, "message": PASSWORD}}))),
            "OS_ variables",
        ),
        (Reply::Whole(Whole::empty(503)), "not available"),
        (Reply::Whole(Whole::json(200, &json!({}))), "OS_AUTH_URL"),
        (Reply::Whole(Whole::json(201, &json!({"token": {}}))), "OS_AUTH_URL"),
        (
            Reply::Whole(
                Whole::json(201, &json!({"token": {"catalog": []}})).with_header("X-Subject-Token", "t"),
            ),
            "no public address",
        ),
    ] {
        cloud.keystone.service().set_instead(Call::LogIn, Some(reply));
        let outcome = cloud.client(None).node("n1").await;
        let Err(why @ ClientError::LogIn(_)) = outcome else { panic!("{wanted}: {outcome:?}") };
        assert!(why.to_string().contains(wanted) && !why.to_string().contains("S3cr3t"), "{why}");
    }
    assert!(api.seen().is_empty(), "nobody is told anything without a token");
}

#[tokio::test]
async fn a_catalogue_that_leads_away_from_tls_is_not_followed() {
    let api = Scripted::start([Reply::Whole(Whole::empty(200))]).await;
    let cloud = Cloud::start(&api.url()).await;
    cloud.lead_to("http://ironic.example.org:6385", "token-1");
    let outcome = cloud.client(None).node("n1").await;
    assert!(matches!(&outcome, Err(ClientError::Setting(why)) if why.contains("catalogue")), "{outcome:?}");
}
