//! The one place from which a power-off leaves. Nothing else calls `Conversation::force_off`.

use apelora_fencing::Clock;
use apelora_fencing::proof::{Reading, SendPermit, SendReport};
use tokio::time::Instant;

use super::bmc::Bmc;

/// Asks for the power-off on this conversation, under this permit, right after this reading, by this time.
pub(super) async fn send(
    bmc: &mut Bmc,
    permit: &SendPermit,
    fresh: &Reading,
    clock: &dyn Clock,
    by: Instant,
) -> SendReport {
    match bmc {
        Bmc::Real(conversation) => conversation.force_off(permit, fresh, clock, by).await,
        #[cfg(test)]
        Bmc::Scripted(talk) => talk.force_off(permit, fresh, clock, by).await,
    }
}
