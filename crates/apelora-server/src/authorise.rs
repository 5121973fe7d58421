//! What a caller may do: policy, and the authority on one node.
//!
//! Both are asked for the node as it was read, before the lock to spare refused callers the lock, and again under it.
//! Source: contracts/policy sections 2 to 4; design, *Authority*.

use apelora_maintenance::{Authority, Entry, NodeFacts, Scope};

use crate::auth::{Caller, CallerKind};
use crate::error::ApiError;

/// The name of a policy rule.
pub(crate) type Rule = &'static str;

pub(crate) const NODE_CREATE: Rule = "baremetal:node:create";
pub(crate) const NODE_DELETE: Rule = "baremetal:node:delete";
pub(crate) const NODE_GET: Rule = "baremetal:node:get";
pub(crate) const NODE_LIST: Rule = "baremetal:node:list_all";
pub(crate) const NODE_UPDATE: Rule = "baremetal:node:update";
pub(crate) const NODE_STATES_GET: Rule = "baremetal:node:get_states";
pub(crate) const NODE_SET_POWER: Rule = "baremetal:node:set_power_state";
pub(crate) const HISTORY_GET: Rule = "baremetal:node:history:get";
pub(crate) const MAINTENANCE_SET: Rule = "baremetal:node:set_maintenance";
pub(crate) const MAINTENANCE_CLEAR: Rule = "baremetal:node:clear_maintenance";
pub(crate) const ENTRY_GET: Rule = "baremetal:node:maintenance:get";
pub(crate) const ENTRY_ADD: Rule = "baremetal:node:maintenance:add";
pub(crate) const ENTRY_REMOVE: Rule = "baremetal:node:maintenance:remove";
pub(crate) const DRIVER_GET: Rule = "baremetal:driver:get";

/// Whether policy lets the caller do this, on this node if it is about one.
///
/// # Errors
/// 403, naming the rule.
pub(crate) fn authorise(caller: &Caller, rule: Rule, _node: Option<&NodeFacts>) -> Result<(), ApiError> {
    match caller.kind {
        // One trust domain: the reference passes every check without looking at a rule.
        CallerKind::NoAuth | CallerKind::HttpBasic => Ok(()),
        CallerKind::Public => {
            Err(ApiError::forbidden(format!("Access was denied to the following resource: {rule}")))
        }
    }
}

/// Whether policy lets the caller release this entry. `governed_by` is the rule of the request itself: legacy and
/// fault entries pass with it alone, typed ones need their own rule.
pub(crate) fn may_release(caller: &Caller, node: &NodeFacts, entry: &Entry, governed_by: Rule) -> bool {
    let passes = |rule| authorise(caller, rule, Some(node)).is_ok();
    passes(ENTRY_REMOVE) || (entry.is_reserved() && passes(governed_by))
}

/// What the caller is on this node.
pub(crate) fn authority(caller: &Caller, _node: &NodeFacts) -> Authority {
    let scope = match caller.kind {
        CallerKind::NoAuth | CallerKind::HttpBasic => Some(Scope::System),
        CallerKind::Public => None,
    };
    Authority { scope, user: caller.user.clone(), project: String::new() }
}

/// The owner of a node that the caller creates.
///
/// Callers without system scope create for their own project alone; the reference holds callers without a project to
/// that, too, although they may set the owner afterwards. Source: contracts/ironic section 3.1.
///
/// # Errors
/// 400.
pub(crate) fn owner_at_creation(caller: &Caller, asked: Option<String>) -> Result<Option<String>, ApiError> {
    match (caller.kind, asked) {
        (_, None) => Ok(None),
        (CallerKind::NoAuth | CallerKind::HttpBasic | CallerKind::Public, Some(_)) => {
            Err(ApiError::bad_request(
                "Cannot create a node as a project scoped admin with an owner other than your own project.",
            ))
        }
    }
}
