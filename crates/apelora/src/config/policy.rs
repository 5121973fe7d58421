//! The settings of the policy.

use std::path::PathBuf;

use apelora_policy::{AuthoritySettings, Settings};
use apelora_server::PolicyFiles;

use super::table::{
    ENFORCE_NEW_DEFAULTS, ENFORCE_SCOPE, POLICY_FILE, SERVICE_PROJECT, SERVICE_ROLE_ELEVATED,
};
use super::{OneLine, Resolved};

/// Where the policy is, and how it is put together.
pub(super) fn policy(values: &Resolved) -> Result<PolicyFiles, OneLine> {
    let enforce_new_defaults = values.flag(&ENFORCE_NEW_DEFAULTS)?;
    let enforce_scope = values.flag(&ENFORCE_SCOPE)?;
    let project = values.text(&SERVICE_PROJECT)?;
    let elevated = values.flag(&SERVICE_ROLE_ELEVATED)?;
    Ok(PolicyFiles {
        file: values.optional(&POLICY_FILE)?.map(PathBuf::from),
        settings: Settings { enforce_new_defaults, ..Settings::default() },
        authority: AuthoritySettings {
            one_trust_domain: false,
            project_admin_is_system: !(enforce_new_defaults && enforce_scope),
            elevated_service_project: elevated.then(|| project.to_owned()),
        },
    })
}
