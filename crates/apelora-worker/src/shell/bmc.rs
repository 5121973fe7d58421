//! The BMCs, as the shell reaches them.

use apelora_fencing::Ticket;
use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::proof::Reported;
use tokio::time::Instant;

use crate::provider::{Conversation, Providers};

/// Opens conversations.
pub(crate) enum Bmcs {
    /// With the BMCs of the map. Secrets are revealed at the moment of use.
    Real(Providers),
    #[cfg(test)]
    Scripted(std::sync::Arc<super::scripted::Machines>),
}

/// One open conversation.
pub(crate) enum Bmc {
    Real(Conversation),
    #[cfg(test)]
    Scripted(super::scripted::Talk),
}

impl Bmcs {
    /// Opens a conversation by this time.
    pub(super) async fn open(&self, id: Ticket, target: &Target, by: Instant) -> Result<Bmc, BmcError> {
        match self {
            Self::Real(providers) => providers.open(id, target, by).await.map(Bmc::Real),
            #[cfg(test)]
            Self::Scripted(machines) => machines.open(id, target).await.map(Bmc::Scripted),
        }
    }
}

impl Bmc {
    /// Reads identity and power by this time.
    pub(super) async fn read(&mut self, by: Instant) -> Result<Reported, BmcError> {
        match self {
            Self::Real(conversation) => conversation.read(by).await,
            #[cfg(test)]
            Self::Scripted(talk) => talk.read().await,
        }
    }

    /// Ends the conversation.
    pub(super) async fn close(self) {
        match self {
            Self::Real(conversation) => conversation.close().await,
            #[cfg(test)]
            Self::Scripted(_) => {}
        }
    }
}
