//! A BMC with power to switch, in a vendor's guise, that can be broken on purpose.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::https::{After, Reply, Seen, Service, Whole};
use crate::power::Switch;
use crate::redfish::personality::Personality;

/// Power of a simulated server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// Running.
    On,
    /// Off.
    Off,
}

impl Power {
    fn word(self) -> &'static str {
        match self {
            Self::On => "On",
            Self::Off => "Off",
        }
    }
}

/// What is wrong with a BMC. One thing at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Each answer waits this long.
    Slow(Duration),
    /// Each body comes one byte at a time, this far apart.
    Drip(Duration),
    /// Each answer has an endless body.
    Bomb,
    /// Each answer has endless headers.
    HeaderBomb,
    /// Each read is redirected there.
    Redirect(String),
    /// Each system reads this, whatever it is.
    Lying(Power),
    /// A reset is answered with this status and not carried out.
    Rejects(u16),
    /// A reset is answered like a success and not carried out.
    Ignores,
    /// A reset is carried out, and answered with a task to follow.
    Tasks,
    /// A reset is carried out, and the connection closed without an answer.
    Hangs,
    /// Each system claims this reset target.
    Target(String),
    /// Each system claims this UUID.
    Impostor(String),
    /// Not there: no connection is taken, kept ones close without notice.
    Gone,
    /// Gone for this long once a reset was carried out, then back.
    Restarts(Duration),
}

struct System {
    path: String,
    body: Value,
    switch: Arc<Switch>,
}

impl System {
    fn power(&self, now: Instant) -> Power {
        if self.switch.is_on(now) { Power::On } else { Power::Off }
    }
}

struct State {
    systems: Vec<System>,
    delay: Duration,
    fault: Option<Fault>,
    gone_until: Option<Instant>,
    /// Whether it has no power itself.
    dark: bool,
    resets: u32,
    power_offs: u32,
}

/// A simulated BMC. Its time is tokio's, so tests may pause it.
pub struct Bmc {
    personality: Personality,
    authorization: String,
    state: Mutex<State>,
}

impl Bmc {
    /// A BMC with one account. Each system runs or not as recorded; a switch-off takes no time.
    #[must_use]
    pub fn new(personality: Personality, user: &str, password: &str) -> Self {
        let systems = personality
            .systems
            .iter()
            .map(|(path, body)| System {
                path: path.clone(),
                body: body.clone(),
                switch: Arc::new(Switch::new(body["PowerState"] != "Off")),
            })
            .collect();
        let state = State {
            systems,
            delay: Duration::ZERO,
            fault: None,
            gone_until: None,
            dark: false,
            resets: 0,
            power_offs: 0,
        };
        let authorization = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        Self { personality, authorization, state: Mutex::new(state) }
    }

    /// With the `index`th system living on this power. Unknown systems are left alone.
    #[must_use]
    pub fn wired_to(self, index: usize, switch: Arc<Switch>) -> Self {
        if let Some(system) = self.lock().systems.get_mut(index) {
            system.switch = switch;
        }
        self
    }

    /// How long a switch-off takes.
    pub fn set_delay(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// Breaks it, or repairs it.
    pub fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.lock();
        state.fault = fault;
        state.gone_until = None;
    }

    /// Takes its own power away, or gives it back: without it nothing is answered, whatever else is wrong.
    pub fn set_dark(&self, dark: bool) {
        self.lock().dark = dark;
    }

    /// The UUID of the `index`th system. Unknown systems are left alone.
    pub fn set_uuid(&self, index: usize, uuid: &str) {
        if let Some(system) = self.lock().systems.get_mut(index) {
            system.body["UUID"] = Value::from(uuid);
        }
    }

    /// Switches the `index`th system from outside. Unknown systems are left alone.
    pub fn set_power(&self, index: usize, power: Power) {
        let now = Instant::now();
        if let Some(system) = self.lock().systems.get(index) {
            match power {
                Power::On => system.switch.on(now),
                Power::Off => system.switch.off(now, Duration::ZERO),
            }
        }
    }

    /// The true power of the `index`th system.
    #[must_use]
    pub fn power(&self, index: usize) -> Option<Power> {
        let now = Instant::now();
        self.lock().systems.get(index).map(|system| system.power(now))
    }

    /// Path of the `index`th system.
    #[must_use]
    pub fn path(&self, index: usize) -> Option<String> {
        self.lock().systems.get(index).map(|system| system.path.clone())
    }

    /// How many resets have reached it.
    #[must_use]
    pub fn resets(&self) -> u32 {
        self.lock().resets
    }

    /// Power-offs that were carried out or begun.
    #[must_use]
    pub fn power_offs(&self) -> u32 {
        self.lock().power_offs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, state: &State, path: &str) -> Whole {
        if path == "/redfish/v1" {
            return Whole::json(200, &self.personality.root);
        }
        if path == "/redfish/v1/Systems" {
            return Whole::json(200, &self.personality.collection);
        }
        let fault = state.fault.clone();
        let now = Instant::now();
        let Some(system) = state.systems.iter().find(|system| system.path == path) else {
            return Whole::json(404, &error("Base.1.0.ResourceMissingAtURI"));
        };
        let mut body = system.body.clone();
        body["PowerState"] = Value::from(system.power(now).word());
        match fault {
            Some(Fault::Lying(power)) => body["PowerState"] = Value::from(power.word()),
            Some(Fault::Target(target)) => {
                body["Actions"]["#ComputerSystem.Reset"]["target"] = Value::from(target);
            }
            Some(Fault::Impostor(uuid)) => body["UUID"] = Value::from(uuid),
            _ => {}
        }
        Whole::json(200, &body)
    }

    fn reset(&self, state: &mut State, request: &Seen) -> Reply {
        let path = request.path.trim_end_matches('/').strip_suffix("/Actions/ComputerSystem.Reset");
        let now = Instant::now();
        let (fault, delay) = (state.fault.clone(), state.delay);
        let Some(system) = state.systems.iter().find(|system| Some(system.path.as_str()) == path) else {
            return Reply::Whole(Whole::json(404, &error("Base.1.0.ResourceMissingAtURI")));
        };
        if request.header("content-type") != Some("application/json") {
            return Reply::Whole(Whole::json(415, &error("Base.1.0.GeneralError")));
        }
        let wanted: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        state.resets += 1;
        let before = system.power(now);
        let accepted = || Reply::Whole(self.recorded_answer(before));
        match (&fault, wanted["ResetType"].as_str()) {
            (Some(Fault::Rejects(status)), _) => {
                return Reply::Whole(Whole::json(*status, &error("Base.1.0.GeneralError")));
            }
            (Some(Fault::Ignores), _) => return accepted(),
            (_, Some("ForceOff")) => {
                system.switch.off(now, delay);
                state.power_offs += 1;
            }
            (_, Some("On")) => system.switch.on(now),
            _ => return Reply::Whole(Whole::json(400, &error("Base.1.0.ActionParameterNotSupported"))),
        }
        match fault {
            Some(Fault::Hangs) => Reply::Drop,
            Some(Fault::Tasks) => Reply::Whole(
                Whole::json(
                    202,
                    &json!({ "@odata.id": "/redfish/v1/TaskService/Tasks/1", "TaskState": "Running" }),
                )
                .with_header("Location", "/redfish/v1/TaskService/Monitors/1"),
            ),
            Some(Fault::Restarts(time)) => {
                state.gone_until = Some(now + time);
                Reply::Whole(Whole { after: After::Vanish, ..self.recorded_answer(before) })
            }
            _ => accepted(),
        }
    }

    /// What this vendor's BMC was seen to answer to a `ForceOff`; 204 when nothing was recorded.
    fn recorded_answer(&self, before: Power) -> Whole {
        let recorded = self.personality.answers.iter().find(|(state, ..)| state == before.word());
        match recorded {
            Some((_, status, body)) if body.is_object() => Whole::json(*status, body),
            Some((_, status, _)) => Whole::empty(*status),
            None => Whole::empty(204),
        }
    }
}

impl Service for Bmc {
    fn answer(&self, request: &Seen) -> Reply {
        if !self.accepts() {
            return Reply::Drop;
        }
        let mut state = self.lock();
        let fault = state.fault.clone();
        let path = request.path.strip_suffix('/').unwrap_or(&request.path);
        let reads = request.method == "GET";
        if self.personality.wants_slash && reads && !request.path.ends_with('/') {
            return Reply::Whole(Whole::empty(308).with_header("Location", &format!("{path}/")));
        }
        if path != "/redfish/v1" && request.header("authorization") != Some(self.authorization.as_str()) {
            return Reply::Whole(Whole::json(401, &error("Base.1.0.NoValidSession")));
        }
        match (request.method.as_str(), fault) {
            (_, Some(Fault::Bomb)) => {
                Reply::Endless(b"HTTP/1.1 200 -\r\nConnection: close\r\n\r\n".to_vec(), vec![b'['; 16 * 1024])
            }
            (_, Some(Fault::HeaderBomb)) => {
                Reply::Endless(b"HTTP/1.1 200 -\r\nX-Filler: ".to_vec(), vec![b'x'; 16 * 1024])
            }
            ("GET", Some(Fault::Redirect(to))) => {
                Reply::Whole(Whole::empty(302).with_header("Location", &to))
            }
            ("GET", Some(Fault::Slow(wait))) => {
                Reply::Later(wait, Box::new(Reply::Whole(self.read(&state, path))))
            }
            ("GET", Some(Fault::Drip(pace))) => {
                Reply::Whole(Whole { pace: Some(pace), ..self.read(&state, path) })
            }
            ("GET", _) => Reply::Whole(self.read(&state, path)),
            ("POST", _) => self.reset(&mut state, request),
            _ => Reply::Whole(Whole::json(405, &error("Base.1.0.GeneralError"))),
        }
    }

    fn accepts(&self) -> bool {
        let state = self.lock();
        let away = state.gone_until.is_some_and(|until| Instant::now() < until);
        !away && !state.dark && state.fault != Some(Fault::Gone)
    }
}

fn error(message_id: &str) -> Value {
    json!({ "error": { "code": "Base.1.0.GeneralError", "message": "See @Message.ExtendedInfo.",
        "@Message.ExtendedInfo": [{ "MessageId": message_id }] } })
}
