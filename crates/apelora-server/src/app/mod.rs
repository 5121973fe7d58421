//! What callers ask for, done: authority, the store, the planner. No HTTP here beyond the words of refusals.

mod history;
mod maintenance;
mod nodes;
mod placed;

use apelora_fencing::status::SettingStatus;
use apelora_maintenance::{Authority, NodeFacts, Stamp};
use apelora_store::{
    ChangeError, Changed, Conflict, Locked, NodeChange, NodeColumn, NodeKey, NodeRow, Store, StoreError,
};
use tracing::error;

pub(crate) use history::SeenRecord;
pub(crate) use maintenance::{NewEntry, ReadEntries, SeenEntry};
pub(crate) use placed::SeenPlaced;

use crate::auth::Caller;
use crate::authorise::{self, Needs};
use crate::config::Sources;
use crate::error::ApiError;
use crate::route::Ident;
use crate::{Microversion, ident};

/// Seconds after which a client may ask an unavailable database again.
pub(crate) const RETRY_AFTER: u16 = 2;

/// The columns that policy and authority look at.
const FACTS: [NodeColumn; 4] = [NodeColumn::Uuid, NodeColumn::Name, NodeColumn::Owner, NodeColumn::Lessee];

/// The services behind the API.
#[derive(Debug)]
pub(crate) struct App {
    store: Store,
    sources: Sources,
    host: String,
    settings: Vec<SettingStatus>,
}

/// For whom and at which version something is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) version: Microversion,
}

impl App {
    pub(crate) fn new(store: Store, sources: Sources, host: String, settings: Vec<SettingStatus>) -> Self {
        Self { store, sources, host, settings }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The time in UTC.
    pub(crate) fn now(&self) -> time::PrimitiveDateTime {
        self.sources.now()
    }

    /// This service's name.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The settings in force, as they may be shown.
    pub(crate) fn settings(&self) -> &[SettingStatus] {
        &self.settings
    }

    /// A new id.
    pub(crate) fn new_id(&self) -> uuid::Uuid {
        self.sources.new_id()
    }

    /// Time and ids of one change, made before the lock so that a re-run of the transaction makes the same rows.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::new(self.sources.new_id(), self.sources.new_id(), self.sources.now(), self.host.clone())
    }

    /// The node of this ident with these columns, if the caller may see it and policy grants the rule.
    ///
    /// # Errors
    /// 404 for what does not exist or may not be seen, 403 for what is not granted.
    async fn find(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        needs: impl Into<Needs<'_>>,
        columns: &[NodeColumn],
    ) -> Result<NodeRow, ApiError> {
        let needs = needs.into();
        let mut wanted = FACTS.to_vec();
        wanted.extend_from_slice(columns);
        let mut found = self.look_up(&ident.text, cx.version, &wanted).await?;
        let mut shown = ident.text.clone();
        if found.is_none() && ident.json_suffix {
            shown.push_str(".json");
            found = self.look_up(&shown, cx.version, &wanted).await?;
        }
        let Some(row) = found else { return Err(ApiError::no_node(&shown)) };
        check(cx, &shown, needs, &row.facts())?;
        Ok(row)
    }

    async fn look_up(
        &self,
        ident: &str,
        version: Microversion,
        columns: &[NodeColumn],
    ) -> Result<Option<NodeRow>, ApiError> {
        let Some(key) = key(ident, version)? else { return Ok(None) };
        self.store.node(&key, columns).await.map_err(store_error)
    }

    /// Changes a node under its lock.
    ///
    /// `decide` gets the caller's authority on the node as it was read under the lock.
    async fn change(
        &self,
        cx: Context<'_>,
        ident: &str,
        uuid: &str,
        needs: Needs<'_>,
        stamp: &Stamp,
        mut decide: impl FnMut(&Locked, &Authority) -> Result<NodeChange, ApiError> + Send,
    ) -> Result<Changed, ApiError> {
        let key = NodeKey::Uuid(uuid.to_owned());
        let outcome = self
            .store
            .change_node(&key, stamp, |locked| {
                let facts = &locked.node.node;
                check(cx, ident, needs, facts)?;
                decide(locked, &authorise::authority(cx.caller, facts))
            })
            .await;
        match outcome {
            Ok(changed) => Ok(changed),
            Err(ChangeError::NotFound) => Err(ApiError::no_node(ident)),
            Err(ChangeError::Refused(refusal)) => Err(refusal),
            Err(ChangeError::Reserved { by }) => Err(ApiError::Reserved { uuid: uuid.to_owned(), by }),
            Err(other) => Err(change_error(other, uuid)),
        }
    }
}

/// Policy on one node: who may not see it does not learn that it exists.
fn check(cx: Context<'_>, ident: &str, needs: Needs<'_>, node: &NodeFacts) -> Result<(), ApiError> {
    authorise::authorise(cx.caller, authorise::NODE_GET, Some(node)).map_err(|_| ApiError::no_node(ident))?;
    needs.check(cx.caller, node)
}

/// How the store knows a node; `None` when nothing can be called so.
///
/// # Errors
/// 400 for a name that older versions do not allow.
fn key(ident: &str, version: Microversion) -> Result<Option<NodeKey>, ApiError> {
    if let Some(uuid) = ident::canonical_uuid(ident) {
        return Ok(Some(NodeKey::Uuid(uuid)));
    }
    if !ident::names_exist(version) || ident::is_uuid_like(ident) {
        return Ok(None);
    }
    if !ident::is_valid_name(ident, version) {
        return Err(ApiError::bad_request(format!("Expected a logical name or UUID but received {ident}.")));
    }
    Ok(Some(NodeKey::Name(ident.to_owned())))
}

/// The answer to a failed read.
#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(crate) fn store_error(failure: StoreError) -> ApiError {
    match &failure {
        StoreError::UnknownMarker(marker) => ApiError::no_node(marker),
        StoreError::Unavailable(cause) => {
            error!(?cause, "the database is not available");
            ApiError::unavailable(failure.to_string(), RETRY_AFTER)
        }
        StoreError::Failed(cause) => {
            error!(?cause, "the database could not answer");
            ApiError::internal()
        }
    }
}

/// The answer to a failed change of the node of this uuid.
fn change_error<E>(failure: ChangeError<E>, uuid: &str) -> ApiError {
    match failure {
        ChangeError::Conflict(conflict) => taken(&conflict, uuid),
        ChangeError::Unstorable(problem) => ApiError::bad_request(capitalised(&problem.to_string())),
        ChangeError::Unavailable(cause) => {
            error!(?cause, "the database is not available");
            ApiError::unavailable("The database is not available at the moment. Please retry", RETRY_AFTER)
        }
        ChangeError::Unknown(cause) => {
            error!(?cause, node = uuid, "the database did not confirm a change");
            ApiError::resource(
                http::StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "The database did not confirm the change. It may have been made, whole or not at all: read node \
                     {uuid} back before you retry"
                ),
            )
        }
        ChangeError::Failed(cause) => {
            error!(?cause, "the database could not make a change");
            ApiError::internal()
        }
        ChangeError::NotFound | ChangeError::Reserved { .. } | ChangeError::Refused(_) => {
            error!("an answer of the store that this change cannot have");
            ApiError::internal()
        }
    }
}

/// 409 in the reference's words.
fn taken(conflict: &Conflict, uuid: &str) -> ApiError {
    let Conflict { column, value } = conflict;
    ApiError::conflict(match column {
        NodeColumn::Uuid => format!("A node with UUID {value} already exists."),
        NodeColumn::InstanceUuid => format!(
            "Instance {value} is already associated with a node, it cannot be associated with this other node {uuid}"
        ),
        _ => format!("A node with {column} {value} already exists."),
    })
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
