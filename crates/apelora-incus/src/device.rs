//! Devices of an instance, and whether they tie it to its server.

use serde::Deserialize;

/// A device, after profiles are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name in the instance.
    pub name: String,
    /// Its type, as it came: `disk`, `nic`, `gpu`, `usb`, `pci` …
    pub kind: String,
    /// The storage pool, for a volume of one.
    pub pool: Option<String>,
    /// What a disk shows inside: a volume's name, or a path or other source outside of pools.
    pub source: Option<String>,
    /// Where a disk is mounted; `/` is the root.
    pub path: Option<String>,
    /// The managed network of a network interface.
    pub network: Option<String>,
}

/// How fast a device ties an instance to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tie {
    /// Not at all. A disk on a pool is as free as the pool is shared, which is not looked at here.
    Free,
    /// It works elsewhere if the other server is set up alike, which the cluster does not know: an interface on a
    /// bridge that Incus does not manage, a proxy, a TPM, a Ceph image outside of pools. `cluster.evacuate=auto`
    /// leaves such an instance; only `migrate` says that it may move.
    Loose,
    /// It is a thing of this server: a path, GPU, USB, PCI or character device, or a type that this crate does not
    /// know.
    Server,
}

/// Disks whose content is made at start or comes with the instance.
const MADE: [&str; 2] = ["cloud-init:config", "agent:config"];

impl Device {
    /// How fast it ties its instance to its server.
    #[must_use]
    pub fn tie(&self) -> Tie {
        match self.kind.as_str() {
            "none" => Tie::Free,
            "disk" if self.pool.is_some() => Tie::Free,
            "disk" => match self.source.as_deref() {
                Some(source) if MADE.contains(&source) => Tie::Free,
                Some(source) if source.starts_with("ceph:") || source.starts_with("cephfs:") => Tie::Loose,
                _ => Tie::Server,
            },
            "nic" if self.network.is_some() => Tie::Free,
            "nic" | "proxy" | "tpm" => Tie::Loose,
            _ => Tie::Server,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct RawDevice {
    #[serde(rename = "type")]
    kind: String,
    pool: Option<String>,
    source: Option<String>,
    path: Option<String>,
    network: Option<String>,
}

impl RawDevice {
    pub(crate) fn named(self, name: String) -> Device {
        let set = |value: Option<String>| value.filter(|text| !text.is_empty());
        Device {
            name,
            kind: self.kind,
            pool: set(self.pool),
            source: set(self.source),
            path: set(self.path),
            network: set(self.network),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ties_an_instance_to_its_server() {
        for (json, tie) in [
            (r#"{"type":"disk","path":"/","pool":"local"}"#, Tie::Free),
            (r#"{"type":"disk","path":"/data","pool":"shared","source":"vol"}"#, Tie::Free),
            (r#"{"type":"disk","path":"/data","source":"/srv/data"}"#, Tie::Server),
            (r#"{"type":"disk","path":"/data","pool":"","source":"/srv/data"}"#, Tie::Server),
            (r#"{"type":"disk","path":"/data"}"#, Tie::Server),
            (r#"{"type":"disk","source":"cloud-init:config"}"#, Tie::Free),
            (r#"{"type":"disk","source":"agent:config"}"#, Tie::Free),
            (r#"{"type":"disk","source":"cloud-init:other"}"#, Tie::Server),
            (r#"{"type":"disk","source":"ceph:pool/image"}"#, Tie::Loose),
            (r#"{"type":"disk","source":"cephfs:fs/path"}"#, Tie::Loose),
            (r#"{"type":"nic","network":"ovn1"}"#, Tie::Free),
            (r#"{"type":"nic","nictype":"bridged","parent":"br0"}"#, Tie::Loose),
            (r#"{"type":"proxy","listen":"tcp:0.0.0.0:80"}"#, Tie::Loose),
            (r#"{"type":"tpm"}"#, Tie::Loose),
            (r#"{"type":"none"}"#, Tie::Free),
            (r#"{"type":"gpu"}"#, Tie::Server),
            (r#"{"type":"usb"}"#, Tie::Server),
            (r#"{"type":"pci"}"#, Tie::Server),
            (r#"{"type":"unix-char","source":"/dev/x"}"#, Tie::Server),
            (r#"{"type":"infiniband","network":"x"}"#, Tie::Server),
            (r#"{"type":"Disk","pool":"shared"}"#, Tie::Server),
            (r#"{"type":""}"#, Tie::Server),
        ] {
            let device = serde_json::from_str::<RawDevice>(json).unwrap().named("d".to_owned());
            assert_eq!(device.tie(), tie, "{json}");
        }
    }
}
