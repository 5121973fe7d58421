//! What a caller is on one node: the rank that no policy file can change.
//!
//! Source: `docs/maintenance.md`, *Who may release what*; the algorithm is `docs/policy.md`, *Authority*.

use crate::creds::Creds;

/// A caller's rank on one node. The caller's side of what `apelora-maintenance` calls a scope; this crate depends on
/// no other, so the server names the one for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// The caller's project is the node's lessee.
    Lessee,
    /// The caller's project is the node's owner.
    Owner,
    /// An operator of the whole deployment.
    System,
}

/// The settings that decide who counts as an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthoritySettings {
    /// The authentication knows one kind of caller only (`noauth`, `http_basic`): everybody is an operator.
    pub one_trust_domain: bool,
    /// Project administrators are operators, as in older deployments: `APELORA_ENFORCE_NEW_DEFAULTS` or
    /// `APELORA_ENFORCE_SCOPE` is 0.
    pub project_admin_is_system: bool,
    /// The project whose services are operators: `APELORA_SERVICE_PROJECT` while `APELORA_SERVICE_ROLE_ELEVATED` is on.
    pub elevated_service_project: Option<String>,
}

/// The caller's rank on a node with this owner and lessee; `None` is no standing at all. The highest one wins.
///
/// Computed from the node row read under the lock. Roles play no part below [`Standing::System`]: whether a reader may
/// do something is for the rules to say. An empty text is no owner, no lessee and no project, and null equals nothing.
pub fn authority(
    creds: &Creds,
    owner: Option<&str>,
    lessee: Option<&str>,
    settings: &AuthoritySettings,
) -> Option<Standing> {
    if settings.one_trust_domain || creds.text("system_scope") == Some("all") {
        return Some(Standing::System);
    }
    if creds.text("domain_id").is_some() {
        return None;
    }
    let is_admin = || creds.has_role("admin") || creds.has_role("administrator");
    if settings.project_admin_is_system && is_admin() {
        return Some(Standing::System);
    }
    let project_name = creds.text("project_name");
    let is_service = project_name.is_some()
        && project_name == settings.elevated_service_project.as_deref()
        && creds.has_role("service");
    if is_service {
        return Some(Standing::System);
    }
    let project = creds.text("project_id")?;
    if owner == Some(project) {
        Some(Standing::Owner)
    } else if lessee == Some(project) {
        Some(Standing::Lessee)
    } else {
        None
    }
}
