//! The way to one BMC: one connection at a time, always to the same peer.

use std::sync::Arc;

use apelora_http::header::{self, HeaderName, HeaderValue};
use apelora_http::{
    Answer, Cause, Connection, Dial, Endpoint, HttpError, Limits, Method, Request, TlsRefusal, Trust, Uri,
    connect_through,
};
use bytes::Bytes;
use tokio::time::Instant;

use crate::RedfishError;
use crate::resource::message_id;

/// DSP0266 section 6.5: the header every request should carry.
const ODATA_VERSION: HeaderName = HeaderName::from_static("odata-version");

/// What a conversation has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections made, each with one TLS handshake.
    pub connections: u32,
    /// Requests, also those that were not or only half sent.
    pub requests: u32,
    /// Bytes received after TLS.
    pub received: u64,
}

/// Opens, checks and re-opens the connection, and writes the headers.
pub(crate) struct Link {
    dial: Arc<dyn Dial>,
    endpoint: Endpoint,
    trust: Trust,
    limits: Limits,
    authorization: HeaderValue,
    connection: Option<Connection>,
    leaf: Option<Vec<u8>>,
    /// Whether this BMC wants its paths with a trailing slash; learnt from a redirect.
    slash: bool,
    past: Traffic,
}

impl Link {
    pub(crate) fn new(
        dial: Arc<dyn Dial>,
        endpoint: Endpoint,
        trust: Trust,
        limits: Limits,
        authorization: HeaderValue,
    ) -> Self {
        let past = Traffic::default();
        Self {
            dial,
            endpoint,
            trust,
            limits,
            authorization,
            connection: None,
            leaf: None,
            slash: false,
            past,
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let now = self.connection.as_ref().map_or(0, Connection::received);
        Traffic { received: self.past.received + now, ..self.past }
    }

    /// The peer's certificate in DER form.
    pub(crate) fn leaf(&self) -> Option<&[u8]> {
        self.leaf.as_deref()
    }

    /// Makes sure that a request can be sent: keeps the connection, or opens a new one to the same peer. `true` when it
    /// was kept.
    pub(crate) async fn ready(&mut self, by: Instant) -> Result<bool, HttpError> {
        if let Some(connection) = &mut self.connection
            && connection.ready(by).await
        {
            return Ok(true);
        }
        self.drop_connection();
        let fresh = connect_through(&*self.dial, &self.endpoint, &self.trust, &self.limits, by).await?;
        self.past.connections += 1;
        self.same_peer(&fresh)?;
        self.connection = Some(fresh);
        Ok(false)
    }

    /// The first connection fixes who the peer is. Later ones go to the same address and must show the same
    /// certificate: a name that resolves anew, or an address given to another machine, must not turn an identity read
    /// from one BMC into a command to another.
    fn same_peer(&mut self, fresh: &Connection) -> Result<(), HttpError> {
        match (&self.leaf, fresh.leaf()) {
            (None, leaf) => {
                self.leaf = leaf.map(<[u8]>::to_vec);
                if let Some(address) = fresh.peer() {
                    self.endpoint = self.endpoint.only_at(address);
                }
                Ok(())
            }
            (Some(first), Some(now)) if first == now => Ok(()),
            (Some(_), _) => Err(HttpError::Tls(TlsRefusal::Changed)),
        }
    }

    fn drop_connection(&mut self) {
        if let Some(old) = self.connection.take() {
            self.past.received += old.received();
        }
    }

    /// Reads a resource: the body of a 200. One redirect is followed when it only adds or drops the trailing slash.
    pub(crate) async fn read(&mut self, path: &str, by: Instant) -> Result<Bytes, RedfishError> {
        let mut answer = self.get(&self.slashed(path), by).await?;
        if is_redirect(answer.status) && self.toggles_slash(path, &answer) {
            self.slash = !self.slash;
            answer = self.get(&self.slashed(path), by).await?;
        }
        match answer.status {
            200 => Ok(answer.body),
            status @ (401 | 403) => Err(RedfishError::Auth { status, message_id: message_id(&answer.body) }),
            status if is_redirect(status) => Err(RedfishError::Redirect { status, path: path.to_owned() }),
            status => Err(RedfishError::Status {
                status,
                path: path.to_owned(),
                message_id: message_id(&answer.body),
            }),
        }
    }

    fn slashed(&self, path: &str) -> String {
        if self.slash { format!("{path}/") } else { path.to_owned() }
    }

    /// Whether a redirect leads to this origin and to the same path with the slash that was missing, or without the one
    /// that was there.
    fn toggles_slash(&self, path: &str, answer: &Answer) -> bool {
        let location = answer.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let Some(to) = location.and_then(|text| text.parse::<Uri>().ok()) else { return false };
        let same_origin = to.authority().is_none() || self.endpoint.is_origin_of(&to);
        let wanted = if self.slash { path.to_owned() } else { format!("{path}/") };
        same_origin && to.query().is_none() && to.path() == wanted
    }

    /// Gets an answer. BMCs close kept connections without notice; a read that got no answer for that reason is
    /// repeated once on a new connection.
    async fn get(&mut self, path: &str, by: Instant) -> Result<Answer, HttpError> {
        let kept = self.ready(by).await?;
        let first = self.send(self.request(Method::Get, path), by).await;
        match first {
            Err(
                HttpError::MaybeSent { cause: Cause::Closed | Cause::Io(_), status: None }
                | HttpError::NotSent(_),
            ) if kept => {
                self.drop_connection();
                self.ready(by).await?;
                self.send(self.request(Method::Get, path), by).await
            }
            other => other,
        }
    }

    /// A request with every header that Redfish wants.
    pub(crate) fn request(&self, method: Method, path: &str) -> Request {
        Request::new(method, path)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::ACCEPT, HeaderValue::from_static("application/json"))
            .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
            .header(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))
            .header(ODATA_VERSION, HeaderValue::from_static("4.0"))
    }

    /// Sends on the connection that [`ready`](Self::ready) has prepared, with the first poll.
    pub(crate) async fn send(&mut self, request: Request, by: Instant) -> Result<Answer, HttpError> {
        self.past.requests += 1;
        match &mut self.connection {
            Some(connection) => connection.send_now(request, by).await,
            None => Err(HttpError::NotSent(Cause::Closed)),
        }
    }

    /// Says good-bye to the peer, at the latest by `by`.
    pub(crate) async fn close(mut self, by: Instant) {
        if let Some(connection) = self.connection.take() {
            connection.close(by).await;
        }
    }
}

fn is_redirect(status: u16) -> bool {
    (300..400).contains(&status)
}
