//! The sample of the settings, and the settings that documents speak of.

use std::fs;
use std::path::Path;

use super::super::sample;
use super::super::table::{self, CONFIG_FILE_ENV, SETTINGS, Setting};
use super::super::{Configuration, DatabaseConfig, OneLine, PolicyConfig, ServerConfig, WorkerConfig, load};
use super::sources;

/// What must be set beside a setting for it to mean anything.
fn beside(setting: &Setting) -> &'static [&'static Setting] {
    static KEYSTONE: &[&Setting] =
        &[&table::KEYSTONE_URL, &table::KEYSTONE_USERNAME, &table::KEYSTONE_PASSWORD];
    static TLS: &[&Setting] = &[&table::TLS_CERT, &table::TLS_KEY];
    static INCUS: &[&Setting] =
        &[&table::INCUS_CLIENT_CERT, &table::INCUS_CLIENT_KEY, &table::INCUS_SERVER_CERT];
    match setting.name {
        "keystone_url"
        | "keystone_public_url"
        | "keystone_username"
        | "keystone_password"
        | "keystone_ca_file" => KEYSTONE,
        "tls_cert" | "tls_key" => TLS,
        "incus_client_cert" | "incus_client_key" | "incus_server_cert" => INCUS,
        _ => &[],
    }
}

/// The sample with the marks of these settings taken away, and its `/etc/apelora` in a folder where all files are.
fn uncommented(settings: &[&Setting], folder: &Path) -> String {
    let line = |line: &str| {
        let of = |setting: &&Setting| line.starts_with(&format!("#{} = ", setting.name));
        if settings.iter().any(of) { line[1..].to_owned() } else { line.to_owned() }
    };
    let text: String = sample().lines().map(|l| line(l) + "\n").collect();
    let mut text = text.replace("/etc/apelora/", &format!("{}/", folder.display()));
    let name = settings.first().map_or("", |setting| setting.name);
    if name.starts_with("keystone_") && beside(settings[0]).len() > 1 {
        text.push_str("auth_strategy = 'keystone'\n");
    }
    if name == "http_basic_user_file" {
        text.push_str("auth_strategy = 'http_basic'\n");
    }
    if matches!(name, "incus_client_cert" | "incus_client_key" | "incus_server_cert") {
        text.push_str("incus_url = 'https://s1,https://s2'\n");
    }
    text
}

#[test]
fn every_setting_in_the_sample_is_accepted_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::generate_simple_self_signed(vec!["s1".to_owned()]).unwrap();
    for (_, example) in sample::EXAMPLES {
        if let Some(file) = example.strip_prefix("/etc/apelora/") {
            let text = if file.ends_with(".key") { key.signing_key.serialize_pem() } else { key.cert.pem() };
            fs::write(folder.path().join(file), text).unwrap();
        }
    }
    let accepted = |settings: &[&Setting]| {
        let text = uncommented(settings, folder.path());
        let check = |line: Result<String, OneLine>| {
            line.unwrap_or_else(|why| panic!("{why}, with these lines set: {settings:?}"))
        };
        let mut chosen = String::new();
        chosen.push_str(&check(all_chosen::<ServerConfig>(&text)));
        chosen.push_str(&check(all_chosen::<WorkerConfig>(&text)));
        chosen.push_str(&check(all_chosen::<PolicyConfig>(&text)));
        chosen.push_str(&check(all_chosen::<DatabaseConfig>(&text)));
        for setting in settings {
            assert!(chosen.contains(&format!("\n{} ", setting.name)), "{setting} is not taken from the file");
        }
        chosen
    };
    let as_installed = accepted(&[]);
    assert!(as_installed.contains("\ndatabase_url sqlite:///var/lib/apelora/apelora.db"), "{as_installed}");
    let mut seen = 0;
    for setting in SETTINGS {
        let examples = sample::EXAMPLES.iter().filter(|(known, _)| known == setting).count();
        assert_eq!(
            examples + usize::from(setting.default.is_some()),
            1,
            "{setting}: a default or an example"
        );
        let lines = sample();
        let lines = lines.lines().filter(|line| {
            line.starts_with(&format!("{setting} = ")) || line.starts_with(&format!("#{setting} = "))
        });
        assert_eq!(lines.count(), 1, "{setting} stands in the sample once");
        accepted(&[&[*setting], beside(setting)].concat());
        seen += 1;
    }
    assert_eq!(sample().lines().filter(|line| line.contains(" = ")).count(), seen);
}

/// What process `C` takes from a file, a line each.
fn all_chosen<C: Configuration>(text: &str) -> Result<String, OneLine> {
    let (_, provenance) = load(&sources::<C>(Some(text), &[], &[]))?;
    Ok(provenance.chosen.iter().map(|(name, value, _)| format!("\n{name} {value}")).collect())
}

/// Variables that are for tests, and told of where the tests are.
const OF_TESTS: [&str; 4] = ["APELORA_TEST_", "APELORA_REAL_BMC_", "APELORA_NIGHT", "APELORA_FAILURES_TIMES"];

/// Whether a name in a document is one: a setting, the file's, a secret's; or the common beginning of some, as in
/// `APELORA_INCUS_*`.
fn is_known(name: &str) -> bool {
    let mut known: Vec<_> = SETTINGS.iter().map(|setting| setting.env()).collect();
    known.push(CONFIG_FILE_ENV.to_owned());
    name.starts_with(table::BMC_SECRET_PREFIX)
        || OF_TESTS.iter().any(|tests| name.starts_with(tests))
        || known.iter().any(|known| known == name || (name.ends_with('_') && known.starts_with(name)))
}

#[test]
fn every_documented_setting_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![top.join("README.md"), top.join("CHANGELOG.md")];
    for folder in ["docs", "docs/runbooks", "docs/decisions", "packaging/debian", "packaging/systemd"] {
        files.extend(fs::read_dir(top.join(folder)).unwrap().map(|file| file.unwrap().path()));
    }
    let mut names = 0;
    for file in files.iter().filter(|file| file.is_file()) {
        let text = fs::read_to_string(file).unwrap();
        for (at, _) in text.match_indices(table::ENV_PREFIX) {
            let name: String = text[at..]
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
                .collect();
            assert!(is_known(&name), "{name} in {} is no setting", file.display());
            names += 1;
        }
    }
    assert!(names > SETTINGS.len(), "only {names} names were found");
    assert!(!is_known("APELORA_LISTNE") && !is_known("APELORA_LISTEN_"));
}
