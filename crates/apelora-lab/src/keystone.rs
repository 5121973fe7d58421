//! A simulated Keystone, as far as the validation of tokens goes: it logs one service account in and answers whose token
//! a token is, with bodies that the test brings. It serves through [`Server`](crate::redfish::Server).

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::redfish::{Reply, Seen, Service, Whole};

/// Which of the two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `POST /v3/auth/tokens`.
    LogIn,
    /// `GET /v3/auth/tokens`.
    Validate,
}

/// A Keystone that knows one service account and the tokens that it is told.
#[derive(Debug)]
pub struct Keystone {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The only log-in that is accepted.
    account: Value,
    issued_at: String,
    expires_at: String,
    tokens: HashMap<String, (Value, bool)>,
    own: HashSet<String>,
    instead: HashMap<Call, Reply>,
    calls: Vec<(Call, Seen)>,
    logged_in: usize,
}

impl Keystone {
    /// One that logs in whoever sends exactly this `auth` object. Its own tokens live one hour.
    #[must_use]
    pub fn new(auth: Value) -> Self {
        Self {
            state: Mutex::new(State {
                account: auth,
                issued_at: "2026-11-30T00:00:00.000000Z".to_owned(),
                expires_at: "2026-11-30T01:00:00.000000Z".to_owned(),
                tokens: HashMap::new(),
                own: HashSet::new(),
                instead: HashMap::new(),
                calls: Vec::new(),
                logged_in: 0,
            }),
        }
    }

    /// The `auth` object of a service account whose domains have this name, with its project.
    #[must_use]
    pub fn account(user: &str, password: &str, project: &str, domain: &str) -> Value {
        json!({
            "identity": {"methods": ["password"], "password": {"user": {
                "name": user, "domain": {"name": domain}, "password": password}}},
            "scope": {"project": {"name": project, "domain": {"name": domain}}}})
    }

    /// Makes a token known, with the body that its validation answers.
    pub fn know(&self, token: &str, body: Value) {
        self.state().tokens.insert(token.to_owned(), (body, false));
    }

    /// As [`know`](Self::know), for a token that has expired: known only to those who ask for expired ones too.
    pub fn know_expired(&self, token: &str, body: Value) {
        self.state().tokens.insert(token.to_owned(), (body, true));
    }

    /// Forgets a token, as when it is revoked.
    pub fn forget(&self, token: &str) {
        self.state().tokens.remove(token);
    }

    /// Forgets the tokens of the service account: they are refused from now on.
    pub fn forget_own(&self) {
        self.state().own.clear();
    }

    /// Changes the account that is logged in.
    pub fn set_account(&self, auth: Value) {
        self.state().account = auth;
    }

    /// Gives these times to new tokens of the service account.
    pub fn set_life(&self, issued_at: &str, expires_at: &str) {
        let mut state = self.state();
        state.issued_at = issued_at.to_owned();
        state.expires_at = expires_at.to_owned();
    }

    /// Answers this instead, until it is `None` again.
    pub fn set_instead(&self, call: Call, reply: Option<Reply>) {
        let instead = &mut self.state().instead;
        match reply {
            Some(reply) => drop(instead.insert(call, reply)),
            None => drop(instead.remove(&call)),
        }
    }

    /// How often this was asked.
    #[must_use]
    pub fn count(&self, call: Call) -> usize {
        self.state().calls.iter().filter(|(known, _)| *known == call).count()
    }

    /// The last request of this kind.
    #[must_use]
    pub fn last(&self, call: Call) -> Option<Seen> {
        self.state().calls.iter().rev().find(|(known, _)| *known == call).map(|(_, seen)| seen.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Keystone {
    fn answer(&self, request: &Seen) -> Reply {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let call = match (request.method.as_str(), path) {
            ("POST", "/v3/auth/tokens") => Call::LogIn,
            ("GET", "/v3/auth/tokens") => Call::Validate,
            _ => {
                let mut page = Whole::empty(404).with_header("Content-Type", "text/html; charset=utf-8");
                page.body = b"<!doctype html>\n<title>404 Not Found</title>\n".to_vec();
                return Reply::Whole(page);
            }
        };
        let mut state = self.state();
        state.calls.push((call, request.clone()));
        if let Some(reply) = state.instead.get(&call) {
            return reply.clone();
        }
        Reply::Whole(match call {
            Call::LogIn => state.log_in(&request.body),
            Call::Validate => state.validate(request, query),
        })
    }
}

impl State {
    fn log_in(&mut self, body: &[u8]) -> Whole {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if body["auth"] != self.account {
            return error(401, "The request you have made requires authentication.");
        }
        self.logged_in += 1;
        let token = format!("own-token-{}", self.logged_in);
        self.own.insert(token.clone());
        let body = json!({"token": {"methods": ["password"], "roles": [{"id": "r", "name": "service"}],
            "issued_at": self.issued_at, "expires_at": self.expires_at}});
        Whole::json(201, &body).with_header("X-Subject-Token", &token)
    }

    fn validate(&self, request: &Seen, query: &str) -> Whole {
        if !request.header("x-auth-token").is_some_and(|own| self.own.contains(own)) {
            return error(401, "The request you have made requires authentication.");
        }
        let subject = request.header("x-subject-token").unwrap_or_default();
        let expired_too = query.split('&').any(|part| part == "allow_expired=1");
        let rules_too = request.header("openstack-identity-access-rules") == Some("1.0");
        match self.tokens.get(subject) {
            Some((_, true)) if !expired_too => error(404, "Failed to validate token"),
            Some((body, _)) if has_rules(body) && !rules_too => error(404, "Failed to validate token"),
            Some((body, _)) => Whole::json(200, body).with_header("X-Subject-Token", subject),
            // As the real one does.
            None => error(404, &format!("Could not find token: {subject}.")),
        }
    }
}

fn has_rules(body: &Value) -> bool {
    !body["token"]["application_credential"]["access_rules"].is_null()
}

fn error(code: u16, message: &str) -> Whole {
    Whole::json(code, &json!({"error": {"code": code, "message": message, "title": "-"}}))
}
