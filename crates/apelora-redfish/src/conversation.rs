//! Talking to one BMC about one system.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_http::header::{self, HeaderValue};
use apelora_http::{Answer, Dial, HttpError, Limits, Method, Network};
use secrecy::SecretString;
use tokio::time::Instant;

use crate::link::{Link, Traffic};
use crate::resource::{Reading, computer_system, message_id};
use crate::{
    NotSent, RedfishError, Reported, ResetAnswer, SendReport, SystemChoice, SystemPath, Target, credentials,
    discovery, vendor,
};

/// The largest recorded system is 39 kB, the largest head far below 8 kB.
const LIMITS: Limits = Limits { connect: Duration::from_secs(5), head: 64 << 10, body: 1 << 20 };

/// The answer to a reset is empty or one error object.
const RESET_ANSWER: usize = 64 << 10;

/// The one thing that is ever sent: `ResetType` of the ComputerSystem schema, "turn the unit off immediately".
const FORCE_OFF: &str = r#"{"ResetType":"ForceOff"}"#;

/// A conversation with one BMC about one system.
///
/// Deadlines (`by`) are absolute and cover everything that a call does, reconnecting included.
pub struct Conversation {
    link: Link,
    system: SystemPath,
    number: u64,
    readings: u64,
    /// The reading that a send may rely on: the last one, unless it was used.
    fresh: Option<Reading>,
    may_have_sent: bool,
    vendor: Option<&'static str>,
}

impl Conversation {
    /// Connects to a BMC over the network, verifies its certificate and, unless its path is known, finds the system.
    ///
    /// The password goes into the header that each request carries, whose memory is zeroed at the end.
    ///
    /// # Errors
    /// See [`RedfishError`]. Nothing that changes power is ever sent here.
    pub async fn open(target: &Target, password: &SecretString, by: Instant) -> Result<Self, RedfishError> {
        Self::open_through(Arc::new(Network), target, password, by).await
    }

    /// As [`open`](Self::open), over streams of the caller's making; TLS stays the same.
    ///
    /// # Errors
    /// See [`RedfishError`].
    pub async fn open_through(
        dial: Arc<dyn Dial>,
        target: &Target,
        password: &SecretString,
        by: Instant,
    ) -> Result<Self, RedfishError> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let authorization = credentials::basic(&target.user, password)?;
        let mut link = Link::new(dial, target.endpoint.clone(), target.trust(), LIMITS, authorization);
        link.ready(by).await?;
        let system = match &target.system {
            SystemChoice::Path(path) => path.clone(),
            SystemChoice::Carrying(uuid) => discovery::find(&mut link, *uuid, by).await?,
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(Self { link, system, number, readings: 0, fresh: None, may_have_sent: false, vendor: None })
    }

    /// The system that this conversation is about.
    #[must_use]
    pub fn system(&self) -> &SystemPath {
        &self.system
    }

    /// The BMC's certificate in DER form, which stays the same for the whole conversation.
    #[must_use]
    pub fn certificate(&self) -> Option<&[u8]> {
        self.link.leaf()
    }

    /// The system's maker, when the first reading named a known one. Nothing depends on it.
    #[must_use]
    pub fn vendor(&self) -> Option<&'static str> {
        self.vendor
    }

    /// Whether a `ForceOff` may have reached the BMC. True from before its first byte can leave, also when the call was
    /// given up half-way; false again only when it is proven that no byte left.
    #[must_use]
    pub fn may_have_sent(&self) -> bool {
        self.may_have_sent
    }

    /// What it has cost so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.link.traffic()
    }

    /// Reads identity and power state in one answer.
    ///
    /// # Errors
    /// See [`RedfishError`]; [`is_passing`](RedfishError::is_passing) tells whether asking again makes sense.
    pub async fn read(&mut self, by: Instant) -> Result<Reported, RedfishError> {
        self.fresh = None;
        let body = self.link.read(self.system.as_str(), by).await?;
        let system = computer_system(&body, &self.system)?;
        self.readings += 1;
        if self.readings == 1 {
            self.vendor = vendor::of(&body);
        }
        let reading = Reading { conversation: self.number, count: self.readings };
        self.fresh = Some(reading);
        Ok(Reported { reading, ..system })
    }

    /// Asks the BMC to switch the system off at once: one POST, or none.
    ///
    /// `latest` must be the latest reading of this conversation, say that the system is running and not have been used
    /// before. `may_start` is asked for the last word directly before the first byte can leave, after any reconnecting;
    /// when it says no, nothing is sent. An answer is no evidence of anything: read again.
    pub async fn force_off(
        &mut self,
        latest: &Reported,
        may_start: &mut (dyn FnMut() -> bool + Send),
        by: Instant,
    ) -> SendReport {
        let target = match self.usable(latest) {
            Ok(target) => target,
            Err(why) => return SendReport::NotSent(why),
        };
        // A kept connection may turn out to be closed just when it is used. That is the only reason for a second round:
        // the first one is then proven to have sent nothing.
        let mut kept = true;
        loop {
            match self.link.ready(by).await {
                Ok(was_kept) => kept &= was_kept,
                Err(why) => return SendReport::NotSent(NotSent::Http(why)),
            }
            if !may_start() {
                return SendReport::NotSent(NotSent::Withdrawn);
            }
            let request = self
                .link
                .request(Method::Post, &target)
                .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(FORCE_OFF)
                .answer_at_most(RESET_ANSWER);
            let before = self.may_have_sent;
            self.may_have_sent = true;
            match self.link.send(request, by).await {
                Ok(answer) => return SendReport::MaybeSent(classify(&answer)),
                Err(why) if why.may_have_been_sent() => return SendReport::MaybeSent(without_body(why)),
                Err(why) => {
                    self.may_have_sent = before;
                    if !kept {
                        return SendReport::NotSent(NotSent::Http(why));
                    }
                    kept = false;
                }
            }
        }
    }

    /// Takes the reading's permission to send: it cannot be used twice.
    fn usable(&mut self, latest: &Reported) -> Result<String, NotSent> {
        if self.fresh.take() != Some(latest.reading) {
            return Err(NotSent::NotFresh);
        }
        if !latest.power.is_running() {
            return Err(NotSent::NotRunning(latest.power));
        }
        latest.reset.clone().map_err(NotSent::NoReset)
    }

    /// Ends the conversation, with a good-bye to the peer that may take until `by`.
    pub async fn close(self, by: Instant) {
        self.link.close(by).await;
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the system: a path that was found by its UUID is the BMC's own words, and may repeat the credential.
        f.debug_struct("Conversation").field("may_have_sent", &self.may_have_sent).finish_non_exhaustive()
    }
}

fn classify(answer: &Answer) -> ResetAnswer {
    of_status(answer.status, message_id(&answer.body))
}

/// The status of an answer may have come although its body did not.
fn without_body(why: HttpError) -> ResetAnswer {
    match why.status() {
        Some(status) => of_status(status, None),
        None => ResetAnswer::None(why),
    }
}

fn of_status(status: u16, message_id: Option<String>) -> ResetAnswer {
    match status {
        200..=299 => ResetAnswer::Accepted { status },
        300..=399 => ResetAnswer::Redirected { status },
        401 | 403 => ResetAnswer::Denied { status, message_id },
        _ => ResetAnswer::Rejected { status, message_id },
    }
}
