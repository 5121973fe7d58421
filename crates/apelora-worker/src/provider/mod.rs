//! The closed set of ways to a server's power: Redfish, IPMI and, in a lab, Lima.
//!
//! A provider opens a conversation, reads identity and power together, asks for the power-off, and closes. It decides
//! nothing: whether an identity is the mapped one, whether power may be switched and what proves that a server is off is
//! decided by `apelora-fencing`. What is settled here, once for all three, is what stands between that decision and the
//! first byte: the permit, the reading and the boot clock ([`Conversation::force_off`]); and how what the clients say
//! becomes a reason code and a detail that may be kept ([`Scrub`]).

mod certificate;
mod ipmi;
mod lima;
mod redfish;
mod scrub;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::map::Access;
use apelora_fencing::proof::{
    ConversationId, PowerWord, Reading, Reported, SendAnswer, SendPermit, SendReport,
};
use apelora_fencing::{BootTime, Clock, MemberName, ReasonCode};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::secret::SecretSource;
pub(crate) use scrub::Scrub;

/// A good-bye takes no longer than this.
const GOOD_BYE: Duration = Duration::from_secs(2);

/// What the providers need to know beside the map and the secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Whether the lab provider may be used (`APELORA_BMC_ALLOW_LAB`).
    pub allow_lab: bool,
    /// The lab's command.
    pub limactl: PathBuf,
    /// VMs that the lab provider never stops (`APELORA_LAB_SAN_VMS`).
    pub lab_san_vms: Vec<String>,
    /// `PATH` of the lab's command. It gets no other variable of this process than this and the next.
    pub path: Option<OsString>,
    /// `HOME` of the lab's command, where Lima keeps its VMs.
    pub home: Option<OsString>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            allow_lab: false,
            limactl: PathBuf::from("limactl"),
            lab_san_vms: vec!["apelora-san".to_owned()],
            path: None,
            home: None,
        }
    }
}

/// The providers of one process: settings, secrets, and what has to be remembered about BMCs.
pub struct Providers {
    settings: ProviderSettings,
    secrets: Arc<dyn SecretSource>,
    /// Members whose BMC has spoken cipher suite 17: from then on 3 is not accepted from it any more, because nothing
    /// authenticates a BMC's refusal of 17.
    spoke_17: Mutex<BTreeSet<MemberName>>,
    timers: apelora_ipmi::Timers,
}

impl Providers {
    /// The providers with these settings, which ask `secrets` at each opening.
    #[must_use]
    pub fn new(settings: ProviderSettings, secrets: Arc<dyn SecretSource>) -> Self {
        Self { settings, secrets, spoke_17: Mutex::default(), timers: apelora_ipmi::Timers::DEFAULT }
    }

    /// With less patience over IPMI, so that a test does not wait for silence as long as a worker does.
    #[cfg(test)]
    pub(crate) fn hurried(self, step: Duration) -> Self {
        Self { timers: apelora_ipmi::Timers { step, ..self.timers }, ..self }
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &ProviderSettings {
        &self.settings
    }

    fn has_spoken_17(&self, member: &MemberName) -> bool {
        self.spoke_17.lock().unwrap_or_else(PoisonError::into_inner).contains(member)
    }

    fn note_17(&self, member: &MemberName) {
        self.spoke_17.lock().unwrap_or_else(PoisonError::into_inner).insert(member.clone());
    }

    /// Opens a conversation. The secret is revealed here, and zeroed when the conversation ends.
    ///
    /// Nothing that changes power is sent. `id` is what readings of this conversation are verified with.
    ///
    /// # Errors
    /// The secret is missing, or the BMC is not reached, not believed or does not let us in.
    pub(crate) async fn open(
        &self,
        id: ConversationId,
        target: &Target,
        by: Instant,
    ) -> Result<Conversation, BmcError> {
        let talk = match &target.entry.access {
            Access::Redfish { .. } => {
                Talk::Redfish(Box::new(redfish::Talk::open(target, &*self.secrets, by).await?))
            }
            Access::Ipmi { .. } => Talk::Ipmi(Box::new(ipmi::Talk::open(self, target, by).await?)),
            Access::Lima { vm } => Talk::Lima(lima::Talk::open(vm, &self.settings, by).await?),
        };
        Ok(Conversation { id, target: target.clone(), latest: None, talk })
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// One conversation with the BMC of one member.
#[derive(Debug)]
pub(crate) struct Conversation {
    id: ConversationId,
    target: Target,
    /// The latest reading, unless it failed or a send has used it.
    latest: Option<Reported>,
    talk: Talk,
}

#[derive(Debug)]
enum Talk {
    Redfish(Box<redfish::Talk>),
    Ipmi(Box<ipmi::Talk>),
    Lima(lima::Talk),
}

/// What a conversation knows beside its readings. For people; nothing is decided on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The maker, when it is a known one.
    pub(crate) vendor: Option<&'static str>,
    /// The path of the system.
    pub(crate) system: Option<String>,
    /// SHA-256 of the BMC's certificate, in hexadecimal digits, and when it ends.
    pub(crate) certificate: Option<(String, Option<OffsetDateTime>)>,
    /// The cipher suite.
    pub(crate) suite: Option<u8>,
    /// The privilege level of the session.
    pub(crate) privilege: Option<&'static str>,
    /// Questions of one reading, each of which waits for its answer.
    pub(crate) questions: u32,
    /// Why this system could not be switched off although it can be read.
    pub(crate) obstacle: Option<(ReasonCode, String)>,
}

impl Conversation {
    /// Reads identity and power together.
    ///
    /// # Errors
    /// The BMC does not answer, or its answer cannot be used.
    pub(crate) async fn read(&mut self, by: Instant) -> Result<Reported, BmcError> {
        self.latest = None;
        let reported = match &mut self.talk {
            Talk::Redfish(talk) => talk.read(by).await,
            Talk::Ipmi(talk) => talk.read(&self.target.entry.identity, by).await,
            Talk::Lima(talk) => talk.read(by).await,
        }?;
        self.latest = Some(reported.clone());
        Ok(reported)
    }

    /// Asks for the power-off once, or not at all.
    ///
    /// `fresh` must be the latest reading of this conversation and say that the system runs; it is used up whatever comes
    /// of it. `permit` must belong to the map that this conversation was opened from. The boot clock is looked at directly
    /// before the first byte can leave, after any reconnecting: when the permit has ended by then, nothing is sent.
    ///
    /// When this future is dropped half-way, the request may have been sent.
    pub(crate) async fn force_off(
        &mut self,
        permit: &SendPermit,
        fresh: &Reading,
        clock: &dyn Clock,
        by: Instant,
    ) -> SendReport {
        let asked = clock.boot();
        let latest = self.latest.take();
        let mut leave = Leave { permit, clock, began: None };
        let answer = match self.fits(permit, fresh, latest.as_ref(), asked) {
            Err(reason) => SendAnswer::NotSent(reason),
            Ok(()) => match &mut self.talk {
                Talk::Redfish(talk) => talk.force_off(&mut leave, by).await,
                Talk::Ipmi(talk) => talk.force_off(&mut leave, by).await,
                Talk::Lima(talk) => talk.force_off(&mut leave, by).await,
            },
        };
        SendReport { began: leave.began.unwrap_or(asked), ended: clock.boot(), answer }
    }

    /// Whether permit and reading belong to this conversation and to each other.
    fn fits(
        &self,
        permit: &SendPermit,
        fresh: &Reading,
        latest: Option<&Reported>,
        now: BootTime,
    ) -> Result<(), ReasonCode> {
        if permit.map() != self.target.map {
            return Err(ReasonCode::MappingChanged);
        }
        let is_latest = latest.is_some_and(|latest| {
            let matched = self.target.entry.identity.check(&latest.identity);
            latest.power == fresh.power() && matched.as_ref() == Ok(fresh.matched())
        });
        // A reading that is spent, or of another conversation, permits nothing, as if the permit had ended.
        if fresh.conversation() != self.id || !is_latest || !permit.allows(now) {
            return Err(ReasonCode::PermitExpired);
        }
        match fresh.power() {
            PowerWord::Off => Err(ReasonCode::AlreadyOff),
            power if !power.is_running() => Err(ReasonCode::PowerStateUnknown),
            _ => Ok(()),
        }
    }

    /// What is known beside the readings.
    pub(crate) fn facts(&self) -> Facts {
        match &self.talk {
            Talk::Redfish(talk) => talk.facts(),
            Talk::Ipmi(talk) => talk.facts(),
            Talk::Lima(_) => Facts { questions: 1, ..Facts::default() },
        }
    }

    /// Ends the conversation with a good-bye, for which at most two seconds are spent.
    pub(crate) async fn close(self) {
        let by = Instant::now() + GOOD_BYE;
        match self.talk {
            Talk::Redfish(talk) => talk.close(by).await,
            Talk::Ipmi(talk) => talk.close(by).await,
            Talk::Lima(_) => {}
        }
    }
}

/// The last word before the first byte.
struct Leave<'a> {
    permit: &'a SendPermit,
    clock: &'a dyn Clock,
    /// The latest look at the clock: when the first byte may have left.
    began: Option<BootTime>,
}

impl Leave<'_> {
    /// Whether a request may start now.
    fn is_granted(&mut self) -> bool {
        let now = self.clock.boot();
        self.began = Some(now);
        self.permit.allows(now)
    }

    /// The last moment at which a request may start, for a client that wants it as a time; `None` when it has passed.
    ///
    /// The runtime's clock is read first, so that what lies between the two looks makes the time shorter, not longer.
    fn until(&mut self) -> Option<Instant> {
        let here = Instant::now();
        if !self.is_granted() {
            return None;
        }
        let left = self.permit.until().since(self.began?);
        // The permit's end itself is too late.
        Some(here + left.saturating_sub(Duration::from_nanos(1)))
    }
}

/// An error that says what is wrong with a setting of the map.
fn misconfigured(detail: String) -> BmcError {
    BmcError { reason: ReasonCode::MappingInvalid, transient: false, detail }
}

/// An error that says what is wrong with a secret.
fn no_secret(detail: String) -> BmcError {
    BmcError { reason: ReasonCode::SecretMissing, transient: false, detail }
}
