//! A few connections to Keystone that are used again.
//!
//! Each is owned by one request at a time; there are never more than requests at one time, and no task keeps them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apelora_http::{Answer, Connection, Dial, Endpoint, HttpError, Limits, Request, Trust, connect_through};
use tokio::time::{Instant, sleep_until};

use crate::Trouble;

/// A connection that was not used for so long is not used again: most servers have closed it by then.
const IDLE: Duration = Duration::from_secs(30);

/// The pause before the second and last try to connect.
const SECOND_TRY: Duration = Duration::from_millis(100);

pub(crate) struct Pool {
    dial: Arc<dyn Dial>,
    to: Endpoint,
    trust: Trust,
    limits: Limits,
    /// How many connections are kept for the next request.
    keep: usize,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl Pool {
    pub(crate) fn new(dial: Arc<dyn Dial>, to: Endpoint, trust: Trust, limits: Limits, keep: usize) -> Self {
        Self { dial, to, trust, limits, keep, idle: Mutex::new(Vec::new()) }
    }

    /// Sends a request that does no harm when it arrives twice, and reads the whole answer by `by`.
    ///
    /// A connection that was used before may have been closed by the peer at this very moment; then the request is sent
    /// once more, on a new connection. Nothing else is sent twice.
    pub(crate) async fn send(&self, request: Request, by: Instant) -> Result<Answer, Trouble> {
        if let Some(mut connection) = self.used_before(by).await {
            match connection.send(request.clone(), by).await {
                Ok(answer) => return Ok(self.keep(connection, answer)),
                Err(why) => {
                    // What befell this one has befallen the others that wait, or will.
                    self.idle().clear();
                    if !was_closed(&why) {
                        return Err(why.into());
                    }
                }
            }
        }
        let mut connection = self.connect(by).await?;
        let answer = connection.send(request, by).await?;
        Ok(self.keep(connection, answer))
    }

    async fn used_before(&self, by: Instant) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.idle().pop()?;
            if Instant::now() < since + IDLE && connection.ready(by).await {
                return Some(connection);
            }
        }
    }

    async fn connect(&self, by: Instant) -> Result<Connection, HttpError> {
        let first = connect_through(&*self.dial, &self.to, &self.trust, &self.limits, by).await;
        // A refused certificate is refused again.
        let Err(HttpError::NotSent(_) | HttpError::Deadline { .. }) = first else { return first };
        let again = Instant::now() + SECOND_TRY;
        if again >= by {
            return first;
        }
        sleep_until(again).await;
        connect_through(&*self.dial, &self.to, &self.trust, &self.limits, by).await
    }

    fn keep(&self, connection: Connection, answer: Answer) -> Answer {
        let mut idle = self.idle();
        if idle.len() < self.keep {
            idle.push((connection, Instant::now()));
        }
        answer
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Connection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn was_closed(why: &HttpError) -> bool {
    match why {
        HttpError::NotSent(_) => true,
        HttpError::MaybeSent { status, .. } => status.is_none(),
        _ => false,
    }
}
