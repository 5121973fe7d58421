//! The BMC map's file: read anew in each pass, judged as a whole, and never waited for.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::map::{BmcMap, MapState};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// One byte more than the largest map, so that a larger one is recognised.
const MOST: u64 = (4 << 20) + 1;

/// A file system that does not answer for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Anybody may write.
const WORLD_WRITABLE: u32 = 0o002;

/// The file that `APELORA_BMC_MAP` names, or none.
pub struct MapFile {
    path: Option<PathBuf>,
    never_stop: Vec<String>,
    known: Mutex<Known>,
}

/// What a load found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedMap {
    /// The map as decisions take it.
    pub state: MapState,
    /// Why it is invalid, with the remedy. One sentence or two, naming file, member and key.
    pub problem: Option<String>,
    /// What is odd although the map is valid.
    pub warnings: Vec<String>,
}

/// A map, or why it is none.
type Judged = Result<Arc<BmcMap>, String>;

#[derive(Default)]
struct Known {
    /// The bytes that were parsed last, and what came of them.
    last: Option<(Vec<u8>, Judged)>,
    /// How often bytes were parsed.
    parsed: u64,
    /// A reading that is not over. While the file system hangs there is one, not one for each pass.
    reading: Option<JoinHandle<io::Result<Content>>>,
}

struct Content {
    bytes: Vec<u8>,
    world_writable: bool,
}

impl MapFile {
    /// The map at `path`; without one nothing is ever switched off. `never_stop` are the VMs that no lab entry may name
    /// (`APELORA_LAB_SAN_VMS`).
    #[must_use]
    pub fn new(path: Option<PathBuf>, never_stop: Vec<String>) -> Self {
        Self { path, never_stop, known: Mutex::default() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file and judges it. Takes 3 seconds at most; what cannot be read by then is invalid. The bytes are parsed
    /// only when they differ from those of the load before.
    pub async fn load(&self) -> LoadedMap {
        let Some(path) = &self.path else {
            return LoadedMap { state: MapState::Absent, problem: None, warnings: Vec::new() };
        };
        let invalid = |why: String| LoadedMap {
            state: MapState::Invalid,
            problem: Some(format!(
                "the BMC map {}: {why}; nothing is switched off until then",
                path.display()
            )),
            warnings: Vec::new(),
        };
        let mut known = self.known.lock().await;
        let content = match known.read(path, Instant::now() + PATIENCE).await {
            Ok(content) => content,
            Err(why) => {
                // What is there again later is judged again.
                known.last = None;
                return invalid(format!(
                    "it cannot be read: {why}; correct APELORA_BMC_MAP or make the file readable for the worker"
                ));
            }
        };
        match known.judge(content.bytes, &self.never_stop) {
            Ok(map) => LoadedMap {
                state: MapState::Valid(map),
                problem: None,
                warnings: warnings(path, content.world_writable),
            },
            Err(why) => invalid(format!("{why}; correct the file")),
        }
    }
}

fn warnings(path: &Path, world_writable: bool) -> Vec<String> {
    let text = || {
        format!(
            "every user of this host may change the BMC map {}, and with it which servers are switched off: \
             chmod o-w {}",
            path.display(),
            path.display()
        )
    };
    world_writable.then(text).into_iter().collect()
}

impl Known {
    async fn read(&mut self, path: &Path, by: Instant) -> io::Result<Content> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the file system does not answer");
        if let Some(earlier) = &mut self.reading {
            // Its bytes are as old as the pass that asked for them: only its end counts.
            drop(timeout_at(by, &mut *earlier).await.map_err(late)?);
            self.reading = None;
        }
        let path = path.to_owned();
        let reading = self.reading.insert(tokio::task::spawn_blocking(move || content(&path)));
        let read = timeout_at(by, &mut *reading).await.map_err(late)?;
        self.reading = None;
        read.map_err(|_| io::Error::other("the reading was given up"))?
    }

    fn judge(&mut self, bytes: Vec<u8>, never_stop: &[String]) -> Judged {
        if let Some((last, judged)) = &self.last
            && *last == bytes
        {
            return judged.clone();
        }
        self.parsed += 1;
        let judged = BmcMap::parse(&bytes, never_stop).map(Arc::new).map_err(|why| why.to_string());
        self.last = Some((bytes, judged.clone()));
        judged
    }
}

/// Reads a regular file. Opening a pipe would wait for its writer, so the kind is asked for first.
fn content(path: &Path) -> io::Result<Content> {
    let regular = |kind: fs::FileType| {
        let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        if kind.is_file() { Ok(()) } else { Err(other()) }
    };
    regular(fs::metadata(path)?.file_type())?;
    let file = File::open(path)?;
    let about = file.metadata()?;
    regular(about.file_type())?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(Content { bytes, world_writable: about.permissions().mode() & WORLD_WRITABLE != 0 })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const GOOD: &str = r#"{"members": {"s3": {"provider": "lima", "address": "apelora-s3"}}}"#;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    async fn of(path: &Path) -> LoadedMap {
        MapFile::new(Some(path.to_owned()), vec!["apelora-san".to_owned()]).load().await
    }

    async fn refused(path: &Path, with: &str) {
        let loaded = of(path).await;
        assert_eq!(loaded.state, MapState::Invalid, "{with}");
        let problem = loaded.problem.unwrap();
        assert!(problem.contains(with) && problem.contains(&path.display().to_string()), "{problem}");
        assert!(problem.ends_with("nothing is switched off until then"), "{problem}");
    }

    #[tokio::test]
    async fn no_map_is_absent() {
        let loaded = MapFile::new(None, Vec::new()).load().await;
        assert_eq!(loaded, LoadedMap { state: MapState::Absent, problem: None, warnings: Vec::new() });
    }

    #[tokio::test]
    async fn a_map_is_read_anew_and_parsed_when_its_bytes_change() {
        let folder = folder();
        let path = folder.path().join("map.json");
        fs::write(&path, GOOD).unwrap();
        let file = MapFile::new(Some(path.clone()), Vec::new());
        let first = file.load().await;
        assert_eq!((&first.problem, first.warnings.len()), (&None, 0));
        let same = file.load().await;
        let (MapState::Valid(a), MapState::Valid(b)) = (&first.state, &same.state) else {
            panic!("{first:?} {same:?}")
        };
        assert!(Arc::ptr_eq(a, b));
        // The same length and, on a coarse file system, the same time.
        fs::write(&path, GOOD.replace("\"s3\"", "\"s4\"")).unwrap();
        let changed = file.load().await;
        assert_ne!(changed.state.sha(), first.state.sha());
        assert!(changed.state.entry(&"s4".into()).is_some());
        fs::write(&path, "{").unwrap();
        for _ in 0..3 {
            assert_eq!(file.load().await.state, MapState::Invalid);
        }
        fs::write(&path, GOOD).unwrap();
        assert_eq!(file.load().await.state, first.state);
        assert_eq!(file.known.lock().await.parsed, 4);
    }

    #[tokio::test]
    async fn one_wrong_entry_refuses_the_whole_file_by_name() {
        let folder = folder();
        let path = folder.path().join("map.json");
        for (text, with) in [
            ("", "EOF"),
            (r#"{"members": {}, "members": {}}"#, "duplicate field `members`"),
            (
                r#"{"members": {"s3": {"provider": "lima", "address": "apelora-s3"}, "s4": {"provider": "lima", "address": "other"}}}"#,
                "member `s4`, `address`",
            ),
            (r#"{"members": {"s3": {"provider": "lima", "address": "apelora-san"}}}"#, "never stopped"),
        ] {
            fs::write(&path, text).unwrap();
            refused(&path, with).await;
        }
    }

    #[tokio::test]
    async fn what_is_no_regular_file_of_sensible_size_is_not_read() {
        let folder = folder();
        let path = folder.path().join("map.json");
        refused(&path, "APELORA_BMC_MAP").await;
        refused(folder.path(), "not a regular file").await;
        refused(Path::new("/dev/zero"), "not a regular file").await;
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        refused(&pipe, "not a regular file").await;
        // Sparse: 5 GiB of nothing.
        File::create(&path).unwrap().set_len(5 << 30).unwrap();
        refused(&path, "more than 4 MiB is not read").await;
    }

    #[tokio::test]
    async fn a_link_to_a_map_is_followed_and_a_dangling_one_is_not_there() {
        let folder = folder();
        let (link, path) = (folder.path().join("link"), folder.path().join("map.json"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        refused(&link, "No such file").await;
        fs::write(&path, GOOD).unwrap();
        assert!(matches!(of(&link).await.state, MapState::Valid(_)));
    }

    #[tokio::test]
    async fn a_map_that_anybody_may_change_is_warned_of() {
        let folder = folder();
        let path = folder.path().join("map.json");
        fs::write(&path, GOOD).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let loaded = of(&path).await;
        assert!(matches!(loaded.state, MapState::Valid(_)));
        assert!(loaded.warnings[0].contains("chmod o-w"), "{loaded:?}");
    }

    /// A file system that hangs: the pass goes on, and the next one starts no second reading beside the first.
    #[tokio::test]
    async fn a_reading_that_hangs_is_not_waited_for_nor_repeated() {
        let folder = folder();
        let path = folder.path().join("map.json");
        fs::write(&path, GOOD).unwrap();
        let (answers, hangs) = std::sync::mpsc::channel::<()>();
        let mut known = Known {
            reading: Some(tokio::task::spawn_blocking(move || {
                // Ends when the other side is dropped.
                assert!(hangs.recv().is_err());
                Ok(Content { bytes: b"stale".to_vec(), world_writable: false })
            })),
            ..Known::default()
        };
        for _ in 0..2 {
            let late = known.read(&path, Instant::now() + Duration::from_millis(5)).await.err().unwrap();
            assert_eq!(late.kind(), io::ErrorKind::TimedOut);
            assert!(!known.reading.as_ref().unwrap().is_finished());
        }
        drop(answers);
        let content = known.read(&path, Instant::now() + Duration::from_secs(60)).await.unwrap();
        assert_eq!(content.bytes, GOOD.as_bytes(), "what was read for an earlier pass is not used");
    }
}
