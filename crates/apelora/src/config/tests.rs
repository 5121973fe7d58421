use std::ffi::OsString;
use std::fmt::Debug;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;

use super::table::{self, SETTINGS, Setting};
use apelora_server::AuthStrategy;

use super::{
    BmcCheckConfig, ClientSettings, Configuration, DatabaseConfig, Flags, LeaseCheckConfig, PolicyConfig,
    ServerConfig, Sources, WorkerConfig, load,
};

mod sample;

/// Who reads settings, by the name of its commands.
type Process = (&'static str, fn() -> &'static [&'static Setting]);
const PROCESSES: [Process; 7] = [
    ("server", ServerConfig::settings),
    ("worker", WorkerConfig::settings),
    ("bmc check", BmcCheckConfig::settings),
    ("lease check", LeaseCheckConfig::settings),
    ("db", DatabaseConfig::settings),
    ("node, history, member, bmc trust, fence explain, audit, settings", ClientSettings::settings),
    ("policy", PolicyConfig::settings),
];

fn sources<C>(file: Option<&str>, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources<C> {
    let file = file.map(|text| {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.into_temp_path().keep().unwrap()
    });
    Sources {
        file,
        environment: environment.iter().map(|(k, v)| (k.into(), v.into())).collect(),
        flags: Flags::of(flags.iter().map(|(k, v)| (table::find(k).unwrap(), (*v).to_owned())).collect()),
    }
}

fn refused(file: Option<&str>, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    refused_by::<ServerConfig>(file, environment, flags)
}

fn refused_by<C: Configuration + Debug>(
    file: Option<&str>,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> String {
    match load(&sources::<C>(file, environment, flags)) {
        Ok((config, _)) => panic!("accepted: {config:?}"),
        Err(line) => line.to_string(),
    }
}

#[test]
fn each_source_beats_the_one_before() {
    let file = Some("listen = '127.0.0.1:2'\nhistory_max_entries = 2\nhistory_min_days = 2\nlog = 'debug'\n");
    let environment = [("APELORA_HISTORY_MAX_ENTRIES", "3"), ("APELORA_HISTORY_MIN_DAYS", "3")];
    let (config, provenance) =
        load(&sources::<ServerConfig>(file, &environment, &[("history_min_days", "4")])).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.history.max_entries, 3);
    assert_eq!(config.history.min_days, 4);
    assert_eq!(config.history.batch, 1000);
    let origins: Vec<_> =
        provenance.chosen.iter().map(|(name, value, from)| (*name, value.as_str(), from.as_str())).collect();
    assert!(origins.contains(&("history_max_entries", "3", "environment")), "{origins:?}");
    assert!(origins.contains(&("history_min_days", "4", "flag")), "{origins:?}");
    assert!(
        origins.iter().any(|(name, _, from)| *name == "listen" && from.ends_with(".toml")),
        "{origins:?}"
    );
    assert!(origins.iter().all(|(name, ..)| *name != "history_cleanup_batch"), "{origins:?}");
}

#[test]
fn a_configuration_file_may_be_named_by_the_environment_and_the_flag_beats_it() {
    let named = sources::<ServerConfig>(Some("history_min_days = 7\n"), &[], &[]);
    let path = named.file.clone().unwrap().into_os_string().into_string().unwrap();
    let (config, _) = load(&sources::<ServerConfig>(None, &[("APELORA_CONFIG", &path)], &[])).unwrap();
    assert_eq!(config.history.min_days, 7);
    let (config, _) =
        load(&sources::<ServerConfig>(Some("history_min_days = 8\n"), &[("APELORA_CONFIG", &path)], &[]))
            .unwrap();
    assert_eq!(config.history.min_days, 8);
}

#[test]
fn every_default_is_accepted_and_every_setting_belongs_to_a_process() {
    let (config, provenance) =
        load(&sources::<ServerConfig>(None, &[("PATH", "/bin"), ("APELOR", "x")], &[])).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:6385");
    assert!(matches!(config.auth, AuthStrategy::NoAuth));
    assert!(provenance.chosen.is_empty());
    for setting in SETTINGS {
        let used = PROCESSES.iter().any(|(_, settings)| settings().contains(setting));
        assert!(used, "no process reads {setting}");
        assert_eq!(SETTINGS.iter().filter(|s| s.name == setting.name).count(), 1, "{setting} twice");
    }
}

#[test]
fn every_setting_refuses_nonsense_by_name_origin_and_remedy() {
    let nonsense = [
        ("database_url", "oracle://x"),
        ("listen", "localhost"),
        ("auth_strategy", "none"),
        ("http_basic_user_file", ""),
        ("keystone_url", "keystone"),
        ("keystone_public_url", "keystone"),
        ("keystone_username", "alone"),
        ("keystone_password", "alone"),
        ("keystone_project_name", ""),
        ("keystone_user_domain_name", ""),
        ("keystone_project_domain_name", ""),
        ("keystone_ca_file", "/nonexistent/ca.pem"),
        ("keystone_plain_http", "no"),
        ("keystone_cache_secs", "-1"),
        ("tls_cert", "/nonexistent/cert.pem"),
        ("tls_key", "/nonexistent/key.pem"),
        ("host", "a b"),
        ("pin_max_microversion", "1.116"),
        ("history_max_entries", "-1"),
        ("history_min_days", "1.5"),
        ("history_cleanup_interval_secs", "0"),
        ("history_cleanup_batch", "many"),
        ("audit_min_days", "36501"),
        ("policy_file", ""),
        ("enforce_new_defaults", "yes"),
        ("enforce_scope", "2"),
        ("service_role_elevated", "true"),
        ("service_project", ""),
        ("worker_listen", "localhost"),
        ("incus_url", "http://s1:8443"),
        ("incus_client_cert", "/nonexistent/client.crt"),
        ("incus_client_key", "/nonexistent/client.key"),
        ("incus_server_cert", "/nonexistent/cluster.crt"),
        ("incus_single_view", "yes"),
        ("incus_healing_off", "off"),
        ("incus_shared_pools", "ceph,,lvm"),
        ("bmc_map", "/nonexistent/bmc.json"),
        ("bmc_fence_after_secs", "19"),
        ("bmc_allow_lab", "true"),
        ("lab_san_vms", ""),
        ("sanlock_hosts", "/nonexistent/hosts.json"),
        ("failure_domain_rule", "2"),
        ("pass_interval_secs", "11"),
        ("endpoint", ""),
        ("ca_file", ""),
        ("plain_http", "on"),
        ("request_timeout_secs", "0"),
        ("log", "apelora=loud"),
        ("log_format", "xml"),
    ];
    for setting in SETTINGS {
        let (name, value) = nonsense.iter().find(|(name, _)| *name == setting.name).expect(setting.name);
        let refused = if ServerConfig::settings().contains(setting) {
            refused_by::<ServerConfig>
        } else if WorkerConfig::settings().contains(setting) {
            refused_by::<WorkerConfig>
        } else {
            refused_by::<PolicyConfig>
        };
        let by_env = refused(None, &[(&setting.env(), value)], &[]);
        let by_flag = refused(None, &[], &[(name, value)]);
        let by_file = refused(Some(&format!("{name} = '{value}'")), &[], &[]);
        assert!(by_env.starts_with(&format!("{} (environment): ", setting.env())), "{by_env}");
        assert!(by_flag.starts_with(&format!("--{} (flag): ", setting.flag())), "{by_flag}");
        assert!(by_file.starts_with(&format!("{name} (/")) && by_file.contains(".toml): "), "{by_file}");
        for line in [by_env, by_flag, by_file] {
            assert!(line.contains("; ") && !line.contains('\n'), "{line}");
        }
    }
}

#[test]
fn unknown_settings_stop_the_start_with_a_guess() {
    assert_eq!(
        refused(None, &[("APELORA_DATABSE_URL", "x")], &[]),
        "APELORA_DATABSE_URL (environment): no such setting; did you mean APELORA_DATABASE_URL? Correct it, or unset it"
    );
    assert_eq!(
        refused(None, &[("APELORA_ZZZ", "x")], &[]),
        "APELORA_ZZZ (environment): no such setting; see docs/settings.md for the settings; correct it, or unset it"
    );
    let line = refused(Some("listn = 'x'\n"), &[], &[]);
    assert!(
        line.starts_with("listn (/") && line.ends_with("did you mean listen? Correct it, or remove it"),
        "{line}"
    );
}

#[test]
fn a_bmc_secret_is_no_error_but_is_reported_by_name_only() {
    let (_, provenance) =
        load(&sources::<ServerConfig>(None, &[("APELORA_BMC_SECRET_S1", "calvin")], &[])).unwrap();
    assert_eq!(provenance.bmc_secrets, ["APELORA_BMC_SECRET_S1"]);
}

#[test]
fn a_bmc_secret_in_a_file_is_refused_and_not_repeated() {
    for key in ["bmc_secret_s1", "APELORA_BMC_SECRET_S1", "apelora_bmc_secret_s1"] {
        for line in [
            refused(Some(&format!("{key} = 'calvin'")), &[], &[]),
            refused_by::<WorkerConfig>(Some(&format!("{key} = 'calvin'")), &[], &[]),
        ] {
            assert!(
                line.starts_with(&format!("{key} (/")) && line.contains("never stands in a file"),
                "{line}"
            );
            assert!(line.contains("set APELORA_BMC_SECRET_S1 for `apelora worker`"), "{line}");
            assert!(!line.contains("calvin"), "{line}");
        }
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let mut missing = sources::<ServerConfig>(None, &[], &[]);
    missing.file = Some("/nonexistent/apelora.toml".into());
    let line = load(&missing).map(|_| ()).unwrap_err().to_string();
    assert!(line.starts_with("configuration file /nonexistent/apelora.toml: "), "{line}");
    let line = refused(Some("log = 'info'\nlisten = [\n"), &[], &[]);
    assert!(line.contains(".toml, line 2: ") || line.contains(".toml, line 3: "), "{line}");
    for (text, what) in [
        ("listen = ['x']", "a list"),
        ("[listen]\na = 1", "a table"),
        ("listen = 1.5", "a fraction"),
        ("listen = 2026-01-01", "a date"),
    ] {
        assert!(refused(Some(text), &[], &[]).contains(&format!("is {what}; write")), "{text}");
    }
    let line = refused(Some("log = 'info'\nlog = 'warn'\n"), &[], &[]);
    assert!(line.contains("duplicate key"), "{line}");
}

#[test]
fn an_environment_that_is_not_text_is_refused_only_under_our_prefix() {
    let mut bad = sources::<ServerConfig>(None, &[], &[]);
    bad.environment.push(("OTHER".into(), OsString::from_vec(vec![0xff])));
    assert!(load(&bad).is_ok());
    bad.environment.push(("APELORA_LOG".into(), OsString::from_vec(vec![0xff])));
    let line = load(&bad).map(|_| ()).unwrap_err().to_string();
    assert!(line.starts_with("APELORA_LOG (environment): not valid UTF-8"), "{line}");
}

#[test]
fn contradictions_are_refused() {
    let line = refused(None, &[("APELORA_LISTEN", "0.0.0.0:6385")], &[]);
    assert!(line.contains("not a loopback address") && line.starts_with("APELORA_LISTEN"), "{line}");
    assert!(refused(None, &[], &[("listen", "[::]:1")]).contains("not a loopback address"));
    let line = refused(None, &[("APELORA_AUTH_STRATEGY", "http_basic")], &[]);
    assert!(line.starts_with("APELORA_AUTH_STRATEGY (environment): http_basic needs its users"), "{line}");
    let line = refused(None, &[], &[("http_basic_user_file", "/dev/null")]);
    assert!(
        line.starts_with("--http-basic-user-file (flag): has an effect with auth_strategy http_basic only"),
        "{line}"
    );
    let line = refused(None, &[], &[("tls_cert", "/dev/null")]);
    assert_eq!(line, "--tls-cert (flag): has no private key; set tls_key too");
    let line = refused(None, &[], &[("tls_key", "/dev/null")]);
    assert_eq!(line, "--tls-key (flag): has no certificate; set tls_cert too");
    let basic =
        [("auth_strategy", "http_basic"), ("http_basic_user_file", "/dev/null"), ("listen", "0.0.0.0:1")];
    let (config, _) = load(&sources::<ServerConfig>(None, &[], &basic)).unwrap();
    assert!(matches!(config.auth, AuthStrategy::HttpBasic { user_file } if *user_file == *"/dev/null"));
}

const KEYSTONE: [(&str, &str); 4] = [
    ("auth_strategy", "keystone"),
    ("keystone_url", "https://keystone.example.org:5000"),
    ("keystone_username", "apelora"),
    ("keystone_password", "sqlite://s3cret"),
];

#[test]
fn keystone_needs_an_address_and_an_account() {
    let (config, provenance) = load(&sources::<ServerConfig>(None, &[], &KEYSTONE)).unwrap();
    let AuthStrategy::Keystone(auth) = config.auth else { panic!("{:?}", config.auth) };
    assert_eq!(auth.validation.credentials.project_name, "service");
    assert_eq!(auth.validation.limits.cache.as_secs(), 300);
    let shown = format!("{:?} {:?}", auth, provenance.chosen);
    assert!(!shown.contains("s3cret") && shown.contains("***"), "{shown}");

    for needed in &KEYSTONE[1..] {
        let some: Vec<_> = KEYSTONE.iter().copied().filter(|(name, _)| *name != needed.0).collect();
        let line = refused(None, &[], &some);
        assert!(line.contains(&format!("keystone needs {}", needed.0)), "{line}");
        assert!(refused(None, &[], &[*needed]).contains("with auth_strategy keystone only"));
    }
    for (name, value, words) in [
        ("keystone_url", "http://keystone.example.org:5000", "without TLS"),
        ("keystone_url", "keystone", "write https://host:5000/v3"),
        ("keystone_cache_secs", "3601", "0 to 3600"),
        ("keystone_public_url", "https://\"", "cannot stand in a header"),
        ("keystone_ca_file", "missing.pem", "cannot read"),
        ("keystone_plain_http", "yes", "give 0 or 1"),
    ] {
        let mut changed: Vec<_> = KEYSTONE.iter().copied().filter(|(known, _)| *known != name).collect();
        changed.push((name, value));
        let line = refused(None, &[], &changed);
        assert!(line.contains(name.replace('_', "-").as_str()) && line.contains(words), "{line}");
    }
    let mut plain = KEYSTONE.to_vec();
    plain[1].1 = "http://keystone.example.org:5000";
    plain.push(("keystone_plain_http", "1"));
    assert!(load(&sources::<ServerConfig>(None, &[], &plain)).is_ok());
}

#[test]
fn what_makes_an_operator() {
    let policy = |flags: &[(&str, &str)]| load(&sources::<ServerConfig>(None, &[], flags)).unwrap().0.policy;
    assert!(!policy(&[]).authority.project_admin_is_system);
    assert!(policy(&[]).settings.enforce_new_defaults);
    let older = policy(&[("enforce_new_defaults", "0")]);
    assert!(older.authority.project_admin_is_system && !older.settings.enforce_new_defaults);
    let scope = policy(&[("enforce_scope", "0")]);
    assert!(scope.authority.project_admin_is_system && scope.settings.enforce_new_defaults);
    assert_eq!(policy(&[("service_project", "nova")]).authority.elevated_service_project, None);
    let elevated = policy(&[("service_role_elevated", "1")]);
    assert_eq!(elevated.authority.elevated_service_project.as_deref(), Some("service"));
}

#[test]
fn users_of_another_strategy_are_refused() {
    let line = refused(None, &[], &[("auth_strategy", "keystone"), ("http_basic_user_file", "/dev/null")]);
    assert!(line.contains("http_basic only"), "{line}");
}

#[test]
fn a_password_is_neither_shown_nor_repeated_in_an_error() {
    let environment = [("APELORA_DATABASE_URL", "mysql://a:s3cret@db/x")];
    let (_, provenance) = load(&sources::<ServerConfig>(None, &environment, &[])).unwrap();
    assert_eq!(provenance.chosen[0].1, "mysql://a@db/x");
    assert!(!refused(None, &[], &[("database_url", "mysqll://a:s3cret@db/x")]).contains("s3cret"));
}

#[test]
fn a_message_stays_one_line() {
    let line = refused(None, &[("APELORA_LISTEN", "a\nb\r\u{1b}[31m")], &[]);
    assert!(line.contains(r"a\nb\r\u{1b}[31m") && !line.chars().any(char::is_control), "{line}");
}

/// The table in `docs/settings.md` is this one.
#[test]
fn the_document_lists_every_setting() {
    let mut rows = String::from("| file key | environment | default | used by | |\n|---|---|---|---|---|\n");
    for setting in SETTINGS {
        let used: Vec<_> = PROCESSES
            .iter()
            .filter(|(_, settings)| settings().contains(setting))
            .map(|(process, _)| *process)
            .collect();
        let default = setting.default.map_or_else(|| "–".to_owned(), |d| format!("`{d}`"));
        let (name, env, doc) = (setting.name, setting.env(), setting.doc);
        rows.push_str(&format!("| `{name}` | `{env}` | {default} | {} | {doc} |\n", used.join(", ")));
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("docs/settings.md: {e}"));
    assert!(text.contains(&rows), "docs/settings.md must hold exactly this table:\n{rows}");
}
