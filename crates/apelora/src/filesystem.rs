//! Whether the file of a SQLite database is on this host alone.
//!
//! SQLite's write-ahead log is shared memory between the processes that use the file, so all of them must run on one
//! host (<https://www.sqlite.org/wal.html>, "WAL does not work over a network filesystem"). On a network file system
//! two hosts could open it, and two workers could both lead.

use std::io;
use std::path::Path;

use apelora_store::DatabaseUrl;
use rustix::fs::{major, minor, stat, statfs};

use crate::config::{DATABASE_URL_NAME, OneLine};

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Home {
    /// On a file system of this host, as far as can be seen.
    Local,
    /// On one that other hosts reach, of this kind.
    Network(String),
    /// On one of this kind, behind which anything may be.
    Unclear(String),
}

/// Kinds whose number says everything: `statfs(2)`, and `linux/magic.h`.
const NETWORK: [(u64, &str); 13] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x00c3_6400, "CephFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x1983_0326, "BeeGFS"),
];
const FUSE: u64 = 0x6573_5546;
const NINE_P: u64 = 0x0102_1997;
/// File systems in user space that lead to another host.
const FUSE_NETWORK: [&str; 10] =
    ["sshfs", "glusterfs", "ceph", "ceph-fuse", "s3fs", "rclone", "davfs", "moosefs", "mfs", "curlftpfs"];

/// Refuses a SQLite database on a network file system; `Ok` has a warning where it cannot be known.
///
/// # Errors
/// One line that names the setting.
pub(crate) fn check(url: &DatabaseUrl) -> Result<Option<String>, OneLine> {
    let Some(file) = url.file() else { return Ok(None) };
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A folder that cannot be looked at is told by whoever opens the file.
    match home(folder) {
        Err(_) | Ok(Home::Local) => Ok(None),
        Ok(Home::Network(kind)) => Err(OneLine::new(format_args!(
            "{DATABASE_URL_NAME}: {url} is on a network file system ({kind}), where SQLite loses data and two workers could both \
             lead; put the file on a disk of this host, or use PostgreSQL or MariaDB"
        ))),
        Ok(Home::Unclear(kind)) => Ok(Some(format!(
            "{url} is on a file system of the kind {kind}: if another host reaches it too, put the file on a disk of \
             this host, or use PostgreSQL or MariaDB"
        ))),
    }
}

/// Where what is in this folder is.
fn home(folder: &Path) -> io::Result<Home> {
    let magic = u64::try_from(statfs(folder)?.f_type).unwrap_or(0) & 0xffff_ffff;
    let kind = if magic == FUSE {
        let device = stat(folder)?.st_dev;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        kind_of(&mounts, major(device), minor(device)).map(str::to_owned)
    } else {
        None
    };
    Ok(judge(magic, kind.as_deref()))
}

fn judge(magic: u64, fuse: Option<&str>) -> Home {
    if let Some((_, kind)) = NETWORK.iter().find(|(number, _)| *number == magic) {
        return Home::Network((*kind).to_owned());
    }
    match magic {
        NINE_P => Home::Unclear("9p".to_owned()),
        FUSE => {
            let kind = fuse.unwrap_or("fuse");
            let program = kind.strip_prefix("fuse.").unwrap_or(kind);
            if FUSE_NETWORK.contains(&program) {
                Home::Network(kind.to_owned())
            } else {
                Home::Unclear(kind.to_owned())
            }
        }
        _ => Home::Local,
    }
}

/// The file system type of a device in the text of `/proc/self/mountinfo` (proc(5): the third field is the device, the
/// type follows the separator).
fn kind_of(mounts: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    let line = mounts.lines().rfind(|line| line.split(' ').nth(2) == Some(&device))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_host_reaches_is_known_by_its_number_or_its_name() {
        assert_eq!(judge(0xef53, None), Home::Local);
        assert_eq!(judge(0x6969, None), Home::Network("NFS".to_owned()));
        assert_eq!(judge(0xff53_4d42, None), Home::Network("CIFS".to_owned()));
        assert_eq!(judge(FUSE, Some("fuse.sshfs")), Home::Network("fuse.sshfs".to_owned()));
        assert_eq!(judge(FUSE, Some("fuse.bindfs")), Home::Unclear("fuse.bindfs".to_owned()));
        assert_eq!(judge(FUSE, Some("virtiofs")), Home::Unclear("virtiofs".to_owned()));
        assert_eq!(judge(FUSE, None), Home::Unclear("fuse".to_owned()));
        assert_eq!(judge(NINE_P, None), Home::Unclear("9p".to_owned()));
    }

    #[test]
    fn a_mount_is_found_by_its_device() {
        let mounts = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                      30 27 0:45 / /mnt/a\\040b rw shared:1 master:2 - fuse.sshfs u@h:/ rw\n\
                      31 27 8:1 / / rw - ext4 /dev/sda1 rw\n";
        assert_eq!(kind_of(mounts, 0, 45), Some("fuse.sshfs"));
        assert_eq!(kind_of(mounts, 8, 1), Some("ext4"));
        assert_eq!(kind_of(mounts, 0, 4), None);
    }

    #[test]
    fn a_folder_of_this_host_passes_and_a_missing_one_is_left_to_the_store() {
        assert_eq!(home(Path::new("/proc")).unwrap(), Home::Local);
        for url in ["sqlite:///nonexistent/a.db", "postgresql://h/x"] {
            assert_eq!(check(&DatabaseUrl::parse(url).unwrap()), Ok(None));
        }
    }
}
