//! Nodes: read, made, changed, deleted.

use apelora_maintenance::{LockedNode, NodeFacts, Operation, plan};
use apelora_store::{Locked, NodeChange, NodeColumn, NodeFilter, NodePatch, NodeQuery, NodeRow};

use super::maintenance::planned;
use super::{App, Context, change_error, store_error};
use crate::authorise::{self, Needs, Reach};
use crate::error::ApiError;
use crate::node::create::NewNode;
use crate::node::patch::Patch;
use crate::node::rules;
use crate::route::Ident;

impl App {
    /// Some columns of a node that the caller may see.
    pub(crate) async fn node(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        needs: impl Into<Needs<'_>>,
        columns: &[NodeColumn],
    ) -> Result<NodeRow, ApiError> {
        self.find(cx, ident, needs, columns).await
    }

    /// A page of the nodes that the caller may see; `asked` is the project whose nodes the caller asks for.
    pub(crate) async fn nodes(
        &self,
        cx: Context<'_>,
        mut query: NodeQuery,
        asked: Option<&str>,
    ) -> Result<Vec<NodeRow>, ApiError> {
        let reach = authorise::reach(cx.caller, authorise::NODE_LIST_ALL, authorise::NODE_LIST, asked)?;
        // What is shown of a node depends on these.
        query.columns.extend([NodeColumn::Owner, NodeColumn::Lessee]);
        if let Reach::Project(project) = reach {
            if let Some(marker) = &query.marker {
                let row = self.look_up(marker, cx.version, &super::FACTS).await?;
                let node = row.ok_or_else(|| ApiError::no_node(marker))?.facts();
                super::check(cx, marker, Needs::All(&[]), &node)?;
            }
            query.filters.push(NodeFilter::project(&project));
        }
        self.store.nodes(&query).await.map_err(store_error)
    }

    /// POST /v1/nodes.
    pub(crate) async fn create_node(&self, cx: Context<'_>, new: &NewNode) -> Result<NodeRow, ApiError> {
        let owner = authorise::owner_at_creation(cx.caller, new.owner.clone())?;
        let parent = match &new.parent {
            Some(parent) => Some(self.parent(cx, parent).await?),
            None => None,
        };
        let uuid = new.uuid().map_or_else(|| self.sources.new_id().to_string(), str::to_owned);
        let fields = new.complete(&uuid, owner, parent)?;
        let stamp = self.stamp();
        let first_entry = if new.maintenance {
            let facts = NodeRow::from_cells(fields.cells().iter().cloned()).facts();
            let authority = authorise::authority(cx.caller, &facts);
            let on = LockedNode { node: facts, entries: Vec::new() };
            Some(plan(&Operation::SetFlag, &on, &authority, &mut |_| false, &stamp)?)
        } else {
            None
        };
        match self.store.create_node(&stamp, fields, first_entry).await {
            Ok(changed) => Ok(changed.row),
            Err(failure) => Err(change_error(failure, &uuid)),
        }
    }

    /// PATCH /v1/nodes/{ident}.
    pub(crate) async fn update_node(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        patch: &Patch,
    ) -> Result<NodeRow, ApiError> {
        let rules = patch.rules();
        let needs = Needs::All(&rules);
        let row = self.find(cx, ident, needs, NodeColumn::ALL).await?;
        let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
        let parent = match patch.parent() {
            Some(parent) => Some(self.parent(cx, parent).await?),
            None => None,
        };
        // What is wrong with the patch itself is said before anybody waits for the lock.
        patch.apply(&row, &ident.text)?;
        let stamp = self.stamp();
        let changed = self
            .change(cx, &ident.text, uuid, needs, &stamp, |locked, authority| {
                let mut effect = patch.apply(&locked.row, &ident.text)?;
                if effect.fields.get(NodeColumn::Owner).is_some() {
                    check_new_owner(cx, locked)?;
                }
                if let Some(parent) = &parent {
                    effect.fields.set(NodeColumn::ParentNode, parent.as_str());
                }
                let mut change = match effect.maintenance {
                    Some(flag) => {
                        let operation = if flag { Operation::SetFlag } else { Operation::ReleaseAll };
                        planned(cx, &operation, locked, authority, authorise::NODE_UPDATE, &stamp)?
                    }
                    None => NodeChange::default(),
                };
                change.fields = effect.fields;
                Ok(change)
            })
            .await?;
        Ok(changed.row)
    }

    /// DELETE /v1/nodes/{ident}.
    pub(crate) async fn delete_node(&self, cx: Context<'_>, ident: &Ident) -> Result<(), ApiError> {
        let needs = Needs::Either(authorise::NODE_DELETE, authorise::NODE_DELETE_OWN);
        let row = self.find(cx, ident, needs, &[]).await?;
        let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
        let stamp = self.stamp();
        self.change(cx, &ident.text, uuid, needs, &stamp, |locked, authority| {
            rules::check_deletable(&locked.row)?;
            let change =
                planned(cx, &Operation::DeleteNode, locked, authority, authorise::NODE_DELETE, &stamp)?;
            Ok(NodeChange { fields: NodePatch::new(), remove_node: true, ..change })
        })
        .await
        .map(drop)
    }

    /// The condition for nodes that the service of this name serves: all of them, or none.
    pub(crate) fn not_served_by(&self, conductor: &str) -> Option<NodeFilter> {
        (self.host != conductor).then(|| NodeFilter::Any(Vec::new()))
    }

    /// The uuid of the node that is to be a parent.
    async fn parent(&self, cx: Context<'_>, ident: &str) -> Result<String, ApiError> {
        let row = self.look_up(ident, cx.version, &super::FACTS).await?;
        let visible =
            |facts: &NodeFacts| authorise::authorise(cx.caller, authorise::NODE_GET, Some(facts)).is_ok();
        row.map(|row| row.facts()).filter(visible).map(|facts| facts.uuid).ok_or_else(|| {
            ApiError::bad_request(format!(
                "Unable to apply the requested parent_node '{ident}'. Requested value was invalid."
            ))
        })
    }
}

/// A node that is in use keeps its owner, unless policy says otherwise. Source: the reference's PATCH.
fn check_new_owner(cx: Context<'_>, locked: &Locked) -> Result<(), ApiError> {
    let state = locked.row.text(NodeColumn::ProvisionState).unwrap_or_default();
    if state != rules::IN_USE {
        return Ok(());
    }
    let node = &locked.node.node;
    authorise::authorise(cx.caller, authorise::NODE_UPDATE_OWNER_IN_USE, Some(node)).map_err(|_| {
        ApiError::conflict(format!(
            "Cannot update owner of node \"{}\" while it is in state \"{state}\".",
            node.uuid
        ))
    })
}
