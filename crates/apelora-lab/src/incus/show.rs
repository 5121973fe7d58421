//! What the API shows of members, the server, pools and warnings.

use serde_json::{Value, json};

use crate::ident::{uuid, uuid_text};
use crate::incus::call::Caller;
use crate::incus::clock::{At, SECOND, go_duration, go_time, rfc3339};
use crate::incus::instance::{Instance, Look};
use crate::incus::machine::{Machine, Os, Role};
use crate::incus::world::World;

/// A whole recorded answer to `GET /1.0`; what depends on the cluster is replaced.
const SERVER: &str = include_str!("../../../../tests/data/incus/recordings/healthy-server-info.json");

const MEMORY: u64 = 25_276_502_016;

impl World {
    /// The status of a member and its message, by the clock of the member that is asked.
    pub(super) fn status(&self, asked: usize, member: usize, now: At) -> (String, String) {
        let set = self.machines.get(member).and_then(|machine| machine.status.clone());
        let (age, heartbeat) = self.heartbeat_age(asked, member, now);
        let offline = self.is_offline(asked, member, now);
        match set.as_deref() {
            Some("Evacuated") => ("Evacuated".to_owned(), "Unavailable due to maintenance".to_owned()),
            Some("Blocked") | None if offline => (
                "Offline".to_owned(),
                format!("No heartbeat for {} ({})", go_duration(age), go_time(heartbeat)),
            ),
            Some("Blocked") => ("Blocked".to_owned(), "Needs updating to newer version".to_owned()),
            Some(word) => (word.to_owned(), word.to_owned()),
            None => ("Online".to_owned(), "Fully operational".to_owned()),
        }
    }

    pub(super) fn show_member(&self, asked: usize, member: usize, now: At) -> Value {
        let Some(machine) = self.machines.get(member) else { return Value::Null };
        let (status, message) = self.status(asked, member, now);
        let mut roles = Vec::new();
        if self.database.shown_leader == member {
            roles.push("database-leader");
        }
        match machine.role {
            Role::Voter => roles.push("database"),
            Role::StandBy => roles.push("database-standby"),
            Role::Spare => {}
        }
        json!({
            "roles": roles, "failure_domain": "default", "description": "", "config": {}, "groups": ["default"],
            "server_name": machine.name, "url": format!("https://{}", machine.address),
            "database": !roles.is_empty(), "status": status, "message": message, "architecture": "x86_64",
        })
    }

    pub(super) fn show_cluster(&self, asked: usize) -> Value {
        let config: Vec<Value> = self
            .plan
            .pools
            .iter()
            .flat_map(|pool| {
                let keys: &[&str] =
                    if pool.driver == "lvmcluster" { &["lvm.vg_name", "source"] } else { &["source"] };
                keys.iter().map(|key| {
                    json!({
                        "entity": "storage-pool", "name": pool.name, "key": key, "value": "",
                        "description": format!("{key:?} property for storage pool {:?}", pool.name),
                    })
                })
            })
            .collect();
        json!({"server_name": self.name(asked), "enabled": true, "member_config": config})
    }

    /// `GET /1.0`, for a caller who may see everything, one who is restricted, or one who is not trusted.
    pub(super) fn show_server(&self, asked: usize, caller: &Caller, restricted: Option<bool>) -> Value {
        let Ok(mut recorded) = serde_json::from_str::<Value>(SERVER) else { return Value::Null };
        let mut shown = recorded["body"]["metadata"].take();
        let Some(restricted) = restricted else {
            if let Some(shown) = shown.as_object_mut() {
                shown.retain(|key, _| {
                    matches!(
                        key.as_str(),
                        "api_extensions" | "api_status" | "api_version" | "public" | "auth_methods"
                    )
                });
                shown.insert("auth".to_owned(), "untrusted".into());
            }
            return shown;
        };
        let (name, method) = match caller {
            Caller::Tls(Some(fingerprint)) => (fingerprint.as_str(), "tls"),
            Caller::Tls(None) => ("", "tls"),
            Caller::Socket => ("root", "unix"),
        };
        shown["auth_user_name"] = name.into();
        shown["auth_user_method"] = method.into();
        let Some(machine) = self.machines.get(asked) else { return Value::Null };
        shown["config"] = if restricted { json!({}) } else { self.config(machine) };
        let environment = &mut shown["environment"];
        environment["addresses"] = json!([machine.address]);
        environment["certificate"] = self.certificate.0.as_str().into();
        environment["certificate_fingerprint"] = self.certificate.1.as_str().into();
        environment["server_name"] = machine.name.as_str().into();
        environment["server_pid"] = (1000 + machine.boots).into();
        shown
    }

    fn config(&self, machine: &Machine) -> Value {
        let mut config = json!({
            "cluster.https_address": machine.address, "core.https_address": machine.address,
            "images.auto_update_interval": "0",
        });
        let threshold = self.plan.offline_threshold.as_secs();
        // Incus shows what is set, and nothing is set that has its default.
        if threshold != 20 {
            config["cluster.offline_threshold"] = threshold.to_string().into();
        }
        if let Some(healing) = self.plan.healing_threshold {
            config["cluster.healing_threshold"] = healing.to_string().into();
        }
        config
    }

    pub(super) fn show_member_state(&self, member: usize, now: At) -> Value {
        let here = self.instances.iter().filter(|instance| instance.runs_on.contains(&member));
        let used: u64 = here.map(|instance| u64::from(instance.plan.memory.unwrap_or(64)) << 20).sum();
        let pools: serde_json::Map<String, Value> = self
            .plan
            .pools
            .iter()
            .map(|pool| {
                let (inodes_used, inodes) = if pool.is_shared() { (0, 0) } else { (517_259, 16_777_216) };
                let usage = json!({
                    "space": {"used": 4_294_967_296_u64, "total": 68_719_476_736_u64},
                    "inodes": {"used": inodes_used, "total": inodes},
                });
                (pool.name.clone(), usage)
            })
            .collect();
        let uptime = now / SECOND % 1_000_000;
        json!({
            "sysinfo": {
                "uptime": uptime, "load_averages": [0.81, 0.7, 0.55], "total_ram": MEMORY,
                "free_ram": (MEMORY - (2 << 30)).saturating_sub(used), "shared_ram": 54_386_688,
                "buffered_ram": 82_710_528, "total_swap": 0, "free_swap": 0, "processes": 404,
            },
            "storage_pools": pools,
        })
    }

    pub(super) fn show_pools(&self) -> Value {
        let locations: Vec<&str> = self.machines.iter().map(|machine| machine.name.as_str()).collect();
        let pools = self.plan.pools.iter().map(|pool| {
            let on_it = self.instances.iter().filter(|instance| instance.plan.pool == pool.name);
            let mut used: Vec<String> = on_it.map(Instance::url).collect();
            if pool.name == "local" {
                used.push("/1.0/profiles/default".to_owned());
            }
            let config = if pool.is_shared() { json!({"volume.size": "16MiB"}) } else { json!({}) };
            json!({
                "config": config, "description": "", "name": pool.name, "driver": pool.driver, "used_by": used,
                "status": "Created", "locations": locations,
            })
        });
        pools.collect()
    }

    /// A member's warnings; a leader also warns of members that do not answer it.
    pub(super) fn show_warnings(&self, now: At) -> Value {
        let leader = self.database.shown_leader;
        let interval = self.database.interval();
        let silent = self.machines.iter().enumerate().filter(|(index, machine)| {
            let (age, _) = self.heartbeat_age(leader, *index, now);
            *index != leader && age > interval && !machine.connected()
        });
        let offline = silent.map(|(index, machine)| {
            let (age, heartbeat) = self.heartbeat_age(leader, index, now);
            let refused = machine.os == Os::Up && machine.cut_since.is_none();
            let why = if refused { "connect: connection refused" } else { "i/o timeout" };
            json!({
                "status": "new", "uuid": uuid_text(uuid(&[b"warning", machine.name.as_bytes()])), "location": self.name(leader),
                "project": "", "type": "Offline cluster member", "count": age / interval,
                "first_seen_at": rfc3339(heartbeat + interval), "last_seen_at": rfc3339(now),
                "last_message": format!(
                    "Failed to send heartbeat request: Put \"https://{0}/internal/database\": dial tcp {0}: {why}",
                    machine.address
                ),
                "severity": "low", "entity_url": "",
            })
        });
        let standing = json!({
            "status": "new", "uuid": uuid_text(uuid(&[b"warning", b"apparmor"])), "location": self.name(leader), "project": "",
            "type": "AppArmor support has been disabled", "count": 1,
            "first_seen_at": rfc3339(self.clock.start()), "last_seen_at": rfc3339(self.clock.start()),
            "last_message": "Disabled because of lack of kernel support", "severity": "low", "entity_url": "",
        });
        std::iter::once(standing).chain(offline).collect()
    }

    /// How an instance looks to the member that is asked.
    pub(super) fn look(&self, asked: usize, number: usize) -> Look {
        let Some(instance) = self.instances.get(number) else { return Look::Unknown };
        let there = instance.location;
        if self.machines.get(there).is_some_and(|machine| machine.mute) {
            return Look::Unknown;
        }
        if there != asked && !self.machines.get(there).is_some_and(Machine::known) {
            Look::Unknown
        } else if instance.runs_on.contains(&there) {
            Look::Running
        } else {
            Look::Stopped
        }
    }
}
