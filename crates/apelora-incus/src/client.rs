//! The calls.

use std::sync::Arc;
use std::time::Duration;

use apelora_http::{ClientIdentity, ConnectionId, Dial, Endpoint, HttpError, Network, Step, Trust};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::ask::Ask;
use crate::envelope::{self, Content, wrong};
use crate::error::{IncusError, Problem, Refusal};
use crate::instance::RawInstance;
use crate::link::{Link, Way};
use crate::member::MemberState;
use crate::operation::Operation;
use crate::server::RawServer;
use crate::strict::Object;
use crate::{Ended, Instance, Member, MemberResources, OperationId, Pool, Server, View};

/// Longest single wait for an operation (section 6, rule 4).
const SLICE: Duration = Duration::from_secs(30);

/// How much longer than its own time a wait's answer may take.
const SLICE_MARGIN: Duration = Duration::from_secs(5);

/// Shortest time between two waits for the same operation.
const PAUSE: Duration = Duration::from_secs(1);

/// Larger answers are read on a thread that may block, in bytes.
const LARGE: usize = 256 << 10;

/// A client for one endpoint, with one connection.
///
/// Calls that are made at the same time wait for each other. All deadlines are absolute and include that wait.
pub struct Client {
    way: Way,
    link: Mutex<Link>,
}

impl Client {
    /// A client over the network. `trust` and `identity` are for HTTPS; a Unix socket has its file permissions.
    /// Nothing is sent before the first call.
    #[must_use]
    pub fn new(endpoint: Endpoint, trust: Trust, identity: Option<Arc<ClientIdentity>>) -> Self {
        Self::through(Arc::new(Network), endpoint, trust, identity)
    }

    /// A client whose streams somebody else opens.
    #[must_use]
    pub fn through(
        dial: Arc<dyn Dial>,
        endpoint: Endpoint,
        trust: Trust,
        identity: Option<Arc<ClientIdentity>>,
    ) -> Self {
        Self { way: Way { dial, endpoint, trust, identity }, link: Mutex::default() }
    }

    /// A client for the same endpoint with a connection of its own, for calls that must not wait for this one's.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { way: self.way.clone(), link: Mutex::default() }
    }

    /// Where it connects to.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.way.endpoint
    }

    /// Who answers, by its own word.
    ///
    /// # Errors
    /// [`IncusError`]; [`Refusal::Untrusted`] also when the server answers what it answers to everybody.
    pub async fn server(&self, by: Instant) -> Result<Server, IncusError> {
        Ok(self.server_over(by).await?.0)
    }

    /// The member list, as the member that answers sees it.
    ///
    /// # Errors
    /// [`IncusError`].
    pub async fn members(&self, by: Instant) -> Result<Vec<Member>, IncusError> {
        Ok(self.members_over(by).await?.0)
    }

    /// The member list and the name of the member that gave it, over one connection: behind one address there may be
    /// several members.
    ///
    /// # Errors
    /// [`IncusError`]; [`Refusal::NotClustered`] when the server is alone; [`Problem::ConnectionChanged`] when the
    /// connection broke between the two, in which case the next call may succeed.
    pub async fn view(&self, by: Instant) -> Result<View, IncusError> {
        let (server, first) = self.server_over(by).await?;
        if !server.clustered {
            let text = format!("{} is not part of a cluster", server.name);
            let refused = Problem::Refused { kind: Refusal::NotClustered, code: 500, text };
            return Err(self.failed(Ask::Server, refused));
        }
        let (members, second) = self.members_over(by).await?;
        if first != second {
            return Err(self.failed(Ask::Members, Problem::ConnectionChanged));
        }
        Ok(View { server, members })
    }

    /// What a member has and uses. The request is forwarded to it, and hangs for 10 s and more when it is dead but
    /// not yet Offline; an error is no evidence of anything.
    ///
    /// # Errors
    /// [`IncusError`].
    pub async fn member_state(&self, name: &str, by: Instant) -> Result<MemberResources, IncusError> {
        let state = self.object::<MemberState>(Ask::MemberState { member: name }, by).await?.0;
        Ok(state.into())
    }

    /// All instances of all projects that this client may see. Hangs for up to 30 s while a member is dead and not
    /// yet Offline.
    ///
    /// # Errors
    /// [`IncusError`].
    pub async fn instances(&self, by: Instant) -> Result<Vec<Instance>, IncusError> {
        self.all_instances(false, by).await
    }

    /// As [`instances`](Self::instances), with [`Instance::has_backups`]. The server asks every instance for its
    /// state for this, so it costs much more.
    ///
    /// # Errors
    /// [`IncusError`].
    pub async fn instances_in_full(&self, by: Instant) -> Result<Vec<Instance>, IncusError> {
        self.all_instances(true, by).await
    }

    /// One instance. It must be the one that was asked for.
    ///
    /// # Errors
    /// [`IncusError`]; [`Refusal::NotFound`] when there is none.
    pub async fn instance(&self, project: &str, name: &str, by: Instant) -> Result<Instance, IncusError> {
        let ask = Ask::Instance { project, name };
        let instance = self.object::<RawInstance>(ask, by).await?.0;
        let instance = instance.read_one().map_err(|why| self.failed(ask, why))?;
        if (instance.project.as_str(), instance.name.as_str()) != (project, name) {
            let other = format!("it is {}/{}", instance.project, instance.name);
            return Err(self.failed(ask, wrong("metadata", other)));
        }
        Ok(instance)
    }

    /// All storage pools. A restricted client certificate may not see them ([`Refusal::Restricted`]).
    ///
    /// # Errors
    /// [`IncusError`].
    pub async fn pools(&self, by: Instant) -> Result<Vec<Pool>, IncusError> {
        Ok(self.objects(Ask::Pools, by).await?.0)
    }

    /// Asks for an instance to be moved to a member, in the database: it must not run, or its member must be Offline.
    /// Nothing is proven by it, and no lock or power state is looked at by the server.
    ///
    /// # Errors
    /// [`IncusError`]; see [`IncusError::may_have_been_sent`].
    pub async fn move_instance(
        &self,
        project: &str,
        name: &str,
        target: &str,
        by: Instant,
    ) -> Result<OperationId, IncusError> {
        self.accepted(Ask::Move { project, name, target }, by).await
    }

    /// Asks for an instance to be started where it is.
    ///
    /// # Errors
    /// [`IncusError`]; see [`IncusError::may_have_been_sent`].
    pub async fn start_instance(
        &self,
        project: &str,
        name: &str,
        by: Instant,
    ) -> Result<OperationId, IncusError> {
        self.accepted(Ask::Start { project, name }, by).await
    }

    /// Waits until an operation has ended, in slices of 30 s at most.
    ///
    /// # Errors
    /// [`Problem::StillRunning`] when it has not by `by`; any other [`IncusError`] when the server cannot say. Like
    /// [`Ended::Unknown`], neither is a failure of the operation: read the instance again.
    pub async fn wait(&self, operation: &OperationId, by: Instant) -> Result<Ended, IncusError> {
        loop {
            let asked = Instant::now();
            let left = by.saturating_duration_since(asked);
            // Whole seconds only, and some of the time is for the answer's way.
            let seconds = left.saturating_sub(Duration::from_secs(1)).min(SLICE).as_secs();
            let ask = Ask::Wait { operation, seconds };
            if seconds == 0 {
                let ended = self.itself(operation, None, by).await?;
                return ended.ok_or_else(|| self.failed(ask, Problem::StillRunning));
            }
            let end = by.min(asked + Duration::from_secs(seconds) + SLICE_MARGIN);
            let ended = match self.object::<Operation>(ask, end).await {
                Ok((shown, _)) => self.end_of(ask, operation, &shown)?,
                // That the operation failed, that the wait's time was over, or that there is no such operation: only
                // the operation itself tells.
                Err(why) => match (why.refusal(), why.code()) {
                    (Some(Refusal::Untrusted | Refusal::Restricted) | None, _) | (_, None) => {
                        return Err(why);
                    }
                    (Some(_), code) => self.itself(operation, code, end).await?,
                },
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
            // A server that does not wait must not be asked as fast as it answers.
            sleep_until(by.min(asked + PAUSE)).await;
        }
    }

    /// Asks how an operation ended, without waiting. A failure gets the code that the wait had, which says more.
    async fn itself(
        &self,
        operation: &OperationId,
        code: Option<u64>,
        by: Instant,
    ) -> Result<Option<Ended>, IncusError> {
        let ask = Ask::Operation(operation);
        let ended = match self.object::<Operation>(ask, by).await {
            Ok((shown, _)) => self.end_of(ask, operation, &shown)?,
            Err(why) if why.refusal() == Some(Refusal::NotFound) => Some(Ended::Unknown),
            Err(why) => return Err(why),
        };
        Ok(match (ended, code) {
            (Some(Ended::Failed { text, .. }), Some(code)) => Some(Ended::Failed { code, text }),
            (ended, _) => ended,
        })
    }

    fn end_of(
        &self,
        ask: Ask<'_>,
        operation: &OperationId,
        shown: &Operation,
    ) -> Result<Option<Ended>, IncusError> {
        if shown.id != operation.uuid() {
            return Err(self.failed(ask, wrong("metadata.id", "it is another operation")));
        }
        Ok(shown.ended())
    }

    async fn server_over(&self, by: Instant) -> Result<(Server, ConnectionId), IncusError> {
        let (raw, id) = self.object::<RawServer>(Ask::Server, by).await?;
        let server = Server::try_from(raw).map_err(|why| self.failed(Ask::Server, why))?;
        Ok((server, id))
    }

    async fn members_over(&self, by: Instant) -> Result<(Vec<Member>, ConnectionId), IncusError> {
        let (members, id) = self.objects::<Member>(Ask::Members, by).await?;
        for (at, member) in members.iter().enumerate() {
            if member.name.is_empty() {
                let field = format!("metadata[{at}].server_name");
                return Err(self.failed(Ask::Members, wrong(&field, "it is empty")));
            }
        }
        Ok((members, id))
    }

    async fn all_instances(&self, full: bool, by: Instant) -> Result<Vec<Instance>, IncusError> {
        let ask = Ask::Instances { full };
        let all = self.sync::<Vec<Object<RawInstance>>>(ask, by).await?.0;
        RawInstance::read_all(all, full).map_err(|why| self.failed(ask, why))
    }

    async fn accepted(&self, ask: Ask<'_>, by: Instant) -> Result<OperationId, IncusError> {
        match self.ask::<serde::de::IgnoredAny>(ask, by).await?.0 {
            Content::Async(operation) => Ok(operation),
            Content::Sync(_) => Err(self.failed(ask, wrong("type", "sync, where async was expected"))),
        }
    }

    async fn object<T: DeserializeOwned + Send + 'static>(
        &self,
        ask: Ask<'_>,
        by: Instant,
    ) -> Result<(T, ConnectionId), IncusError> {
        let (Object(answer), id) = self.sync(ask, by).await?;
        Ok((answer, id))
    }

    async fn objects<T: DeserializeOwned + Send + 'static>(
        &self,
        ask: Ask<'_>,
        by: Instant,
    ) -> Result<(Vec<T>, ConnectionId), IncusError> {
        let (answers, id) = self.sync::<Vec<Object<T>>>(ask, by).await?;
        Ok((answers.into_iter().map(|Object(answer)| answer).collect(), id))
    }

    async fn sync<T: DeserializeOwned + Send + 'static>(
        &self,
        ask: Ask<'_>,
        by: Instant,
    ) -> Result<(T, ConnectionId), IncusError> {
        match self.ask(ask, by).await? {
            (Content::Sync(answer), id) => Ok((answer, id)),
            (Content::Async(_), _) => Err(self.failed(ask, wrong("type", "async, where sync was expected"))),
        }
    }

    async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        ask: Ask<'_>,
        by: Instant,
    ) -> Result<(Content<T>, ConnectionId), IncusError> {
        let failed = |problem| self.failed(ask, problem);
        let request = ask.request().map_err(failed)?;
        let late = |during, sent| HttpError::Deadline { during, sent, status: None };
        let mut link = timeout_at(by, self.link.lock())
            .await
            .map_err(|_| failed(Problem::Http(late(Step::Ready, false))))?;
        let exchanged = link.exchange(&self.way, request, ask.is_read(), by).await;
        drop(link);
        let (answer, id) = exchanged.map_err(|why| failed(Problem::Http(why)))?;
        let any_status = ask.status_says_nothing();
        let content = if answer.body.len() <= LARGE {
            envelope::read(&answer, any_status)
        } else {
            let reading = tokio::task::spawn_blocking(move || envelope::read(&answer, any_status));
            match timeout_at(by, reading).await {
                Ok(Ok(content)) => content,
                Ok(Err(why)) => Err(wrong("body", why.to_string())),
                Err(_) => Err(Problem::Http(late(Step::Body, true))),
            }
        };
        content.map(|content| (content, id)).map_err(failed)
    }

    fn failed(&self, ask: Ask<'_>, problem: Problem) -> IncusError {
        IncusError { endpoint: self.way.endpoint.to_string(), asked: ask.shown(), problem }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.way.endpoint).finish_non_exhaustive()
    }
}
