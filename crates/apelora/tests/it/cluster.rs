//! `apelora server` and `apelora worker` on one database, and a simulated cluster that the worker looks after.

use apelora_lab::incus::InstancePlan;
use apelora_lab::site::{Site, SitePlan};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::command::apelora;
use crate::nodes::Served;
use crate::running::{Running, address, request, until};

struct Cluster {
    served: Served,
    site: Site,
    /// The cluster lives on its threads.
    _runtime: Runtime,
}

impl Cluster {
    /// Four members, with an instance on `s3`.
    fn start() -> Self {
        let served = Served::start(&[]);
        let mut plan = SitePlan::new(&["s1", "s2", "s3", "s4"], &served.here.path().join("site"));
        plan.cluster.offline_threshold = std::time::Duration::from_secs(11);
        plan.cluster.instances = vec![InstancePlan::new("default", "web3", "s3")];
        let runtime = Runtime::new().unwrap();
        let site = runtime.block_on(Site::start(plan)).unwrap();
        Self { served, site, _runtime: runtime }
    }

    /// A worker in another process.
    fn worker(&self, flags: &[&str]) -> Running {
        let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let settings = [
            ("APELORA_INCUS_URL", self.site.incus_urls().join(",")),
            ("APELORA_INCUS_CLIENT_CERT", text(self.site.client_cert())),
            ("APELORA_INCUS_CLIENT_KEY", text(self.site.client_key())),
            ("APELORA_INCUS_SERVER_CERT", text(self.site.server_cert())),
            ("APELORA_BMC_MAP", text(self.site.bmc_map())),
            ("APELORA_BMC_FENCE_AFTER_SECS", "20".to_owned()),
            ("APELORA_WORKER_LISTEN", "127.0.0.1:0".to_owned()),
        ];
        let secrets = self.site.secrets().iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let environment: Vec<_> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).chain(secrets).collect();
        Running::start(&mut apelora(self.served.here.path(), &environment, &[&["worker"], flags].concat()))
    }

    fn stop(&self, worker: Running) {
        let (code, _, err) = worker.stop("-TERM");
        assert_eq!(code, Some(0), "{err}");
        for secret in self.site.secrets().values() {
            assert!(!err.contains(secret), "{err}");
        }
    }

    fn asked(&self) -> u32 {
        let members = self.site.members().iter();
        members.map(|member| self.site.bmc(member).unwrap().power_offs_asked()).sum()
    }

    /// The rows of the audit trail about `s3` with this action.
    fn audit(&self, action: &str) -> Vec<Value> {
        let list = ["audit", "list", "--member", "s3", "--action", action, "--format", "json"];
        self.served.ok(&list).json().as_array().unwrap().clone()
    }
}

#[test]
fn a_dry_run_says_so_and_sends_nothing() {
    let cluster = Cluster::start();
    let worker = cluster.worker(&["--dry-run"]);
    let at = address(&worker.err("http://"));
    worker.err("The cluster answers and lists 4 members.");
    cluster.site.crash("s3").unwrap();
    worker.err("the intent to switch s3 off is recorded");
    let ended = worker.err("The power-off of s3 ended: ");
    assert!(ended.contains(apelora_fencing::ReasonCode::DryRun.remedy()), "{ended}");

    let row = cluster.audit("cluster.member.power_off").pop().unwrap();
    assert_eq!((&row["outcome"], &row["reason_code"]), (&"refused".into(), &"dry_run".into()), "{row}");
    for arguments in [&["fence", "explain", "s3"][..], &["member", "list"], &["member", "show", "s3"]] {
        let said = cluster.served.ok(arguments).out;
        assert!(said.contains("It runs with --dry-run and switches nothing off."), "{arguments:?}: {said}");
    }
    let figures = request(&at, "GET", "/metrics", "").1;
    assert!(figures.contains("apelora_fence_refusals_total{reason=\"dry_run\"} 1"), "{figures}");
    assert_eq!(cluster.asked(), 0);
    assert!(cluster.site.has_power("s3").unwrap());
    assert!(cluster.site.running("default", "web3").is_empty());
    cluster.stop(worker);
}

#[test]
fn a_persons_word_is_taken_without_a_worker_and_honoured_by_the_next_one() {
    let cluster = Cluster::start();
    let first = cluster.worker(&[]);
    first.err("The cluster answers and lists 4 members.");
    let s3 = || cluster.served.run(&["member", "show", "s3", "--format", "json"]);
    // What a server runs is read while it is well.
    until(|| s3().out.contains("web3"));
    cluster.site.crash("s3").unwrap();
    first.err("The cluster reports s3 as Offline; if it stays so for 20 s");
    until(|| s3().json()["member"]["online"] == false);
    cluster.stop(first);

    let confirm =
        ["member", "confirm-off", "s3", "--reason", "seen dark", "--yes", "s3", "--incarnation", "1"];
    let confirmed = cluster.served.run(&confirm);
    assert_eq!(confirmed.code, 0, "{confirmed:?}");
    cluster.site.lose_power("s3").unwrap();

    let second = cluster.worker(&[]);
    second.err("This worker leads (epoch 2)");
    second.err("Instance web3 (project default) runs again on s");
    second.err("Everything that s3 ran is taken care of");
    assert_eq!(cluster.audit("cluster.member.power_off"), Vec::<Value>::new());
    assert_eq!(cluster.audit("cluster.member.recovered").len(), 1);
    assert_eq!(cluster.asked(), 0);
    assert!(cluster.site.ran_twice().is_empty());
    cluster.stop(second);
}
