//! The settings of the worker.

use super::Setting;

pub(crate) static WORKER_LISTEN: Setting = Setting::new(
    "worker_listen",
    "ADDRESS:PORT",
    Some("127.0.0.1:9642"),
    "Where the worker serves its metrics and its health; everybody who reaches the address may read them, and port 0 takes a free port",
);
pub(crate) static INCUS_URL: Setting = Setting::new(
    "incus_url",
    "URL,...",
    Some("unix:///var/lib/incus/unix.socket"),
    "The Incus cluster: unix:///PATH or https://HOST (port 8443 unless given); several members, with commas between, confirm each other's view",
);
pub(crate) static INCUS_CLIENT_CERT: Setting = Setting::new(
    "incus_client_cert",
    "FILE",
    None,
    "PEM with the certificate by which an https Incus knows the worker",
);
pub(crate) static INCUS_CLIENT_KEY: Setting =
    Setting::new("incus_client_key", "FILE", None, "The private key of incus_client_cert, as PEM");
pub(crate) static INCUS_SERVER_CERT: Setting = Setting::new(
    "incus_server_cert",
    "FILE",
    None,
    "PEM with the certificate of an https Incus (`cluster.crt`), the only one to believe; several during a change; `system` believes the system's authorities instead",
);
pub(crate) static INCUS_SINGLE_VIEW: Setting = Setting::new(
    "incus_single_view",
    "0|1",
    Some("0"),
    "1 attests that one endpoint must do: no second member confirms what it says about a failure",
);
pub(crate) static INCUS_HEALING_OFF: Setting = Setting::new(
    "incus_healing_off",
    "0|1",
    Some("0"),
    "1 attests that cluster.healing_threshold is 0, for a certificate that cannot read it; a value that can be read goes first",
);
pub(crate) static INCUS_SHARED_POOLS: Setting = Setting::new(
    "incus_shared_pools",
    "POOL,...",
    None,
    "Attests that these storage pools reach every member, for a certificate that cannot read them; a driver that can be read goes first",
);
pub(crate) static BMC_MAP: Setting = Setting::new(
    "bmc_map",
    "FILE",
    None,
    "The BMC map (JSON): which members may be switched off, and through which BMC; without it nothing is ever switched off",
);
pub(crate) static BMC_FENCE_AFTER_SECS: Setting = Setting::new(
    "bmc_fence_after_secs",
    "SECONDS",
    Some("30"),
    "How long a member must be Offline without interruption before it is switched off (20 to 3600)",
);
pub(crate) static BMC_ALLOW_LAB: Setting = Setting::new(
    "bmc_allow_lab",
    "0|1",
    Some("0"),
    "1 allows the provider `lima`, which stops virtual machines of this host; for a lab, never in production",
);
pub(crate) static LAB_SAN_VMS: Setting = Setting::new(
    "lab_san_vms",
    "NAME,...",
    Some("apelora-san"),
    "Virtual machines that the provider `lima` never stops, with commas between",
);
pub(crate) static SANLOCK_HOSTS: Setting = Setting::new(
    "sanlock_hosts",
    "FILE",
    None,
    "The storage leases (JSON): lockspaces, and for each member its host ids and whether its watchdog is attested; without it no lease is read",
);
pub(crate) static FAILURE_DOMAIN_RULE: Setting = Setting::new(
    "failure_domain_rule",
    "0|1",
    Some("0"),
    "1 sends nothing while all members of one failure domain, two or more, are Offline",
);
pub(crate) static PASS_INTERVAL_SECS: Setting = Setting::new(
    "pass_interval_secs",
    "SECONDS",
    Some("5"),
    "Seconds between two looks at the cluster (1 to 10); a gap of more than two of them starts every count again",
);
