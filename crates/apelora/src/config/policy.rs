//! The settings of the policy, and of the verbs that ask it.

use std::path::PathBuf;

use apelora_policy::{AuthoritySettings, Settings};

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

/// Where the policy is, and how it is put together.
#[derive(Debug, Clone)]
pub(crate) struct PolicyFiles {
    /// The policy file; without one the built-in rules apply.
    pub(crate) file: Option<PathBuf>,
    /// How files and built-in rules are put together.
    pub(crate) settings: Settings,
    /// Who counts as an operator.
    pub(crate) authority: AuthoritySettings,
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
        Ok(Self { policy: PolicyFiles::build(values)?, client: ClientSettings::build(values)? })
    }
}

impl PolicyFiles {
    fn build(values: &Resolved) -> Result<Self, OneLine> {
        let enforce_new_defaults = values.flag(&ENFORCE_NEW_DEFAULTS)?;
        let enforce_scope = values.flag(&ENFORCE_SCOPE)?;
        let project = values.text(&SERVICE_PROJECT)?;
        let elevated = values.flag(&SERVICE_ROLE_ELEVATED)?;
        Ok(Self {
            file: values.optional(&POLICY_FILE)?.map(PathBuf::from),
            settings: Settings { enforce_new_defaults, ..Settings::default() },
            authority: AuthoritySettings {
                one_trust_domain: false,
                project_admin_is_system: !(enforce_new_defaults && enforce_scope),
                elevated_service_project: elevated.then(|| project.to_owned()),
            },
        })
    }
}
