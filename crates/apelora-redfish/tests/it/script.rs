//! A BMC that follows the script of a recorded case.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use apelora_lab::redfish::{After, Framing, Reply, Seen, Service, Whole};
use serde_json::Value;

/// The steps of a case, in order.
///
/// Between two steps the state of the BMC stays as it is: a read that the script does not foresee is answered like the
/// last one, so a careful caller may read more often than the case was written for. Anything else that is not the next
/// step is noted as unforeseen.
pub(crate) struct Script {
    state: Mutex<State>,
}

struct State {
    steps: Vec<Value>,
    last: HashMap<String, Reply>,
    refusals: i64,
    seen: Vec<Seen>,
    unforeseen: Vec<String>,
}

impl Script {
    pub(crate) fn of(case: &Value) -> Self {
        let steps = case["steps"].as_array().unwrap().clone();
        let state =
            State { steps, last: HashMap::new(), refusals: 0, seen: Vec::new(), unforeseen: Vec::new() };
        Self { state: Mutex::new(state) }
    }

    pub(crate) fn posts(&self) -> usize {
        self.state.lock().unwrap().seen.iter().filter(|request| request.method == "POST").count()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub(crate) fn unforeseen(&self) -> Vec<String> {
        self.state.lock().unwrap().unforeseen.clone()
    }
}

impl Service for Script {
    fn answer(&self, request: &Seen) -> Reply {
        let mut state = self.state.lock().unwrap();
        state.seen.push(request.clone());
        let what = format!("{} {}", request.method, request.path);
        state.skip_known_redirect(&what, &request.path);
        if state.steps.first().is_some_and(|step| step["on"] == what.as_str()) {
            let step = state.steps[0].clone();
            if step["repeat"] != true {
                state.steps.remove(0);
            }
            let vanishes = state.next_breaks_the_connection();
            let reply = reply(&step, vanishes);
            if request.method == "GET" && matches!(reply, Reply::Whole(_)) {
                state.last.insert(what, reply.clone());
            }
            reply
        } else if let Some(last) = state.last.get(&what).filter(|_| request.method == "GET") {
            last.clone()
        } else {
            state.unforeseen.push(what);
            Reply::Whole(Whole::empty(500))
        }
    }

    fn accepts(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        if state.steps.first().is_some_and(|step| step["on"] == "CONNECT") {
            let step = state.steps.remove(0);
            state.refusals = step["refuse"].as_i64().unwrap();
        }
        let refused = state.refusals != 0;
        if state.refusals > 0 {
            state.refusals -= 1;
        }
        !refused
    }
}

impl State {
    /// A caller that remembers where a redirect led need not ask for it again.
    fn skip_known_redirect(&mut self, what: &str, path: &str) {
        let redirects_here = self.steps.first().is_some_and(|step| step["headers"]["Location"] == path);
        if redirects_here && self.steps.get(1).is_some_and(|step| step["on"] == what) {
            self.steps.remove(0);
        }
    }

    fn next_breaks_the_connection(&mut self) -> bool {
        let next = self.steps.first().map(|step| step["on"].clone());
        if next.as_ref().is_some_and(|on| on == "REUSE") {
            self.steps.remove(0);
            return true;
        }
        next.is_some_and(|on| on == "CONNECT")
    }
}

fn reply(step: &Value, vanishes: bool) -> Reply {
    if step["drop"] == "after_request" {
        return Reply::Drop;
    }
    let body = if let Some(raw) = step["raw"].as_str() {
        raw.as_bytes().to_vec()
    } else if let Some(repeat) = step["raw_repeat"].as_array() {
        repeat[0].as_str().unwrap().repeat(usize::try_from(repeat[1].as_u64().unwrap()).unwrap()).into_bytes()
    } else if step["body"].is_null() {
        Vec::new()
    } else {
        step["body"].to_string().into_bytes()
    };
    let framing = match (&step["http"], &step["chunked"]) {
        (Value::String(version), _) if version == "1.0" => Framing::Http10,
        (_, Value::Bool(true)) => Framing::Chunked,
        _ => Framing::Length,
    };
    let headers = step["headers"].as_object().into_iter().flatten();
    let mut headers: Vec<(String, String)> =
        headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    if !headers.iter().any(|(name, _)| name == "Content-Type") {
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    Reply::Whole(Whole {
        status: u16::try_from(step["status"].as_u64().unwrap()).unwrap(),
        headers,
        body,
        framing,
        pace: step["drip_ms"].as_u64().map(Duration::from_millis),
        after: if vanishes { After::Vanish } else { After::Keep },
    })
}
