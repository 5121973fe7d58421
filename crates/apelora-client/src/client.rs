//! The client: who asks, whom, at which version, and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use apelora_http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use apelora_http::{Answer, HttpError, Method, Request, Trust};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::address::Address;
use crate::auth::{LogIn, basic_header, token_header};
use crate::link::{Kind, Link};
use crate::{Auth, ClientError, Refusal, Retry, Version, keystone};

const VERSION: HeaderName = HeaderName::from_static("x-openstack-ironic-api-version");
const MINIMUM: HeaderName = HeaderName::from_static("x-openstack-ironic-api-minimum-version");
const MAXIMUM: HeaderName = HeaderName::from_static("x-openstack-ironic-api-maximum-version");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("apelora/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What `apelora server` listens on unless it is told otherwise.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:6385";

/// Everything but RFC 3986's unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Items on each page of a list; the server's own limit may be lower.
const PAGE: usize = 1000;

/// What a client is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the API. `None`: the one of Keystone's catalogue, or without Keystone the usual one on this host.
    pub endpoint: Option<String>,
    /// How the caller proves who it is.
    pub auth: Auth,
    /// Which certificates are believed, of the API and of Keystone.
    pub trust: Trust,
    /// Whether `http` is accepted for other hosts than this one.
    pub plain_http: bool,
    /// How long one request may take, with everything that belongs to it.
    pub timeout: Duration,
    /// When a refused request is sent again.
    pub retry: Retry,
}

impl Default for Config {
    /// The usual address on this host, asking for nothing, one minute for each request.
    fn default() -> Self {
        Self {
            endpoint: None,
            auth: Auth::None,
            trust: Trust::SystemRoots,
            plain_http: false,
            timeout: Duration::from_secs(60),
            retry: Retry::default(),
        }
    }
}

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    config: Config,
    /// The configured address, read.
    configured: Option<Address>,
    /// Keystone's address, if it is used.
    keystone: Option<Address>,
    session: Mutex<Option<Arc<Session>>>,
    /// The version that requests ask for, its minor number.
    version: AtomicU16,
}

/// Where to, and as whom. Found out with the first request.
#[derive(Debug)]
struct Session {
    address: Address,
    link: Link,
    credential: Option<(HeaderName, HeaderValue)>,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    /// Path and query below the address.
    path: String,
    body: Bytes,
    needs: Option<&'static str>,
}

impl Call {
    pub(crate) fn new(method: Method, path: String) -> Self {
        Self { method, path, body: Bytes::new(), needs: None }
    }

    /// With a body.
    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, ClientError> {
        self.body = serde_json::to_vec(body)
            .map_err(|why| ClientError::Input(format!("the request cannot be written: {why}")))?
            .into();
        Ok(self)
    }

    /// Only for servers with typed entries; `what` says what the others lack.
    pub(crate) fn needs_entries(mut self, what: &'static str) -> Self {
        self.needs = Some(what);
        self
    }

    fn kind(&self) -> Kind {
        if self.method == Method::Get { Kind::Question } else { Kind::Change }
    }
}

/// The arguments of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, SEGMENT));
    }

    /// What stands behind the path.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// One page of a list.
pub(crate) trait Page: DeserializeOwned {
    /// What is listed.
    type Item;

    /// The items, and whether more may follow.
    fn into_parts(self) -> (Vec<Self::Item>, bool);

    /// What the next page begins behind.
    fn marker(item: &Self::Item) -> Option<&str>;
}

impl Client {
    /// A client. Nothing is sent before the first request.
    ///
    /// # Errors
    /// An address that cannot be used.
    pub fn new(config: Config) -> Result<Self, ClientError> {
        let keystone = match &config.auth {
            Auth::Keystone(login) => Some(keystone::address(login, config.plain_http)?),
            _ => None,
        };
        let configured = match (config.endpoint.as_deref(), &keystone) {
            (Some(url), _) => Some(api_address("endpoint", url, config.plain_http)?),
            (None, None) => Some(api_address("endpoint", DEFAULT_ENDPOINT, false)?),
            (None, Some(_)) => None,
        };
        Ok(Self {
            config,
            configured,
            keystone,
            session: Mutex::new(None),
            version: AtomicU16::new(Version::MAX.minor()),
        })
    }

    /// All items of a list, page by page. The filters of the query are kept, whatever the server's own link says.
    pub(crate) async fn pages<P: Page>(
        &self,
        mut call: Call,
        query: &Query,
    ) -> Result<Vec<P::Item>, ClientError> {
        let path = std::mem::take(&mut call.path);
        let mut items: Vec<P::Item> = Vec::new();
        loop {
            let mut query = query.clone();
            query.push("limit", &PAGE.to_string());
            if let Some(last) = items.last() {
                let marker =
                    P::marker(last).ok_or_else(|| ClientError::Answer("an item without uuid".to_owned()))?;
                query.push("marker", marker);
            }
            call.path = format!("{path}{}", query.0);
            let (more, follow) = decode::<P>(&self.call(&call).await?)?.into_parts();
            // A server that ignores the marker would be asked for ever.
            if let (Some(before), Some(now)) = (items.last(), more.last())
                && P::marker(before) == P::marker(now)
            {
                return Err(ClientError::Answer("the same page twice".to_owned()));
            }
            let done = more.is_empty() || !follow;
            items.extend(more);
            if done {
                return Ok(items);
            }
        }
    }

    /// Sends a request until there is an answer that counts. Everything but success is an error.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, ClientError> {
        let began = Instant::now();
        let mut made = 0;
        let mut renewed = false;
        loop {
            let session = self.session().await?;
            let version = Version::new(self.version.load(Ordering::Relaxed));
            if let Some(what) = call.needs.filter(|_| version < Version::TYPED_MAINTENANCE) {
                return Err(ClientError::Version {
                    what,
                    needed: Version::TYPED_MAINTENANCE,
                    served: version,
                });
            }
            let answer = self.exchange(&session, call, version).await?;
            made += 1;
            match answer.status {
                200..=299 => return Ok(answer),
                406 if self.lower(&answer, version)? => continue,
                // The token has expired or was revoked.
                401 if self.keystone.is_some() && !renewed => {
                    renewed = true;
                    *self.session.lock().await = None;
                    continue;
                }
                _ => {}
            }
            let refusal = Refusal::of(&answer);
            let again = refusal.is_lock() || refusal.status == 503 && nothing_done(call, &refusal);
            let pause = self.config.retry.next(made, began.elapsed(), refusal.retry_after).filter(|_| again);
            let Some(pause) = pause else { return Err(ClientError::Refused(refusal)) };
            sleep(pause).await;
        }
    }

    async fn exchange(
        &self,
        session: &Session,
        call: &Call,
        version: Version,
    ) -> Result<Answer, ClientError> {
        let path = format!("{}{}", session.address.base, call.path);
        let mut request = Request::new(call.method, &path)
            .header(ACCEPT, JSON)
            .header(USER_AGENT, AGENT)
            .header(VERSION, version.header()?)
            .body(call.body.clone());
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        if let Some((name, value)) = &session.credential {
            request = request.header(name.clone(), value.clone());
        }
        let by = Instant::now() + self.config.timeout;
        let answer = session.link.send(request, call.kind(), by).await;
        answer.map_err(|why| no_answer(&session.address, call.kind(), why))
    }

    /// Goes down to the server's highest version; `false` when that would change nothing.
    fn lower(&self, answer: &Answer, asked: Version) -> Result<bool, ClientError> {
        let told = |name| {
            answer.headers.get(name).and_then(|value: &HeaderValue| Version::read(value.to_str().ok()?))
        };
        if let Some(lowest) = told(MINIMUM).filter(|lowest| *lowest > Version::MAX) {
            return Err(ClientError::TooNew { lowest });
        }
        let Some(highest) = told(MAXIMUM).filter(|highest| *highest < asked) else { return Ok(false) };
        self.version.store(highest.minor(), Ordering::Relaxed);
        Ok(true)
    }

    /// Where to and as whom; logs in if that is how.
    async fn session(&self) -> Result<Arc<Session>, ClientError> {
        let mut session = self.session.lock().await;
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let (address, credential) = match &self.config.auth {
            Auth::None => (self.configured(), None),
            Auth::HttpBasic { user, password } => (self.configured(), Some(basic_header(user, password)?)),
            Auth::Token(token) => (self.configured(), Some(token_header(token.expose_secret().as_bytes())?)),
            Auth::Keystone(login) => {
                let logged_in = self.log_in(login).await?;
                let address = match &self.configured {
                    Some(configured) => Some(configured.clone()),
                    None => Some(api_address(
                        "the address of `baremetal` in Keystone's catalogue",
                        logged_in.endpoint(login)?,
                        self.config.plain_http,
                    )?),
                };
                (address, Some(logged_in.credential))
            }
        };
        let address =
            address.ok_or_else(|| ClientError::Setting("endpoint: not set; give --endpoint".to_owned()))?;
        let link = Link::new(address.endpoint.clone(), self.config.trust.clone());
        let new = Arc::new(Session { address, link, credential });
        *session = Some(Arc::clone(&new));
        Ok(new)
    }

    fn configured(&self) -> Option<Address> {
        self.configured.clone()
    }

    async fn log_in(&self, login: &LogIn) -> Result<keystone::LoggedIn, ClientError> {
        let at = match &self.keystone {
            Some(at) => at.clone(),
            None => keystone::address(login, self.config.plain_http)?,
        };
        let request = keystone::request(&at, login)?.header(USER_AGENT, AGENT);
        let by = Instant::now() + self.config.timeout;
        // A second token does no harm.
        let link = Link::new(at.endpoint.clone(), self.config.trust.clone());
        let answer = link
            .send(request, Kind::Question, by)
            .await
            .map_err(|why| no_answer(&at, Kind::Question, why))?;
        keystone::read(&answer, &at)
    }
}

fn api_address(setting: &str, url: &str, plain_http: bool) -> Result<Address, ClientError> {
    Ok(Address::read(setting, url, plain_http)?.without("v1"))
}

/// Whether a refusal for the moment is sure to have changed nothing: the request was a question, or the server asks to be
/// tried again. Without that it may have lost sight of a change, as a proxy does.
fn nothing_done(call: &Call, refusal: &Refusal) -> bool {
    call.kind() == Kind::Question || refusal.retry_after.is_some()
}

fn no_answer(from: &Address, kind: Kind, why: HttpError) -> ClientError {
    let url = from.to_string();
    match kind {
        _ if !why.may_have_been_sent() => ClientError::NotReached { url, why },
        Kind::Question => ClientError::Unanswered { url, why },
        Kind::Change => ClientError::Unknown { url, why },
    }
}

/// The body of an answer.
pub(crate) fn decode<T: DeserializeOwned>(answer: &Answer) -> Result<T, ClientError> {
    serde_json::from_slice(&answer.body).map_err(|why| ClientError::Answer(why.to_string()))
}

/// The path of a node, by name or uuid.
pub(crate) fn node_path(node: &str) -> Result<String, ClientError> {
    Ok(format!("/v1/nodes/{}", segment("the node", node)?))
}

/// One segment of a path. What is no name of anything would change the meaning of the path.
pub(crate) fn segment(what: &str, text: &str) -> Result<String, ClientError> {
    match text {
        "" | "." | ".." => Err(ClientError::Input(format!("{what}: `{text}` is neither a name nor a uuid"))),
        _ => Ok(utf8_percent_encode(text, SEGMENT).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(node_path("rack1-n1").unwrap(), "/v1/nodes/rack1-n1");
        assert_eq!(node_path("a/../b?x#é ").unwrap(), "/v1/nodes/a%2F..%2Fb%3Fx%23%C3%A9%20");
        for none in ["", ".", ".."] {
            assert!(node_path(none).is_err(), "{none}");
        }
    }

    #[test]
    fn arguments_are_escaped() {
        let mut query = Query::default();
        query.push("owner", "a&b=c");
        query.push("limit", "2");
        assert_eq!(query.0, "?owner=a%26b%3Dc&limit=2");
    }
}
