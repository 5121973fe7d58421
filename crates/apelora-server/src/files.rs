//! Small files that the configuration names.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// More than any file of users or certificates has, in bytes.
const SIZE_MAX: u64 = 4 << 20;

/// The content of a regular file of bounded size: a device or a pipe would never end.
///
/// # Errors
/// What is wrong with the file, with its name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
    let metadata = std::fs::metadata(path).map_err(|e| cannot(&e))?;
    if !metadata.is_file() {
        return Err(cannot(&"it is no regular file"));
    }
    let mut content = Vec::new();
    let file = File::open(path).map_err(|e| cannot(&e))?;
    file.take(SIZE_MAX + 1).read_to_end(&mut content).map_err(|e| cannot(&e))?;
    if content.len() as u64 > SIZE_MAX {
        return Err(cannot(&format!("it is larger than {SIZE_MAX} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(read(&path), Ok(b"x".to_vec()));
        File::create(&path).unwrap().set_len(SIZE_MAX + 1).unwrap();
        assert!(read(&path).unwrap_err().ends_with("it is larger than 4194304 bytes"));
        for path in [Path::new("/dev/zero"), folder.path(), &folder.path().join("nosuch")] {
            assert!(read(path).unwrap_err().starts_with("cannot read "), "{}", path.display());
        }
    }
}
