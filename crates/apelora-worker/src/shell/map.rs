//! The BMC map, as the shell reads it: anew in each pass.

use crate::bmc_map::{LoadedMap, MapFile};

/// Where the map is.
pub(crate) enum Maps {
    File(MapFile),
    #[cfg(test)]
    Scripted(std::sync::Mutex<LoadedMap>),
}

impl Maps {
    /// Reads it.
    pub(super) async fn load(&self) -> LoadedMap {
        match self {
            Self::File(file) => file.load().await,
            #[cfg(test)]
            Self::Scripted(map) => map.lock().unwrap().clone(),
        }
    }
}
