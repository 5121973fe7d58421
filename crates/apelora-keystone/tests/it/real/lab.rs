//! The lab Keystone: started and stopped by its script, and spoken to as an operator does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use apelora_http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use apelora_http::{Answer, Endpoint, Limits as HttpLimits, Method, Request, Trust, connect};
use apelora_keystone::{Config, Credentials, Identity, Limits, Question, Refusal, Validator};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use crate::support::{env, far, token};

/// How long a busy machine may take for what it does at once when it is idle.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Real {
    folder: PathBuf,
    known: Value,
    /// The tests stop, restart and freeze the one Keystone, so they take turns; also when each has its own process.
    _turn: File,
}

impl Real {
    /// Waits for its turn and starts Keystone if it does not run.
    pub(crate) fn take() -> Self {
        let folder =
            PathBuf::from(env("APELORA_TEST_KEYSTONE").expect("APELORA_TEST_KEYSTONE, as the suite sets it"));
        let turn = File::create(folder.join("turn")).unwrap();
        turn.lock().unwrap();
        let known = crate::support::json(&folder.join("personas.json"));
        let real = Self { folder, known, _turn: turn };
        real.start(3600);
        real
    }

    fn script(&self, verb: &str, expiration: u32) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|f| f.join("tests/labs").is_dir());
        let status = Command::new(root.unwrap().join("tests/labs/keystone.sh"))
            .arg(verb)
            .arg(&self.folder)
            .env("KEYSTONE_EXPIRATION", expiration.to_string())
            .status();
        assert!(status.unwrap().success(), "keystone.sh {verb}");
    }

    /// Starts it with this life of tokens, in seconds. One that runs keeps its own.
    pub(crate) fn start(&self, expiration: u32) {
        self.script("start", expiration);
    }

    pub(crate) fn stop(&self) {
        self.script("stop", 3600);
    }

    /// Freezes it until the returned value is dropped: connections are taken, and nothing is answered.
    pub(crate) fn freeze(&self) -> Frozen {
        let frozen = Frozen(fs::read_to_string(self.folder.join("pid")).unwrap().trim().to_owned());
        frozen.signal("-STOP");
        frozen
    }

    pub(crate) fn personas(&self) -> &[Value] {
        self.known["personas"].as_array().unwrap()
    }

    pub(crate) fn persona(&self, name: &str) -> &Value {
        self.personas().iter().find(|one| one["persona"] == name).unwrap()
    }

    pub(crate) fn id<'a>(&'a self, kind: &str, name: &str) -> &'a str {
        self.known[kind][name].as_str().unwrap()
    }

    /// A validator with a persona's account, which remembers nothing.
    pub(crate) fn validator(&self, persona: &str) -> Validator {
        let mut config = self.config(persona);
        config.limits.cache = Duration::ZERO;
        config.limits.refusal_cache = Duration::ZERO;
        Validator::new(config).unwrap()
    }

    pub(crate) fn config(&self, persona: &str) -> Config {
        let account = self.persona(persona);
        Config {
            url: self.known["url"].as_str().unwrap().to_owned(),
            trust: Trust::SystemRoots,
            allow_plain_http: false,
            credentials: Credentials {
                username: persona.to_owned(),
                password: account["password"].as_str().unwrap().into(),
                user_domain_name: "Default".to_owned(),
                project_name: account["project"].as_str().unwrap().to_owned(),
                project_domain_name: "Default".to_owned(),
            },
            service_type: "baremetal".to_owned(),
            service_token_roles: vec!["service".to_owned()],
            limits: Limits::default(),
        }
    }

    /// A new token of a persona, in its scope.
    pub(crate) async fn token(&self, persona: &str) -> String {
        let one = self.persona(persona);
        let mut auth = json!({"identity": {"methods": ["password"], "password": {
            "user": {"id": one["user_id"], "password": one["password"]}}}});
        match one["scope"].as_str().unwrap() {
            "system" => auth["scope"] = json!({"system": {"all": true}}),
            "domain" => auth["scope"] = json!({"domain": {"id": "default"}}),
            "project" => auth["scope"] = json!({"project": {"id": one["project_id"]}}),
            "application_credential" => {
                auth = json!({"identity": {"methods": ["application_credential"], "application_credential": {
                    "id": one["application_credential_id"], "secret": one["secret"]}}});
            }
            _ => {}
        }
        let answer = self.call(Method::Post, "/v3/auth/tokens", &[], &json!({"auth": auth})).await;
        assert_eq!(answer.status, 201, "{persona}");
        answer.headers["x-subject-token"].to_str().unwrap().to_owned()
    }

    /// Does something as the administrator of the system.
    pub(crate) async fn admin(&self, method: Method, path: &str, body: &Value) {
        let admin = self.token("system-admin").await;
        let answer = self.call(method, path, &[("x-auth-token", &admin)], body).await;
        assert!((200..300).contains(&answer.status), "{method:?} {path}: {}", answer.status);
    }

    pub(crate) async fn revoke(&self, token: &str) {
        let headers = [("x-auth-token", token), ("x-subject-token", token)];
        let answer = self.call(Method::Delete, "/v3/auth/tokens", &headers, &Value::Null).await;
        assert_eq!(answer.status, 204);
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &Value,
    ) -> Answer {
        let url = self.known["url"].as_str().unwrap();
        let address = url.trim_start_matches("http://").trim_end_matches("/v3");
        let limits = HttpLimits { connect: PATIENCE, head: 64 * 1024, body: 1 << 20 };
        let by = Instant::now() + PATIENCE;
        let to = Endpoint::plain_http(address).unwrap();
        let mut connection = connect(&to, &Trust::SystemRoots, &limits, by).await.unwrap();
        let mut request = Request::new(method, path);
        for &(name, value) in headers {
            request = request.header(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        if !body.is_null() {
            request = request
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(body.to_string().into_bytes());
        }
        connection.send(request, by).await.unwrap()
    }
}

/// A Keystone that hangs.
pub(crate) struct Frozen(String);

impl Frozen {
    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0]).status().unwrap().success());
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where these tests read the clock")]
pub(crate) fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

pub(crate) async fn ask(validator: &Validator, raw: &str) -> Result<Identity, Refusal> {
    ask_for(validator, raw, None, "GET", "/v1/nodes").await
}

pub(crate) async fn ask_for(
    validator: &Validator,
    raw: &str,
    service: Option<&str>,
    method: &str,
    path: &str,
) -> Result<Identity, Refusal> {
    let (token, service) = (token(raw), service.map(token));
    let question = Question { token: &token, service_token: service.as_ref(), method, path };
    validator.validate(&question, now(), far()).await
}

/// Asks until there is a decision: a busy machine, or a Keystone that comes back, may need a while.
pub(crate) async fn decision(validator: &Validator, raw: &str) -> Result<Identity, Refusal> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask(validator, raw).await {
            Err(Refusal::Unavailable { .. }) if Instant::now() < until => {
                sleep(Duration::from_millis(200)).await;
            }
            decided => return decided,
        }
    }
}
