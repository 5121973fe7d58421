//! What a caller may do: policy, and the authority on one node.
//!
//! Both are asked for the node as it was read, before the lock to spare refused callers the lock, and again under it.
//! Source: tests/data/policy/README.md sections 2 to 4.

use apelora_maintenance::{Authority, Entry, NodeFacts, Scope};
use apelora_policy::{EntryTarget, Standing, Target};
use tracing::debug;

use crate::auth::{Caller, CallerKind};
use crate::error::ApiError;

/// The name of a policy rule.
pub(crate) type Rule = &'static str;

pub(crate) const NODE_CREATE: Rule = "baremetal:node:create";
pub(crate) const NODE_CREATE_OWN: Rule = "baremetal:node:create:self_owned_node";
pub(crate) const NODE_DELETE: Rule = "baremetal:node:delete";
pub(crate) const NODE_DELETE_OWN: Rule = "baremetal:node:delete:self_owned_node";
pub(crate) const NODE_GET: Rule = "baremetal:node:get";
pub(crate) const NODE_GET_WHOLE: Rule = "baremetal:node:get:filter_threshold";
pub(crate) const NODE_LIST: Rule = "baremetal:node:list";
pub(crate) const NODE_LIST_ALL: Rule = "baremetal:node:list_all";
pub(crate) const NODE_UPDATE: Rule = "baremetal:node:update";
pub(crate) const NODE_UPDATE_OWNER_IN_USE: Rule = "baremetal:node:update_owner_provisioned";
pub(crate) const NODE_STATES_GET: Rule = "baremetal:node:get_states";
pub(crate) const NODE_SET_POWER: Rule = "baremetal:node:set_power_state";
pub(crate) const HISTORY_GET: Rule = "baremetal:node:history:get";
pub(crate) const MAINTENANCE_SET: Rule = "baremetal:node:set_maintenance";
pub(crate) const MAINTENANCE_CLEAR: Rule = "baremetal:node:clear_maintenance";
pub(crate) const ENTRY_GET: Rule = "baremetal:node:maintenance:get";
pub(crate) const ENTRY_ADD: Rule = "baremetal:node:maintenance:add";
pub(crate) const ENTRY_REMOVE: Rule = "baremetal:node:maintenance:remove";
pub(crate) const ENTRIES_LIST: Rule = "apelora:maintenance:list";
pub(crate) const ENTRIES_LIST_ALL: Rule = "apelora:maintenance:list_all";
pub(crate) const MEMBER_GET: Rule = "apelora:member:get";
pub(crate) const MEMBER_CONFIRM_OFF: Rule = "apelora:member:confirm_off";
pub(crate) const MEMBER_TRUST: Rule = "apelora:member:trust";
pub(crate) const AUDIT_GET: Rule = "apelora:audit:get";
pub(crate) const SETTINGS_GET: Rule = "apelora:settings:get";
pub(crate) const DRIVER_GET: Rule = "baremetal:driver:get";
pub(crate) const SHOW_PASSWORD: Rule = "show_password";
pub(crate) const SHOW_INSTANCE_SECRETS: Rule = "show_instance_secrets";

/// What policy must grant for a request about a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Needs<'a> {
    /// This rule.
    One(Rule),
    /// Every one of these; a refusal names the first that says no.
    All(&'a [Rule]),
    /// One of the two; a refusal names the second.
    Either(Rule, Rule),
}

impl From<Rule> for Needs<'_> {
    fn from(rule: Rule) -> Self {
        Self::One(rule)
    }
}

impl Needs<'_> {
    /// # Errors
    /// 403, naming a rule.
    pub(crate) fn check(self, caller: &Caller, node: &NodeFacts) -> Result<(), ApiError> {
        match self {
            Self::One(rule) => authorise(caller, rule, Some(node)),
            Self::All(rules) => rules.iter().try_for_each(|rule| authorise(caller, rule, Some(node))),
            Self::Either(first, second) => {
                authorise(caller, first, Some(node)).or_else(|_| authorise(caller, second, Some(node)))
            }
        }
    }
}

/// Whether policy lets the caller do this, on this node if it is about one.
///
/// # Errors
/// 403, naming the rule.
pub(crate) fn authorise(caller: &Caller, rule: Rule, node: Option<&NodeFacts>) -> Result<(), ApiError> {
    if passes(caller, rule, node, None) {
        return Ok(());
    }
    Err(ApiError::forbidden(format!("Access was denied to the following resource: {rule}")))
}

fn passes(caller: &Caller, rule: Rule, node: Option<&NodeFacts>, entry: Option<&Entry>) -> bool {
    match caller.kind {
        // One trust domain: the reference passes every check without looking at a rule.
        CallerKind::NoAuth | CallerKind::HttpBasic => true,
        CallerKind::Public => false,
        CallerKind::Keystone => {
            let place = node.map(|node| (node.owner.as_deref(), node.lessee.as_deref()));
            judged(caller, rule, place, entry)
        }
    }
}

/// What the rule itself says, whoever calls. `place` is owner and lessee of the node.
fn judged(
    caller: &Caller,
    rule: Rule,
    place: Option<(Option<&str>, Option<&str>)>,
    entry: Option<&Entry>,
) -> bool {
    let creds = &caller.creds;
    let target = match place {
        Some((owner, lessee)) => Target::node(creds, owner, lessee),
        None => Target::caller(creds),
    };
    let uuid = entry.map(|entry| entry.uuid.to_string()).unwrap_or_default();
    let target = match entry {
        Some(entry) => target.with_entry(EntryTarget {
            uuid: &uuid,
            kind: &entry.entry_type,
            scope: entry.scope.as_str(),
            asserted_by: &entry.asserted_by,
            asserted_by_project: &entry.asserted_by_project,
        }),
        None => target,
    };
    match caller.rules.authorize(rule, creds, &target) {
        Ok(decision) => {
            if !decision.allowed {
                debug!(because = %decision.because, "policy says no");
            }
            decision.allowed
        }
        Err(unknown) => {
            tracing::error!(%unknown, "a rule is asked for that is not registered");
            false
        }
    }
}

/// Whether policy lets the caller release this entry. `governed_by` is the rule of the request itself: legacy and
/// fault entries pass with it alone, typed ones need their own rule, which is asked about the entry as it is stored.
pub(crate) fn may_release(caller: &Caller, node: &NodeFacts, entry: &Entry, governed_by: Rule) -> bool {
    passes(caller, ENTRY_REMOVE, Some(node), Some(entry))
        || (entry.is_reserved() && passes(caller, governed_by, Some(node), None))
}

/// What the caller is on this node.
pub(crate) fn authority(caller: &Caller, node: &NodeFacts) -> Authority {
    let scope = match caller.kind {
        CallerKind::Public => None,
        CallerKind::NoAuth | CallerKind::HttpBasic | CallerKind::Keystone => {
            let (owner, lessee) = (node.owner.as_deref(), node.lessee.as_deref());
            apelora_policy::authority(&caller.creds, owner, lessee, &caller.operators).map(scope)
        }
    };
    Authority { scope, user: caller.user.clone(), project: caller.project.clone() }
}

fn scope(standing: Standing) -> Scope {
    match standing {
        Standing::System => Scope::System,
        Standing::Owner => Scope::Owner,
        Standing::Lessee => Scope::Lessee,
    }
}

/// How far a list reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All nodes.
    Everything,
    /// The nodes that this project owns or leases.
    Project(String),
}

/// How far a list of the caller reaches: `all` grants everything, else `own` the caller's project. `asked` is the
/// project whose nodes the caller asks for.
///
/// # Errors
/// 403.
pub(crate) fn reach(caller: &Caller, all: Rule, own: Rule, asked: Option<&str>) -> Result<Reach, ApiError> {
    let refused = match authorise(caller, all, None) {
        Ok(()) => return Ok(Reach::Everything),
        Err(refused) => refused,
    };
    let project = caller.project.as_str();
    if project.is_empty() || asked.is_some_and(|asked| asked != project) {
        return Err(refused);
    }
    authorise(caller, own, None)?;
    Ok(Reach::Project(project.to_owned()))
}

/// The owner of a node that the caller creates.
///
/// Whoever may create nodes of his own project and has no system scope creates for that project alone; the reference
/// holds callers without a project to that, too, although they may set the owner afterwards.
/// Source: tests/data/ironic/README.md section 3.1; tests/data/policy/README.md, rows of `POST /v1/nodes`.
///
/// # Errors
/// 403 and 400.
pub(crate) fn owner_at_creation(caller: &Caller, asked: Option<String>) -> Result<Option<String>, ApiError> {
    if caller.creds.text("system_scope") == Some("all") || !passes(caller, NODE_CREATE_OWN, None, None) {
        authorise(caller, NODE_CREATE, None)?;
        return Ok(asked);
    }
    let own = Some(caller.project.clone()).filter(|project| !project.is_empty());
    if asked.is_some() && asked != own {
        return Err(ApiError::bad_request(
            "Cannot create a node as a project scoped admin with an owner other than your own project.",
        ));
    }
    Ok(own)
}

/// What of a node its reader may not see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight<'a> {
    caller: &'a Caller,
    owner: Option<&'a str>,
    lessee: Option<&'a str>,
    whole: bool,
}

impl<'a> Sight<'a> {
    /// What the caller sees of a node with this owner and lessee.
    pub(crate) fn new(caller: &'a Caller, owner: Option<&'a str>, lessee: Option<&'a str>) -> Self {
        let whole = caller.kind != CallerKind::Keystone
            || judged(caller, NODE_GET_WHOLE, Some((owner, lessee)), None);
        Self { caller, owner, lessee, whole }
    }

    /// Whether the field that this rule guards is shown.
    pub(crate) fn shows(&self, rule: Rule) -> bool {
        self.whole || judged(self.caller, rule, Some((self.owner, self.lessee)), None)
    }

    /// Whether secrets that this rule guards are shown. Asked of callers of every kind.
    pub(crate) fn reveals(&self, rule: Rule) -> bool {
        judged(self.caller, rule, Some((self.owner, self.lessee)), None)
    }
}
