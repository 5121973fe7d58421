//! Where readings of storage leases come from.

use apelora_fencing::Clock;
use apelora_fencing::lease::LeaseReading;

/// The source of lease readings of each pass.
#[derive(Debug, Default)]
pub(crate) enum LeaseSource {
    /// `APELORA_SANLOCK_HOSTS` is not set: nothing is read, and no lease proves anything.
    #[default]
    None,
}

impl LeaseSource {
    /// Every configured lockspace that can be read now; `read_at` of each is the boot time before it was asked.
    pub(crate) async fn read(&self, _clock: &dyn Clock) -> Vec<LeaseReading> {
        match self {
            Self::None => Vec::new(),
        }
    }
}
