//! Which BMC, and which system behind it.

use std::path::PathBuf;

use apelora_http::{Endpoint, Trust};
use uuid::Uuid;

use crate::SystemPath;

/// One mapped BMC.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The only file whose certificates are trusted; the system's roots when there is none.
    pub ca_file: Option<PathBuf>,
    /// The account's name. Needs the right to reset the system (the `Operator` role).
    pub user: String,
    /// The system behind it.
    pub system: SystemChoice,
}

impl Target {
    pub(crate) fn trust(&self) -> Trust {
        self.ca_file.clone().map_or(Trust::SystemRoots, Trust::OnlyFile)
    }
}

/// How the system is found behind its BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemChoice {
    /// At this path: two requests fewer, and no neighbour is ever touched.
    Path(SystemPath),
    /// The only one of at most 16 that reports this UUID, compared without regard to case.
    Carrying(Uuid),
}
