//! The settings of the policy, and of the verbs that ask it.

use apelora_policy::{AuthoritySettings, Settings};
use apelora_server::PolicyFiles;

use super::server::readable;
use super::table::{
    CA_FILE, ENDPOINT, ENFORCE_NEW_DEFAULTS, ENFORCE_SCOPE, PLAIN_HTTP, POLICY_FILE, REQUEST_TIMEOUT_SECS,
    SERVICE_PROJECT, SERVICE_ROLE_ELEVATED, Setting,
};
use super::{ClientSettings, Configuration, OneLine, Resolved};

/// What `apelora policy check` runs with.
#[derive(Debug, Clone)]
pub(crate) struct PolicyConfig {
    /// The policy.
    pub(crate) policy: PolicyFiles,
    /// For nodes that are fetched.
    pub(crate) client: ClientSettings,
}

impl Configuration for PolicyConfig {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[
            &POLICY_FILE,
            &ENFORCE_NEW_DEFAULTS,
            &ENFORCE_SCOPE,
            &SERVICE_ROLE_ELEVATED,
            &SERVICE_PROJECT,
            &ENDPOINT,
            &CA_FILE,
            &PLAIN_HTTP,
            &REQUEST_TIMEOUT_SECS,
        ];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        Ok(Self { policy: policy(values)?, client: ClientSettings::build(values)? })
    }
}

/// Where the policy is, and how it is put together.
pub(super) fn policy(values: &Resolved) -> Result<PolicyFiles, OneLine> {
    let enforce_new_defaults = values.flag(&ENFORCE_NEW_DEFAULTS)?;
    let enforce_scope = values.flag(&ENFORCE_SCOPE)?;
    let project = values.text(&SERVICE_PROJECT)?;
    let elevated = values.flag(&SERVICE_ROLE_ELEVATED)?;
    Ok(PolicyFiles {
        file: readable(values, &POLICY_FILE)?,
        settings: Settings { enforce_new_defaults, ..Settings::default() },
        authority: AuthoritySettings {
            one_trust_domain: false,
            project_admin_is_system: !(enforce_new_defaults && enforce_scope),
            elevated_service_project: elevated.then(|| project.to_owned()),
        },
    })
}
