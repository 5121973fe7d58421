//! The settings of `auth_strategy = "keystone"`.

use std::time::Duration;

use apelora_keystone::{Config, Credentials, Limits, Trust, Validator};
use apelora_server::KeystoneAuth;

use super::server::readable;
use super::table::{
    KEYSTONE_CA_FILE, KEYSTONE_CACHE_SECS, KEYSTONE_PASSWORD, KEYSTONE_PLAIN_HTTP,
    KEYSTONE_PROJECT_DOMAIN_NAME, KEYSTONE_PROJECT_NAME, KEYSTONE_PUBLIC_URL, KEYSTONE_URL,
    KEYSTONE_USER_DOMAIN_NAME, KEYSTONE_USERNAME, Setting,
};
use super::{OneLine, Resolved};

/// The service's type in Keystone's catalog.
const SERVICE_TYPE: &str = "baremetal";
/// A service token needs this role.
const SERVICE_ROLE: &str = "service";

/// Settings that mean nothing without Keystone.
pub(super) static ONLY_KEYSTONE: [&Setting; 5] =
    [&KEYSTONE_URL, &KEYSTONE_PUBLIC_URL, &KEYSTONE_USERNAME, &KEYSTONE_PASSWORD, &KEYSTONE_CA_FILE];

/// What has a built-in value, and is read whatever the strategy is, so that nonsense is found at once.
pub(super) struct Usual {
    project_name: String,
    user_domain_name: String,
    project_domain_name: String,
    plain_http: bool,
    cache: Duration,
}

impl Usual {
    pub(super) fn read(values: &Resolved) -> Result<Self, OneLine> {
        let text = |setting| values.text(setting).map(str::to_owned);
        Ok(Self {
            project_name: text(&KEYSTONE_PROJECT_NAME)?,
            user_domain_name: text(&KEYSTONE_USER_DOMAIN_NAME)?,
            project_domain_name: text(&KEYSTONE_PROJECT_DOMAIN_NAME)?,
            plain_http: values.flag(&KEYSTONE_PLAIN_HTTP)?,
            cache: Duration::from_secs(values.number(&KEYSTONE_CACHE_SECS, 0..=3_600)?.into()),
        })
    }
}

/// How Keystone is asked.
///
/// # Errors
/// The setting that is missing or cannot be used.
pub(super) fn keystone(values: &Resolved, usual: Usual) -> Result<KeystoneAuth, OneLine> {
    let text = |setting| values.text(setting).map(str::to_owned);
    let needed = |setting: &'static Setting| match values.get(setting) {
        Some(_) => text(setting),
        None => Err(values.refuse(
            &super::table::AUTH_STRATEGY,
            &format!("keystone needs {setting}"),
            &format!("set {setting} ({})", setting.env()),
        )),
    };
    let public_url = values.optional(&KEYSTONE_PUBLIC_URL)?.map(str::to_owned);
    if public_url.as_ref().is_some_and(|url| !is_shown_in_a_header(url)) {
        return Err(values.refuse(
            &KEYSTONE_PUBLIC_URL,
            "holds characters that cannot stand in a header",
            "write https://HOST:5000/v3",
        ));
    }
    let validation = Config {
        url: needed(&KEYSTONE_URL)?,
        trust: readable(values, &KEYSTONE_CA_FILE)?.map_or(Trust::SystemRoots, Trust::OnlyFile),
        allow_plain_http: usual.plain_http,
        credentials: Credentials {
            username: needed(&KEYSTONE_USERNAME)?,
            password: needed(&KEYSTONE_PASSWORD)?.into(),
            user_domain_name: usual.user_domain_name,
            project_name: usual.project_name,
            project_domain_name: usual.project_domain_name,
        },
        service_type: SERVICE_TYPE.to_owned(),
        service_token_roles: vec![SERVICE_ROLE.to_owned()],
        limits: Limits { cache: usual.cache, ..Limits::default() },
    };
    // What is wrong with the address shows here, with the setting's name.
    Validator::new(validation.clone())
        .map_err(|why| OneLine::new(format_args!("{}: {why}", values.label(&KEYSTONE_URL))))?;
    Ok(KeystoneAuth { validation, public_url })
}

fn is_shown_in_a_header(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\')
}
