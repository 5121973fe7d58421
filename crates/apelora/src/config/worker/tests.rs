use std::io::Write as _;

use super::*;
use crate::config::table::find;
use crate::config::{Flags, Provenance, Sources, load};

fn loaded(
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<(WorkerConfig, Provenance), String> {
    let flags = flags.iter().map(|(k, v)| (find(k).unwrap(), (*v).to_owned())).collect();
    let environment = environment.iter().map(|(k, v)| (k.into(), v.into())).collect();
    load(&Sources { file: None, environment, flags: Flags::of(flags) }).map_err(|line| line.to_string())
}

fn refused(flags: &[(&str, &str)]) -> String {
    match loaded(&[], flags) {
        Ok((config, _)) => panic!("accepted: {config:?}"),
        Err(line) => line,
    }
}

#[test]
fn defaults_watch_the_cluster_of_this_host_and_switch_nothing_off() {
    let (config, _) = loaded(&[], &[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:9642");
    assert_eq!(config.limits, Limits::PRODUCTION);
    assert_eq!(config.incus.urls, ["unix:///var/lib/incus/unix.socket"]);
    assert!(config.incus.tls.is_none());
    assert!(!config.incus.single_view && !config.incus.healing_off && config.incus.shared_pools.is_empty());
    assert_eq!(config.bmcs.map, None);
    assert!(!config.bmcs.allow_lab && !config.failure_domain_rule);
    assert_eq!(config.bmcs.lab_san_vms, ["apelora-san"]);
    assert_eq!(config.sanlock_hosts, None);
}

const URLS: &str = "https://s1,https://10.0.0.2:9443, https://[fd00::4]:444/";

/// A certificate and its key, in files.
struct Pair {
    _folder: tempfile::TempDir,
    cert: String,
    key: String,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["worker".to_owned()]).unwrap();
        let file = |name: &str, pem: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (cert, key) = (file("w.crt", made.cert.pem()), file("w.key", made.signing_key.serialize_pem()));
        Self { _folder: folder, cert, key }
    }

    fn https(&self) -> [(&str, &str); 4] {
        [
            ("incus_url", URLS),
            ("incus_client_cert", &self.cert),
            ("incus_client_key", &self.key),
            ("incus_server_cert", &self.cert),
        ]
    }
}

#[test]
fn an_https_cluster_has_several_endpoints_and_both_sides_are_known() {
    let pair = Pair::new();
    let (config, _) = loaded(&[], &pair.https()).unwrap();
    assert_eq!(config.incus.urls, ["https://s1", "https://10.0.0.2:9443", "https://[fd00::4]:444/"]);
    let tls = config.incus.tls.unwrap();
    assert_eq!(tls.client_key.to_str(), Some(pair.key.as_str()));
    assert_eq!(tls.server_cert.as_deref().and_then(|path| path.to_str()), Some(pair.cert.as_str()));
    let mut system = pair.https();
    system[3].1 = "system";
    assert_eq!(loaded(&[], &system).unwrap().0.incus.tls.unwrap().server_cert, None);
}

#[test]
fn files_that_hold_something_else_are_told_by_their_setting() {
    let (pair, other) = (Pair::new(), Pair::new());
    for (i, file, words) in [
        (1, "/dev/null", "--incus-client-cert (flag): /dev/null: it holds no certificate"),
        (2, "/dev/null", "--incus-client-cert (flag): /dev/null: it holds no private key"),
        (2, &other.key, "--incus-client-cert (flag): "),
        (3, "/dev/null", "--incus-server-cert (flag): the file of pinned server certificates /dev/null"),
    ] {
        let mut wrong = pair.https();
        wrong[i].1 = file;
        let line = refused(&wrong);
        assert!(line.starts_with(words) && line.contains("; "), "{line}");
    }
}

#[test]
fn contradictions_about_the_cluster_are_refused() {
    let pair = Pair::new();
    for (missing, words) in [
        ("incus_client_cert", "--incus-client-key (flag): has no certificate; set incus_client_cert too"),
        ("incus_client_key", "--incus-client-cert (flag): has no private key; set incus_client_key too"),
        ("incus_server_cert", "--incus-url (flag): an https Incus needs incus_server_cert"),
    ] {
        let some: Vec<_> = pair.https().into_iter().filter(|(name, _)| *name != missing).collect();
        let line = refused(&some);
        assert!(line.starts_with(words), "{line}");
    }
    let line = refused(&pair.https()[..1]);
    assert!(line.starts_with("--incus-url (flag): an https Incus needs incus_client_cert"), "{line}");
    for setting in ["incus_client_cert", "incus_client_key", "incus_server_cert"] {
        let line = refused(&[(setting, "/dev/null")]);
        assert!(line.contains("with an https endpoint in incus_url only"), "{line}");
    }
    for (url, words) in [
        ("https://s1,https://S1:8443", "https://s1:8443 is given twice"),
        ("unix:///a,unix:///a", "'unix:///a' is given twice"),
        ("unix:///a,", "has an empty item"),
        ("unix://a", "names no socket"),
        ("https://s1/1.0", "is not a bare address"),
        ("https://s1:0", "no valid port"),
        ("s1:8443", "is not an Incus address"),
    ] {
        let mut https = pair.https();
        https[0].1 = url;
        let line = refused(&https);
        assert!(line.starts_with("--incus-url (flag): ") && line.contains(words), "{url}: {line}");
    }
    let line = refused(&[("incus_url", "unix:///a,unix:///b"), ("incus_single_view", "1")]);
    assert!(line.starts_with("--incus-single-view (flag): has an effect with a single endpoint"), "{line}");
}

#[test]
fn the_figures_keep_their_relations() {
    let (config, _) = loaded(&[], &[("bmc_fence_after_secs", "20"), ("pass_interval_secs", "10")]).unwrap();
    assert_eq!((config.limits.fence_after.as_secs(), config.limits.pass_interval.as_secs()), (20, 10));
    assert_eq!(config.limits.broken(), None);
    let line = refused(&[("bmc_fence_after_secs", "19")]);
    assert!(line.contains("give a whole number from 20 to 3600"), "{line}");
}

#[test]
fn checks_need_their_file() {
    let none = || Vec::new();
    let sources = Sources::<BmcCheckConfig> { file: None, environment: none(), flags: Flags::of(Vec::new()) };
    let line = load(&sources).map(|_| ()).unwrap_err().to_string();
    assert_eq!(line, "bmc_map: not set; set APELORA_BMC_MAP or --bmc-map");
    let sources =
        Sources::<LeaseCheckConfig> { file: None, environment: none(), flags: Flags::of(Vec::new()) };
    let line = load(&sources).map(|_| ()).unwrap_err().to_string();
    assert_eq!(line, "sanlock_hosts: not set; set APELORA_SANLOCK_HOSTS or --sanlock-hosts");
}

#[test]
fn what_is_in_force_is_shown_with_its_source_and_without_secrets() {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(b"pass_interval_secs = 4\n").unwrap();
    let environment = [
        ("APELORA_DATABASE_URL", "postgresql://a:s3cret@db/x"),
        ("APELORA_BMC_SECRET_S1", "calvin"),
        ("APELORA_CONFIG", file.path().to_str().unwrap()),
    ];
    let (_, provenance) = loaded(&environment, &[("bmc_fence_after_secs", "45")]).unwrap();
    let shown = |name: &str| {
        let found = provenance.effective.iter().find(|setting| setting.name == name).expect(name);
        (found.value.as_str(), found.source.as_str())
    };
    assert_eq!(shown("APELORA_DATABASE_URL"), ("postgresql://a@db/x", "environment"));
    assert_eq!(shown("APELORA_PASS_INTERVAL_SECS"), ("4", "file"));
    assert_eq!(shown("APELORA_BMC_FENCE_AFTER_SECS"), ("45", "flag"));
    assert_eq!(shown("APELORA_LAB_SAN_VMS"), ("apelora-san", "default"));
    assert_eq!(shown("APELORA_BMC_MAP"), ("", "default"));
    assert_eq!(shown("APELORA_BMC_SECRET_S1"), ("***", "environment"));
    assert_eq!(provenance.effective.len(), WorkerConfig::settings().len() + 1);
    let all = format!("{:?}", provenance.effective);
    assert!(!all.contains("s3cret") && !all.contains("calvin"), "{all}");
}

#[test]
fn a_pipe_is_refused_and_its_writer_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for setting in ["bmc_map", "sanlock_hosts"] {
        let line = refused(&[(setting, pipe)]);
        assert!(line.contains("it is a pipe") && line.contains("give the path of a file"), "{line}");
    }
}
