//! The BMC of one member, of either kind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::https;
use crate::ident::uuid_text;
use crate::ipmi;
use crate::redfish;

/// What is wrong with a BMC, for both kinds. Each kind has more faults of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing is answered.
    Unreachable,
    /// Each answer waits this long.
    Slow(Duration),
    /// The power reads on (`true`) or off, whatever it is.
    Reads(bool),
    /// A power-off is refused.
    Rejects,
    /// A power-off is accepted and not carried out.
    Ignores,
    /// A power-off is carried out and not answered.
    LosesAnswer,
    /// It stands for a machine with another UUID: these bytes, as printed.
    Impostor([u8; 16]),
}

/// The BMC of a member.
pub struct MemberBmc {
    pub(super) kind: Kind,
    pub(super) needs_mains: bool,
    pub(super) uuid: String,
}

pub(super) enum Kind {
    Redfish(Arc<https::Server<redfish::Bmc>>, https::Listening),
    Ipmi(Arc<ipmi::Bmc>, ipmi::Listening),
}

impl MemberBmc {
    /// Breaks it, or repairs it.
    pub fn set_trouble(&self, trouble: Option<&Trouble>) {
        match &self.kind {
            Kind::Redfish(server, _) => server.service().set_fault(trouble.map(redfish_fault)),
            Kind::Ipmi(bmc, _) => bmc.set_fault(trouble.map(ipmi_fault)),
        }
    }

    /// How long a switch-off takes.
    pub fn set_delay(&self, delay: Duration) {
        match &self.kind {
            Kind::Redfish(server, _) => server.service().set_delay(delay),
            Kind::Ipmi(bmc, _) => bmc.set_delay(delay),
        }
    }

    pub(super) fn set_dark(&self, dark: bool) {
        match &self.kind {
            Kind::Redfish(server, _) => server.service().set_dark(dark),
            Kind::Ipmi(bmc, _) => bmc.set_dark(dark),
        }
    }

    /// Power-offs that were carried out or begun, also those of a machine that was off.
    #[must_use]
    pub fn power_offs(&self) -> u32 {
        match &self.kind {
            Kind::Redfish(server, _) => server.service().power_offs(),
            Kind::Ipmi(bmc, _) => bmc.power_offs(),
        }
    }

    /// Power-offs that reached it, carried out or not.
    #[must_use]
    pub fn power_offs_asked(&self) -> u32 {
        match &self.kind {
            Kind::Redfish(server, _) => server.service().resets(),
            Kind::Ipmi(bmc, _) => bmc.power_offs_asked(),
        }
    }

    /// Requests (Redfish) or datagrams (IPMI) that reached it.
    #[must_use]
    pub fn requests(&self) -> u64 {
        match &self.kind {
            Kind::Redfish(server, _) => server.stats().requests(),
            Kind::Ipmi(bmc, _) => bmc.received().into(),
        }
    }

    /// Where it listens: TCP for Redfish, UDP for IPMI.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match &self.kind {
            Kind::Redfish(_, listening) => listening.address(),
            Kind::Ipmi(_, listening) => listening.address(),
        }
    }

    /// The machine's UUID, as the BMC map has it.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The BMC itself, if it speaks Redfish.
    #[must_use]
    pub fn redfish(&self) -> Option<&redfish::Bmc> {
        match &self.kind {
            Kind::Redfish(server, _) => Some(server.service()),
            Kind::Ipmi(..) => None,
        }
    }

    /// The BMC itself, if it speaks IPMI.
    #[must_use]
    pub fn ipmi(&self) -> Option<&ipmi::Bmc> {
        match &self.kind {
            Kind::Redfish(..) => None,
            Kind::Ipmi(bmc, _) => Some(bmc),
        }
    }
}

fn redfish_fault(trouble: &Trouble) -> redfish::Fault {
    use redfish::{Fault, Power};
    match trouble {
        Trouble::Unreachable => Fault::Gone,
        Trouble::Slow(wait) => Fault::Slow(*wait),
        Trouble::Reads(true) => Fault::Lying(Power::On),
        Trouble::Reads(false) => Fault::Lying(Power::Off),
        Trouble::Rejects => Fault::Rejects(503),
        Trouble::Ignores => Fault::Ignores,
        Trouble::LosesAnswer => Fault::Hangs,
        Trouble::Impostor(uuid) => Fault::Impostor(uuid_text(*uuid)),
    }
}

fn ipmi_fault(trouble: &Trouble) -> ipmi::Fault {
    use ipmi::{Fault, Power};
    match trouble {
        Trouble::Unreachable => Fault::Silent,
        Trouble::Slow(wait) => Fault::Slow(*wait),
        Trouble::Reads(true) => Fault::Lying(Power::On),
        Trouble::Reads(false) => Fault::Lying(Power::Off),
        // IPMI 2.0, table 5-2: not supported in the present state.
        Trouble::Rejects => Fault::Rejects(0xd5),
        Trouble::Ignores => Fault::Ignores,
        Trouble::LosesAnswer => Fault::Hangs,
        Trouble::Impostor(uuid) => Fault::Impostor(*uuid),
    }
}
