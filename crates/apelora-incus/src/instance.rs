//! Instances.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::device::RawDevice;
use crate::envelope::wrong;
use crate::error::Problem;
use crate::strict::{Object, Picked, Unique, nullable};
use crate::{Device, Tie};

/// An instance, as one member shows it. Its key is project and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// The member it belongs to by the database, also when that member is gone.
    pub location: String,
    /// The word as it came: `Running`, `Stopped`, `Frozen`, `Error` … `Error` is what every instance of an
    /// unreachable member shows.
    pub status: String,
    /// Its type as it came: `container`, `virtual-machine`.
    pub kind: String,
    /// Everything that only its member knows. None when that member is not reached: then nothing is known of it, and
    /// what was read earlier is all there is.
    pub config: Option<InstanceConfig>,
    /// Whether it has backups, which Incus refuses to move. None when that was not asked for or is not known.
    pub has_backups: Option<bool>,
}

/// The configuration of an instance, after profiles are applied; only what decides about a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceConfig {
    /// Its CPU architecture.
    pub architecture: String,
    /// Whether it is deleted when it stops.
    pub ephemeral: bool,
    /// `boot.autostart`.
    pub autostart: Autostart,
    /// `boot.autostart.priority`: higher ones start first; 0 when it is not set or is no number.
    pub autostart_priority: i64,
    /// `cluster.evacuate`, as it came; none when it is not set.
    pub evacuate: Option<String>,
    /// `volatile.last_state.power`, as it came: `RUNNING` when it was running.
    pub last_power: Option<String>,
    /// `limits.memory`, as it came; see [`memory_bytes`](Self::memory_bytes).
    pub memory: Option<String>,
    /// Its devices, by name.
    pub devices: Vec<Device>,
}

/// `boot.autostart`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Autostart {
    /// Not set: the last power state decides.
    Unset,
    /// Starts.
    Yes,
    /// Does not start.
    No,
    /// Another word. `last-state` is one that newer versions have.
    Other(String),
}

impl Autostart {
    fn of(word: Option<String>) -> Self {
        let Some(word) = word.filter(|word| !word.is_empty()) else { return Self::Unset };
        match word.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Self::Yes,
            "false" | "0" | "no" | "off" => Self::No,
            _ => Self::Other(word),
        }
    }

    /// The setting, none when the last power state decides. A word that is not known does not start anything.
    #[must_use]
    pub fn setting(&self) -> Option<bool> {
        match self {
            Self::Unset => None,
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::Other(word) if word == "last-state" => None,
            Self::Other(_) => Some(false),
        }
    }
}

impl InstanceConfig {
    /// Whether it was running when its member last wrote that down.
    #[must_use]
    pub fn was_running(&self) -> bool {
        self.last_power.as_deref() == Some("RUNNING")
    }

    /// The pool of its root disk; none when it has no root disk, or several.
    #[must_use]
    pub fn root_pool(&self) -> Option<&str> {
        let mut roots = self.devices.iter().filter(|d| d.kind == "disk" && d.path.as_deref() == Some("/"));
        match (roots.next(), roots.next()) {
            (Some(root), None) => root.pool.as_deref(),
            _ => None,
        }
    }

    /// The pools of all its disks. It can only move when every one of them is shared.
    #[must_use]
    pub fn pools(&self) -> BTreeSet<&str> {
        self.devices.iter().filter(|d| d.kind == "disk").filter_map(|d| d.pool.as_deref()).collect()
    }

    /// How fast its devices tie it to its server: the fastest one counts.
    #[must_use]
    pub fn tie(&self) -> Tie {
        self.devices.iter().map(Device::tie).max().unwrap_or(Tie::Free)
    }

    /// `limits.memory` in bytes; none when it is not set, is a share of the server's memory, or cannot be read.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let text = self.memory.as_deref()?;
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (base, power) = match unit {
            "" | "B" => (1, 0),
            "kB" => (1000, 1),
            "MB" => (1000, 2),
            "GB" => (1000, 3),
            "TB" => (1000, 4),
            "PB" => (1000, 5),
            "EB" => (1000, 6),
            "KiB" => (1024, 1),
            "MiB" => (1024, 2),
            "GiB" => (1024, 3),
            "TiB" => (1024, 4),
            "PiB" => (1024, 5),
            "EiB" => (1024, 6),
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(u64::pow(base, power))
    }
}

#[derive(Deserialize)]
pub(crate) struct RawInstance {
    name: String,
    project: String,
    location: String,
    status: String,
    #[serde(rename = "type")]
    kind: String,
    architecture: String,
    ephemeral: bool,
    // Null when the member is not reached; the expanded ones are absent then.
    #[serde(deserialize_with = "nullable")]
    config: Option<Picked>,
    #[serde(deserialize_with = "nullable")]
    devices: Option<IgnoredAny>,
    expanded_config: Option<Picked>,
    expanded_devices: Option<Unique<Object<RawDevice>>>,
    // Absent unless it was asked for, and null when there are none.
    #[serde(default, deserialize_with = "present")]
    backups: Option<Option<Vec<IgnoredAny>>>,
}

/// Tells a value that is null from one that is absent.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl RawInstance {
    /// Reads one. `place` is its path in the answer; `full` says whether backups were asked for.
    fn read(self, place: &str, full: bool) -> Result<Instance, Problem> {
        for (field, value) in [("name", &self.name), ("project", &self.project), ("location", &self.location)]
        {
            if value.is_empty() {
                return Err(wrong(&format!("{place}.{field}"), "it is empty"));
            }
        }
        if self.config.is_some() != self.devices.is_some() {
            return Err(wrong(place, "one of config and devices is null and the other is not"));
        }
        if full && self.backups.is_none() {
            return Err(wrong(&format!("{place}.backups"), "it is missing"));
        }
        let known = self.config.is_some();
        let has_backups = self.backups.filter(|_| known && full);
        let has_backups = has_backups.map(|list| list.is_some_and(|backups| !backups.is_empty()));
        let config = known.then(|| {
            // An empty map is left out by the server.
            let mut config = self.expanded_config.unwrap_or_default();
            let devices = self.expanded_devices.map_or_else(BTreeMap::new, |devices| devices.0);
            let mut set = |key| config.take(key).filter(|value: &String| !value.is_empty());
            InstanceConfig {
                architecture: self.architecture,
                ephemeral: self.ephemeral,
                autostart: Autostart::of(set("boot.autostart")),
                autostart_priority: set("boot.autostart.priority").and_then(|p| p.parse().ok()).unwrap_or(0),
                evacuate: set("cluster.evacuate"),
                last_power: set("volatile.last_state.power"),
                memory: set("limits.memory"),
                devices: devices.into_iter().map(|(name, Object(device))| device.named(name)).collect(),
            }
        });
        let Self { project, name, location, status, kind, .. } = self;
        Ok(Instance { project, name, location, status, kind, config, has_backups })
    }

    pub(crate) fn read_one(self) -> Result<Instance, Problem> {
        self.read("metadata", false)
    }

    /// Reads a list, in which no instance may be twice.
    pub(crate) fn read_all(all: Vec<Object<Self>>, full: bool) -> Result<Vec<Instance>, Problem> {
        let mut read = Vec::with_capacity(all.len());
        let mut seen = BTreeSet::new();
        for (at, Object(raw)) in all.into_iter().enumerate() {
            let place = format!("metadata[{at}]");
            let instance = raw.read(&place, full)?;
            if !seen.insert((instance.project.clone(), instance.name.clone())) {
                return Err(wrong(&place, format!("{}/{} is there twice", instance.project, instance.name)));
            }
            read.push(instance);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(devices: &[(&str, &str, Option<&str>, Option<&str>)]) -> InstanceConfig {
        let text = |value: Option<&str>| value.map(str::to_owned);
        let device = |&(name, kind, pool, path): &(&str, &str, Option<&str>, Option<&str>)| Device {
            name: name.to_owned(),
            kind: kind.to_owned(),
            pool: text(pool),
            source: None,
            path: text(path),
            network: None,
        };
        InstanceConfig {
            architecture: "x86_64".to_owned(),
            ephemeral: false,
            autostart: Autostart::Unset,
            autostart_priority: 0,
            evacuate: None,
            last_power: None,
            memory: None,
            devices: devices.iter().map(device).collect(),
        }
    }

    #[test]
    fn autostart_is_read_as_incus_reads_it() {
        for (word, setting) in [
            (None, None),
            (Some(""), None),
            (Some("last-state"), None),
            (Some("true"), Some(true)),
            (Some("1"), Some(true)),
            (Some("YES"), Some(true)),
            (Some("on"), Some(true)),
            (Some("false"), Some(false)),
            (Some("0"), Some(false)),
            (Some("No"), Some(false)),
            (Some("off"), Some(false)),
            (Some("perhaps"), Some(false)),
            (Some("Last-State"), Some(false)),
        ] {
            assert_eq!(Autostart::of(word.map(str::to_owned)).setting(), setting, "{word:?}");
        }
    }

    #[test]
    fn memory_limits_are_read_as_incus_reads_them() {
        for (text, bytes) in [
            ("1024", Some(1024)),
            ("7B", Some(7)),
            ("2kB", Some(2_000)),
            ("3MB", Some(3_000_000)),
            ("512MiB", Some(512 << 20)),
            ("16GiB", Some(16 << 30)),
            ("1TiB", Some(1 << 40)),
            ("15EiB", Some(15 << 60)),
            ("16EiB", None),
            ("50%", None),
            ("", None),
            ("GiB", None),
            ("1.5GiB", None),
            ("1 GiB", None),
            ("-1", None),
            ("99999999999999999999", None),
        ] {
            let read = InstanceConfig { memory: Some(text.to_owned()), ..config(&[]) };
            assert_eq!(read.memory_bytes(), bytes, "{text}");
        }
        assert_eq!(config(&[]).memory_bytes(), None);
    }

    #[test]
    fn the_worst_device_counts_and_every_pool() {
        let root = ("root", "disk", Some("shared"), Some("/"));
        let data = ("data", "disk", Some("local"), Some("/data"));
        assert_eq!(config(&[]).root_pool(), None);
        assert_eq!(config(&[data]).root_pool(), None);
        assert_eq!(config(&[root, ("r2", "disk", Some("local"), Some("/"))]).root_pool(), None, "which?");
        let both = config(&[data, root]);
        assert_eq!((both.root_pool(), both.tie()), (Some("shared"), Tie::Free));
        assert_eq!(both.pools(), BTreeSet::from(["local", "shared"]));
        assert_eq!(config(&[root, ("eth0", "nic", None, None)]).tie(), Tie::Loose);
        assert_eq!(
            config(&[("gpu", "gpu", None, None), ("eth0", "nic", None, None), root]).tie(),
            Tie::Server
        );
    }
}
