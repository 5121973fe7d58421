//! One connection, used again while it lives.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apelora_http::{Answer, Connection, Endpoint, HttpError, Limits, Request, Trust, connect};
use tokio::time::Instant;

/// What an answer may cost. A page of a thousand nodes in detail is a few MiB.
const LIMITS: Limits = Limits { connect: Duration::from_secs(10), head: 64 * 1024, body: 64 * 1024 * 1024 };

/// Whether a request does harm when it arrives twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Question,
    Change,
}

/// The way to one peer.
#[derive(Debug)]
pub(crate) struct Link {
    to: Endpoint,
    trust: Trust,
    idle: Mutex<Option<Connection>>,
}

impl Link {
    pub(crate) fn new(to: Endpoint, trust: Trust) -> Self {
        Self { to, trust, idle: Mutex::new(None) }
    }

    /// Sends a request and reads its whole answer by `by`. When the peer has closed the connection of the request before,
    /// the request goes over a new one: a change only if nothing of it can have left.
    pub(crate) async fn send(&self, request: Request, kind: Kind, by: Instant) -> Result<Answer, HttpError> {
        let kept = self.idle().take();
        if let Some(mut connection) = kept
            && connection.ready(by).await
        {
            match connection.send_now(request.clone(), by).await {
                Ok(answer) => return Ok(self.keep(connection, answer)),
                Err(HttpError::NotSent(_)) => {}
                Err(HttpError::MaybeSent { status: None, .. }) if kind == Kind::Question => {}
                Err(why) => return Err(why),
            }
        }
        let mut connection = connect(&self.to, &self.trust, &LIMITS, by).await?;
        let answer = connection.send(request, by).await?;
        Ok(self.keep(connection, answer))
    }

    fn keep(&self, connection: Connection, answer: Answer) -> Answer {
        *self.idle() = Some(connection);
        answer
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
