//! From a token to an identity.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apelora_http::{Dial, Limits as HttpLimits, Network};
use time::OffsetDateTime;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::api::{Api, Lapsed, Verdict};
use crate::journal::Journal;
use crate::location::Location;
use crate::memory::{Course, Key, Memory, Outcome};
use crate::own_token::{Held, OwnToken};
use crate::pool::Pool;
use crate::{
    Config, ConfigError, Identity, Invalid, Limits, OwnTrouble, Refusal, ServiceIdentity, Token, Trouble,
};

/// Largest head and body of an answer, in bytes. A token without the catalog has about 1 KiB.
const ANSWER_HEAD: usize = 32 * 1024;
const ANSWER_BODY: usize = 256 * 1024;

/// Validates tokens. Cheap to clone; the clones share connections, memory and the service's own token.
///
/// Runs inside a Tokio runtime: a question goes on when the caller who asked first goes away, because others may wait
/// for the same answer.
#[derive(Clone)]
pub struct Validator(Arc<Inner>);

struct Inner {
    location: Location,
    service_type: String,
    service_token_roles: Vec<String>,
    limits: Limits,
    api: Api,
    own: OwnToken,
    memory: Mutex<Memory>,
    running: Semaphore,
    journal: Journal,
}

/// A request whose sender is to be identified.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The value of `X-Auth-Token`.
    pub token: &'a Token,
    /// The value of `X-Service-Token`, if there is one.
    pub service_token: Option<&'a Token>,
    /// The request's method, as it came.
    pub method: &'a str,
    /// The request's path without the query, as it came: the one that the request is routed by.
    pub path: &'a str,
}

impl Validator {
    /// Reads the configuration. Keystone is not asked yet.
    ///
    /// # Errors
    /// When the configuration cannot work, with the field and the remedy.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::through(Arc::new(Network), config)
    }

    /// As [`new`](Self::new), over streams that somebody else opens.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn through(dial: Arc<dyn Dial>, config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let location = Location::read(&config.url, config.allow_plain_http)?;
        let limits = config.limits;
        let http = HttpLimits { connect: limits.connect, head: ANSWER_HEAD, body: ANSWER_BODY };
        let pool = Pool::new(dial, location.endpoint.clone(), config.trust, http, limits.concurrent);
        Ok(Self(Arc::new(Inner {
            api: Api::new(pool, &location.base, config.credentials),
            location,
            service_type: config.service_type,
            service_token_roles: config.service_token_roles,
            limits,
            own: OwnToken::new(limits.login_pause),
            memory: Mutex::new(Memory::new(limits)),
            running: Semaphore::new(limits.concurrent),
            journal: Journal::default(),
        })))
    }

    /// Keystone's address with its version, as in `https://keystone:5000/v3`.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.location.to_string()
    }

    /// Logs the service in, so that a wrong password shows at the start and not with the first client. A failure is
    /// logged; it is no reason not to start, because Keystone may come later.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] or [`Refusal::OwnCredentials`].
    pub async fn log_in(&self) -> Result<(), Refusal> {
        let by = Instant::now() + self.0.limits.decision;
        let held = self.0.own.get(&self.0.api, by).await;
        held.map(drop).inspect_err(|why| self.0.journal.undecided(why))
    }

    /// Says who sent a request, or why nobody knows. `now` is the wall clock; the decision is there by `by`, and after
    /// [`Limits::decision`] in any case.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn validate(
        &self,
        question: &Question<'_>,
        now: OffsetDateTime,
        by: Instant,
    ) -> Result<Identity, Refusal> {
        let by = by.min(Instant::now() + self.0.limits.decision);
        let service = match question.service_token {
            Some(token) => Some(self.service(token, now, by).await?),
            None => None,
        };
        let lapsed = if service.is_some() { Lapsed::Accepted } else { Lapsed::Refused };
        let user = self.known(question.token, lapsed, now, by).await?;
        // A service passes on what a user was allowed to ask of that service, which is another request than this one.
        if service.is_none() && !user.allows(&self.0.service_type, question.method, question.path) {
            return Err(Refusal::Invalid(Invalid::AccessRules));
        }
        Ok(Identity { service, ..Identity::clone(&user) })
    }

    /// Whose service token it is. Nothing of it but this counts: no scope and no role of it becomes the user's.
    async fn service(
        &self,
        token: &Token,
        now: OffsetDateTime,
        by: Instant,
    ) -> Result<ServiceIdentity, Refusal> {
        let known = self.known(token, Lapsed::Refused, now, by).await.map_err(|why| match why {
            Refusal::Invalid(_) => Refusal::Invalid(Invalid::ServiceToken),
            other => other,
        })?;
        if !known.roles.iter().any(|role| self.0.service_token_roles.contains(role)) {
            return Err(Refusal::Invalid(Invalid::ServiceRole));
        }
        Ok(ServiceIdentity::from(&*known))
    }

    async fn known(&self, token: &Token, lapsed: Lapsed, now: OffsetDateTime, by: Instant) -> Outcome {
        let key = (token.digest(), lapsed);
        loop {
            let course = self.0.memory().course(key, now);
            let (mut awaited, joined) = match course {
                Course::Decided(outcome) => {
                    if let Err(why @ Refusal::Unavailable { .. }) = &outcome {
                        self.0.journal.undecided(why);
                    }
                    return outcome;
                }
                Course::Wait(awaited) => (awaited, true),
                Course::Ask(sender, awaited) => {
                    let flight = Flight { inner: Arc::clone(&self.0), key, sender, start: Instant::now() };
                    tokio::spawn(flight.fly(token.clone(), now));
                    (awaited, false)
                }
            };
            let late = Refusal::unavailable(Trouble::Deadline);
            let outcome = match timeout_at(by, awaited.wait_for(Option::is_some)).await {
                Ok(Ok(landed)) => landed.clone(),
                Ok(Err(_)) => None,
                Err(_) => return Err(late),
            };
            match outcome {
                // Whoever asked first had less time left.
                Some(Err(why)) if joined && why == late && Instant::now() < by => {}
                Some(outcome) => return outcome,
                None => return Err(Refusal::unavailable(Trouble::GivenUp)),
            }
        }
    }
}

impl Inner {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(self: &Arc<Self>, token: &Token, lapsed: Lapsed, by: Instant) -> Result<Identity, Refusal> {
        let late = |_| Refusal::unavailable(Trouble::Deadline);
        let _permit = timeout_at(by, self.running.acquire()).await.map_err(late)?;
        let own = self.own.get(&self.api, by).await?;
        self.renew_early();
        let verdict = self.once(&own, token, lapsed, by).await?;
        let verdict = match verdict {
            // It may have been revoked, or Keystone's keys were rotated twice.
            Verdict::OwnTokenRefused => {
                let own = self.own.newer_than(own.generation, &self.api, by).await?;
                self.once(&own, token, lapsed, by).await?
            }
            decided => decided,
        };
        let own_trouble = |why| Refusal::OwnCredentials { why, retry_after: crate::refusal::COME_AGAIN };
        match verdict {
            Verdict::Valid(identity) => Ok(*identity),
            Verdict::Unknown => Err(Refusal::Invalid(Invalid::Unknown)),
            Verdict::OwnTokenRefused => Err(own_trouble(OwnTrouble::TokenRefused)),
            Verdict::OwnTokenForbidden => Err(own_trouble(OwnTrouble::Forbidden)),
        }
    }

    async fn once(&self, own: &Held, token: &Token, lapsed: Lapsed, by: Instant) -> Result<Verdict, Refusal> {
        self.api.validate(&own.token, token, lapsed, by).await.map_err(Refusal::unavailable)
    }

    /// Renews our own token beside the requests, while the old one still lives.
    fn renew_early(self: &Arc<Self>) {
        let Some(generation) = self.own.due() else { return };
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let by = Instant::now() + inner.limits.decision;
            if let Err(why) = inner.own.newer_than(generation, &inner.api, by).await {
                tracing::warn!(code = why.code(), "our own Keystone token is not renewed yet: {why}");
            }
        });
    }
}

/// One question to Keystone, for all who wait for its answer.
struct Flight {
    inner: Arc<Inner>,
    key: Key,
    sender: watch::Sender<Option<Outcome>>,
    start: Instant,
}

impl Flight {
    async fn fly(self, token: Token, now: OffsetDateTime) {
        let (_, lapsed) = self.key;
        let asked = self.inner.ask(&token, lapsed, self.start + self.inner.limits.decision).await;
        match &asked {
            Ok(_) | Err(Refusal::Invalid(_)) => self.inner.journal.decided(),
            Err(why) => self.inner.journal.undecided(why),
        }
        let expired = |identity: &Identity| {
            lapsed == Lapsed::Refused && identity.expires_at <= now + self.start.elapsed()
        };
        let outcome = match asked {
            Ok(identity) if expired(&identity) => {
                tracing::warn!(
                    "Keystone calls a token valid that expired by this host's clock: compare the clocks"
                );
                Err(Refusal::Invalid(Invalid::Expired))
            }
            other => other.map(Arc::new),
        };
        self.inner.memory().land(self.key, &outcome, self.start);
        // Nobody may wait any more.
        self.sender.send_replace(Some(outcome));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Given up with the runtime, or by a panic: nobody may wait for it.
        if self.sender.borrow().is_none() {
            let given_up = Err(Refusal::unavailable(Trouble::GivenUp));
            self.inner.memory().land(self.key, &given_up, self.start);
        }
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("url", &self.url()).finish_non_exhaustive()
    }
}
