//! No token, no password and no word of an answer in a log line, an error or a debug form.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, Once};
use std::thread::ThreadId;
use std::time::Duration;

use apelora_keystone::{Question, Token, Validator};
use apelora_lab::keystone::{Call, Keystone};
use apelora_lab::redfish::{Reply, Whole};
use serde_json::json;
use tokio::time::advance;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{Lab, PASSWORD, body, config, token};

const TOKEN: &str = "gAAAAABsubject-token-that-nobody-may-read";

/// What each thread has logged, at any level.
static HEARD: LazyLock<Mutex<HashMap<ThreadId, String>>> = LazyLock::new(Mutex::default);

/// Writes it down. One for the whole process: what a listener of one thread hears depends on which thread was the first
/// to come by a log statement.
#[derive(Clone, Copy)]
struct Listener;

impl Listener {
    fn start() -> Self {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| tracing::subscriber::set_global_default(Self).unwrap());
        Self
    }

    fn write(text: impl FnOnce(&mut String)) {
        text(HEARD.lock().unwrap().entry(std::thread::current().id()).or_default());
    }

    /// What this thread has logged.
    fn heard(self) -> String {
        HEARD.lock().unwrap().get(&std::thread::current().id()).cloned().unwrap_or_default()
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        Self::write(|heard| span.record(&mut Writer(heard)));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        Self::write(|heard| values.record(&mut Writer(heard)));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        Self::write(|heard| {
            write!(heard, "\n{} ", event.metadata().level()).unwrap();
            event.record(&mut Writer(heard));
        });
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Writer<'a>(&'a mut String);

impl Visit for Writer<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_is_logged_or_printed() {
    let listener = Listener::start();
    let lab = Lab::with(|l| (l.cache, l.refusal_cache) = (Duration::ZERO, Duration::ZERO));
    let mut printed = String::new();
    let echo = |status: u16| {
        Whole::json(status, &json!({"error": {"code": status, "message": format!("no {TOKEN}")}}))
    };
    let mut wrong_type = body("nova");
    wrong_type["token"]["roles"] = json!(TOKEN);
    let mut wrong_time = body("nova");
    wrong_time["token"]["expires_at"] = json!(TOKEN);
    let mut wrong_kind = body("nova");
    wrong_kind["token"]["user"] = json!({"id": {"x": TOKEN}});

    for reply in [
        Reply::Whole(Whole::json(200, &body("nova"))),
        Reply::Whole(echo(404)),
        Reply::Whole(echo(401)),
        Reply::Whole(echo(403)),
        Reply::Whole(echo(500)),
        Reply::Whole(echo(400)),
        Reply::Whole(Whole { body: TOKEN.as_bytes().to_vec(), ..Whole::empty(404) }),
        Reply::Whole(Whole { body: TOKEN.as_bytes().to_vec(), ..Whole::empty(200) }),
        Reply::Whole(Whole::empty(302).with_header("Location", &format!("https://192.0.2.99/{TOKEN}"))),
        Reply::Whole(Whole::json(200, &wrong_type)),
        Reply::Whole(Whole::json(200, &wrong_time)),
        Reply::Whole(Whole::json(200, &wrong_kind)),
        Reply::Endless(format!("HTTP/1.1 {TOKEN}\r\n").into_bytes(), b"x".to_vec()),
        Reply::Endless(format!("{TOKEN}\r\n").into_bytes(), b"x".to_vec()),
        Reply::Drop,
    ] {
        for call in [Call::Validate, Call::LogIn] {
            lab.keystone().set_instead(call, Some(reply.clone()));
            advance(Duration::from_secs(3601)).await;
            let outcome = lab.ask(TOKEN).await;
            writeln!(printed, "{outcome:?}").unwrap();
            if let Err(why) = outcome {
                writeln!(printed, "{why} {}", why.code()).unwrap();
            }
            lab.keystone().set_instead(call, None);
        }
    }
    lab.keystone().set_account(Keystone::account("apelora", "another", "service", "Default"));
    advance(Duration::from_secs(3601)).await;
    writeln!(printed, "{:?}", lab.ask(TOKEN).await).unwrap();

    let subject = token(TOKEN);
    let question = Question { token: &subject, service_token: Some(&subject), method: "GET", path: "/" };
    writeln!(printed, "{subject:?} {question:?} {:?}", lab.validator).unwrap();
    writeln!(printed, "{:?}", config("https://keystone.example.org")).unwrap();
    writeln!(printed, "{:?}", Token::read(format!("{TOKEN} {TOKEN}").as_bytes())).unwrap();
    let mut bad = config(&format!("https://apelora:{PASSWORD}@keystone"));
    writeln!(printed, "{:?}", Validator::new(bad.clone())).unwrap();
    bad.url = "https://keystone.example.org".to_owned();
    bad.credentials.username.clear();
    writeln!(printed, "{:?}", Validator::new(bad)).unwrap();

    let heard = listener.heard();
    for level in ["ERROR", "WARN", "INFO", "DEBUG"] {
        assert!(heard.contains(level), "nothing was logged as {level}: {heard}");
    }
    assert!(heard.contains("check user, password, project"), "{heard}");
    for text in [&heard, &printed] {
        for secret in [TOKEN, "nobody-may-read", "own-token", "S3cr3t", "marker\\\"", "another"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_when_it_begins_and_now_and_then() {
    let listener = Listener::start();
    let lab = Lab::with(|l| l.cache = Duration::ZERO);
    lab.keystone().know(TOKEN, body("nova"));
    let broken = Some(Reply::Whole(Whole::empty(500)));
    let told = |level: &str| listener.heard().matches(level).count();
    lab.keystone().set_instead(Call::Validate, broken.clone());
    for second in 0..60 {
        assert!(lab.ask(TOKEN).await.is_err());
        assert_eq!(told("WARN"), 1 + second / 30, "after {second} s");
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(told("INFO"), 0);
    lab.keystone().set_instead(Call::Validate, None);
    for _ in 0..3 {
        assert!(lab.ask(TOKEN).await.is_ok());
        assert_eq!(told("INFO"), 1);
    }
    // One that comes and goes is not told each time either.
    let before = told("WARN");
    for _ in 0..10 {
        lab.keystone().set_instead(Call::Validate, broken.clone());
        assert!(lab.ask(TOKEN).await.is_err());
        lab.keystone().set_instead(Call::Validate, None);
        assert!(lab.ask(TOKEN).await.is_ok());
    }
    assert!(told("WARN") <= before + 1 && told("INFO") <= 2, "{}", listener.heard());
}
