//! The rules in force, and the files that they are read from.
//!
//! Files are looked at about once a second, apart from the requests, and swapped as a whole: a request is judged by one
//! set of rules from its beginning to its end. A file that cannot be used stops the start; later it changes nothing.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use apelora_policy::{AuthoritySettings, Rules, Settings, Source};

/// The folder beside the policy file whose files apply after it.
const FOLDER: &str = "policy.d";
/// The most bytes that are read of one file: more than any that the rules accept.
const READ_MAX: u64 = 2 << 20;

/// Where the policy is, and how it is put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyFiles {
    /// The policy file; the files of the folder `policy.d` beside it apply after it. Without one the built-in rules apply.
    pub file: Option<PathBuf>,
    /// How files and built-in rules are put together.
    pub settings: Settings,
    /// Who counts as an operator.
    pub authority: AuthoritySettings,
}

impl PolicyFiles {
    /// Reads the files and puts the rules together.
    ///
    /// # Errors
    /// Everything that is wrong with the files, a line each.
    pub fn compile(&self) -> Result<Rules, String> {
        let files = self.read()?;
        let names: Vec<_> = files.iter().map(|(path, _)| path.to_string_lossy()).collect();
        let mut sources = names.iter().zip(&files).map(|(name, (_, text))| Source { name, text });
        let main = sources.next();
        let sources = Source::in_order(main, sources.collect());
        Rules::compile(&sources, &self.settings).map_err(|refused| refused.to_string())
    }

    /// The policy file and the files of the folder, in no order.
    fn read(&self) -> Result<Vec<(PathBuf, String)>, String> {
        let paths =
            self.paths().map_err(|(path, cause)| format!("cannot read {}: {cause}", path.display()))?;
        paths
            .into_iter()
            .map(|path| match read(&path) {
                Ok(text) => Ok((path, text)),
                Err(cause) => Err(format!("cannot read {}: {cause}", path.display())),
            })
            .collect()
    }

    /// The policy file first, then those of the folder.
    fn paths(&self) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
        let Some(main) = &self.file else { return Ok(Vec::new()) };
        let mut paths = vec![main.clone()];
        let folder = main.with_file_name(FOLDER);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(paths),
            Err(cause) => return Err((folder, cause)),
        };
        for entry in entries {
            let path = entry.map_err(|cause| (folder.clone(), cause))?.path();
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            // Follows links, as where a whole folder of settings is swapped by one.
            if !hidden && !path.is_dir() {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(READ_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The rules in force.
pub(crate) struct Policy {
    files: PolicyFiles,
    rules: RwLock<Arc<Rules>>,
    authority: Arc<AuthoritySettings>,
    seen: Mutex<Seen>,
}

/// What tells one state of the files from another.
type Seen = Vec<(PathBuf, Option<(SystemTime, u64, u64)>)>;

/// What a second look at the files came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    /// They are as before.
    Unchanged,
    /// Other rules are in force. What is allowed and probably not meant.
    Swapped(Vec<String>),
    /// They cannot be used: the rules of before stay in force.
    Refused(String),
}

impl Policy {
    /// Reads the files.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(crate) fn load(files: PolicyFiles, one_trust_domain: bool) -> Result<Self, String> {
        // Before the files are read, so that a change in between is seen at the next look.
        let seen = look(&files);
        let rules = files.compile()?;
        let authority = AuthoritySettings { one_trust_domain, ..files.authority.clone() };
        Ok(Self {
            rules: RwLock::new(Arc::new(rules)),
            authority: Arc::new(authority),
            seen: Mutex::new(seen),
            files,
        })
    }

    /// The rules in force now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who counts as an operator.
    pub(crate) fn authority(&self) -> Arc<AuthoritySettings> {
        Arc::clone(&self.authority)
    }

    /// What is allowed and probably not meant.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.rules().warnings().iter().map(ToString::to_string).collect()
    }

    /// Whether there is a file to look after.
    pub(crate) fn has_files(&self) -> bool {
        self.files.file.is_some()
    }

    /// Looks at the files, and reads them again when they have changed. Blocks on the file system.
    pub(crate) fn look_again(&self) -> Look {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = look(&self.files);
        if *seen == now {
            return Look::Unchanged;
        }
        *seen = now;
        match self.files.compile() {
            Ok(rules) => {
                *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
                Look::Swapped(self.warnings())
            }
            Err(refused) => Look::Refused(refused),
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("files", &self.files).finish_non_exhaustive()
    }
}

fn look(files: &PolicyFiles) -> Seen {
    let paths = match files.paths() {
        Ok(mut paths) => {
            paths.sort();
            paths
        }
        // A folder that cannot be read is a state of its own.
        Err((path, _)) => vec![path],
    };
    let state = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    };
    paths.into_iter().map(|path| (state(&path), path)).map(|(state, path)| (path, state)).collect()
}
