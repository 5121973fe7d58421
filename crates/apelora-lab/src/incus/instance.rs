//! An instance: its row in the database, and where it really runs.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::ident::{digest, hex, uuid, uuid_text};
use crate::incus::clock::{At, rfc3339};
use crate::incus::plan::InstancePlan;
use crate::incus::truth::InstanceName;

/// What was recorded for each instance of one image.
const IDMAP: &str = r#"[{"Isuid":true,"Isgid":false,"Hostid":1000000,"Nsid":0,"Maprange":1000000000},{"Isuid":false,"Isgid":true,"Hostid":1000000,"Nsid":0,"Maprange":1000000000}]"#;
const NEVER: &str = "0001-01-01T00:00:00Z";

/// How an instance looks to a member that can ask the one that it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It runs there.
    Running,
    /// It does not.
    Stopped,
    /// That member cannot be asked.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Instance {
    pub(super) plan: InstancePlan,
    /// The member of its row.
    pub(super) location: usize,
    /// `volatile.last_state.power` is `RUNNING`.
    pub(super) last_ran: bool,
    /// Where it runs, in truth.
    pub(super) runs_on: BTreeSet<usize>,
    /// Who holds the lease of its volume.
    pub(super) lease: Option<usize>,
    /// An evacuation has stopped it.
    pub(super) evacuated: bool,
    pub(super) created: At,
    pub(super) used: At,
}

impl Instance {
    pub(super) fn name(&self) -> InstanceName {
        InstanceName { project: self.plan.project.clone(), name: self.plan.name.clone() }
    }

    /// Its URL, as operations name it.
    pub(super) fn url(&self) -> String {
        match self.plan.project.as_str() {
            "default" => format!("/1.0/instances/{}", self.plan.name),
            project => format!("/1.0/instances/{}?project={project}", self.plan.name),
        }
    }

    /// The name of its volume.
    pub(super) fn volume(&self) -> String {
        let kind = if self.plan.virtual_machine { "virtual-machines" } else { "containers" };
        let name = match self.plan.project.as_str() {
            "default" => self.plan.name.clone(),
            project => format!("{project}_{}", self.plan.name),
        };
        format!("{kind}_{}", name.replace('-', "--"))
    }

    /// Whether Incus starts it when its member boots.
    pub(super) fn starts_at_boot(&self) -> bool {
        self.plan.autostart.unwrap_or(self.last_ran)
    }

    fn config(&self) -> Map<String, Value> {
        let mut config = Map::new();
        let mut set = |key: &str, value: String| drop(config.insert(key.to_owned(), value.into()));
        if let Some(autostart) = self.plan.autostart {
            set("boot.autostart", autostart.to_string());
        }
        if let Some(word) = &self.plan.evacuate {
            set("cluster.evacuate", word.clone());
        }
        set("image.description", "tiny lab image".to_owned());
        set("image.os", "busybox".to_owned());
        if let Some(memory) = self.plan.memory {
            set("limits.memory", format!("{memory}MiB"));
        }
        let own = uuid_text(uuid(&[b"instance", self.url().as_bytes()]));
        set("volatile.base_image", hex(&digest(&[b"tiny"])));
        set("volatile.cloud-init.instance-id", uuid_text(uuid(&[b"cloud-init", self.url().as_bytes()])));
        if !self.plan.virtual_machine {
            set("volatile.idmap.base", "0".to_owned());
            set("volatile.idmap.current", IDMAP.to_owned());
            set("volatile.idmap.next", IDMAP.to_owned());
            set("volatile.last_state.idmap", "[]".to_owned());
        }
        set("volatile.last_state.power", if self.last_ran { "RUNNING" } else { "STOPPED" }.to_owned());
        set("volatile.uuid", own.clone());
        set("volatile.uuid.generation", own);
        config
    }

    /// Its devices: those of its own, and those of its profile too. The profile has the root disk on `local`.
    fn devices(&self) -> (Map<String, Value>, Map<String, Value>) {
        let mut own = Map::new();
        let root = json!({"path": "/", "pool": self.plan.pool, "type": "disk"});
        if self.plan.pool != "local" {
            own.insert("root".to_owned(), root.clone());
        }
        if self.plan.local_device {
            own.insert("key".to_owned(), json!({"type": "usb", "vendorid": "1050", "productid": "0407"}));
        }
        let mut expanded = own.clone();
        expanded.insert("root".to_owned(), root);
        (own, expanded)
    }

    /// What the API shows of it. `whole`: with state, snapshots and backups.
    pub(super) fn show(&self, location: &str, look: Look, whole: bool) -> Value {
        let kind = if self.plan.virtual_machine { "virtual-machine" } else { "container" };
        let (status, code) = match look {
            Look::Running => ("Running", 103),
            Look::Stopped => ("Stopped", 102),
            Look::Unknown => ("Error", 112),
        };
        // Incus knows no more than the row's key of an instance whose member cannot be asked.
        let mut shown = if look == Look::Unknown {
            json!({
                "architecture": "", "config": null, "devices": null, "ephemeral": false, "profiles": null,
                "stateful": false, "description": "", "created_at": NEVER,
                "name": self.plan.name, "status": status, "status_code": code, "last_used_at": NEVER,
                "location": location, "type": kind, "project": self.plan.project,
            })
        } else {
            let (config, (own, expanded)) = (self.config(), self.devices());
            json!({
                "architecture": "x86_64", "config": config, "devices": own, "ephemeral": self.plan.ephemeral,
                "profiles": ["default"], "stateful": false, "description": "",
                "created_at": rfc3339(self.created), "expanded_config": config, "expanded_devices": expanded,
                "name": self.plan.name, "status": status, "status_code": code,
                "last_used_at": rfc3339(self.used), "location": location, "type": kind,
                "project": self.plan.project,
            })
        };
        if whole {
            let known = look != Look::Unknown;
            shown["backups"] = if known && self.plan.backup {
                json!([{"name": "backup0", "created_at": rfc3339(self.created), "expires_at": NEVER,
                    "instance_only": false, "container_only": false, "optimized_storage": false}])
            } else if known {
                json!([])
            } else {
                Value::Null
            };
            shown["state"] = if known {
                json!({"status": status, "status_code": code, "disk": {}, "memory": {}, "network": null, "pid": 0,
                    "processes": 0, "cpu": {"usage": 0}})
            } else {
                Value::Null
            };
            shown["snapshots"] = if known { json!([]) } else { Value::Null };
        }
        shown
    }
}
