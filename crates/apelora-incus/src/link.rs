//! The one connection of a client.

use std::sync::Arc;
use std::time::Duration;

use apelora_http::{
    Answer, Cause, ClientIdentity, Connection, ConnectionId, Dial, Endpoint, HttpError, Limits, Request,
    Trust, connect_as,
};
use tokio::time::Instant;

use crate::ask::LARGEST;

/// What a server may cost. Each request has a smaller limit for its body.
const LIMITS: Limits = Limits { connect: Duration::from_secs(5), head: 64 << 10, body: LARGEST };

/// Where and how a client connects.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) endpoint: Endpoint,
    pub(crate) trust: Trust,
    pub(crate) identity: Option<Arc<ClientIdentity>>,
}

impl Way {
    async fn open(&self, by: Instant) -> Result<Connection, HttpError> {
        connect_as(&*self.dial, &self.endpoint, &self.trust, self.identity.as_deref(), &LIMITS, by).await
    }
}

/// Keeps the connection and opens it again.
#[derive(Default)]
pub(crate) struct Link {
    connection: Option<Connection>,
}

impl Link {
    /// Sends a request and reads its answer.
    ///
    /// A kept connection may turn out to be closed. Then a request of which nothing was sent is sent on a new one,
    /// once; and so is a read that got no answer at all.
    pub(crate) async fn exchange(
        &mut self,
        way: &Way,
        request: Request,
        is_read: bool,
        by: Instant,
    ) -> Result<(Answer, ConnectionId), HttpError> {
        if let Some(mut kept) = self.connection.take()
            && kept.ready(by).await
        {
            match kept.send_now(request.clone(), by).await {
                Err(HttpError::NotSent(_)) => {}
                Err(HttpError::MaybeSent { cause: Cause::Closed | Cause::Io(_), status: None })
                    if is_read => {}
                other => return self.keep(kept, other),
            }
        }
        let mut fresh = way.open(by).await?;
        let answer = fresh.send(request, by).await;
        self.keep(fresh, answer)
    }

    /// Keeps a connection only after a whole answer.
    fn keep(
        &mut self,
        connection: Connection,
        answer: Result<Answer, HttpError>,
    ) -> Result<(Answer, ConnectionId), HttpError> {
        let answer = answer?;
        let id = connection.id();
        self.connection = Some(connection);
        Ok((answer, id))
    }
}
