//! The site of a night: servers, their BMCs, and how the cluster sees them. Times are milliseconds.

use std::time::Duration;

use apelora_fencing::event::BmcError;
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::map::MapState;
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status, ViewError};
use apelora_fencing::{BootTime, MemberName, ReasonCode};

use super::rng::Rng;

/// The cluster reports a member Offline this long after its last heartbeat.
pub(crate) const OFFLINE_AFTER: u64 = 20_000;
const SEEN_AGAIN_AFTER: u64 = 4_000;

/// How a BMC behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Acts after so many milliseconds.
    Good(u64),
    /// Acts, but answers 409 or nothing.
    Declines(u64),
    Silent(u64),
    /// Accepts and never acts.
    Ignores,
    /// Rejects the account.
    Rejects,
    /// Belongs to another server.
    Stranger,
    /// Says Off for a moment now and then while the server runs.
    Flickers,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: MemberName,
    pub(crate) powered: bool,
    /// Hung: powered, no heartbeat.
    pub(crate) hung: bool,
    /// Cut off from the other servers: powered and running.
    pub(crate) cut: bool,
    pub(crate) evacuated: bool,
    /// Counts the boots: what ran before the last one is gone.
    pub(crate) run: u64,
    /// The run that was last heard of in the cluster.
    pub(crate) heard_run: u64,
    beat_changed: u64,
    beating: bool,
    pub(crate) manner: Manner,
    /// The BMC does not answer until then.
    pub(crate) bmc_away_until: u64,
    /// A power-off that will take effect then.
    pub(crate) off_at: Option<u64>,
    /// It boots by itself then.
    pub(crate) boots_at: Option<u64>,
    /// When it was last without power, for proofs.
    pub(crate) last_dark: Option<u64>,
}

impl Server {
    fn new(i: usize, manner: Manner) -> Self {
        Self {
            name: format!("s{i:02}").as_str().into(),
            powered: true,
            hung: false,
            cut: false,
            evacuated: false,
            run: 1,
            heard_run: 1,
            beat_changed: 0,
            beating: true,
            manner,
            bmc_away_until: 0,
            off_at: None,
            boots_at: None,
            last_dark: None,
        }
    }

    /// Lets everything take effect that is due by `now`.
    pub(crate) fn settle(&mut self, now: u64) {
        if self.off_at.is_some_and(|at| at <= now) {
            self.off_at = None;
            self.powered = false;
        }
        if self.boots_at.is_some_and(|at| at <= now) {
            self.boots_at = None;
            self.powered = true;
            self.hung = false;
            self.cut = false;
            self.run += 1;
        }
        if !self.powered {
            self.last_dark = Some(now);
        }
        let beats = self.powered && !self.hung && !self.cut;
        if beats != self.beating {
            self.beating = beats;
            self.beat_changed = now;
        }
        if beats && now >= self.beat_changed + SEEN_AGAIN_AFTER {
            self.heard_run = self.run;
        }
    }

    pub(crate) fn status(&self, now: u64) -> Status {
        if self.evacuated {
            return Status::from_word("Evacuated");
        }
        let since = now - self.beat_changed;
        let online = if self.beating {
            since >= SEEN_AGAIN_AFTER || self.beat_changed == 0
        } else {
            since < OFFLINE_AFTER
        };
        // A member that beats again after a short pause never became Offline.
        if online || (self.beating && self.heard_run == self.run && since < SEEN_AGAIN_AFTER) {
            Status::Online
        } else {
            Status::Offline
        }
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.beating && !self.evacuated
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) servers: Vec<Server>,
    /// Until then some answering member has a skewed clock and sees everybody else Offline.
    pub(crate) skewed_until: u64,
    /// Until then the cluster's API does not answer.
    pub(crate) mute_until: u64,
    /// Until then there is no second endpoint.
    pub(crate) alone_until: u64,
    pub(crate) map: MapState,
    pub(crate) map_before: MapState,
}

impl Site {
    pub(crate) fn new(members: usize, rng: &mut Rng, clean: bool) -> Self {
        let manner = |rng: &mut Rng| match rng.range(0..20) {
            _ if clean => Manner::Good(rng.range(200..8_000)),
            0 => Manner::Declines(rng.range(200..5_000)),
            1 => Manner::Silent(rng.range(200..5_000)),
            2 => Manner::Ignores,
            3 => Manner::Rejects,
            4 => Manner::Stranger,
            5 | 6 => Manner::Flickers,
            7 => Manner::Good(rng.range(20_000..50_000)),
            _ => Manner::Good(rng.range(200..10_000)),
        };
        let servers: Vec<_> = (0..members).map(|i| Server::new(i, manner(rng))).collect();
        let map = Self::map(&servers, 0);
        Self { servers, skewed_until: 0, mute_until: 0, alone_until: 0, map_before: map.clone(), map }
    }

    /// A valid map of all servers; another `edit` is another snapshot.
    pub(crate) fn map(servers: &[Server], edit: u64) -> MapState {
        crate::data::lab_map(servers.iter().map(|s| &s.name), edit as usize)
    }

    pub(crate) fn settle(&mut self, now: u64) {
        self.servers.iter_mut().for_each(|s| s.settle(now));
    }

    pub(crate) fn server(&mut self, name: &MemberName) -> &mut Server {
        self.servers.iter_mut().find(|s| s.name == *name).expect("a server of the site")
    }

    /// What a pass that asked at `asked` is told at `now`.
    pub(crate) fn views(
        &self,
        asked: BootTime,
        now: u64,
        rng: &mut Rng,
    ) -> (Result<ClusterView, ViewError>, SecondView, Healing) {
        let healthy: Vec<_> = self.servers.iter().filter(|s| s.is_healthy()).collect();
        // Without a majority of its database the cluster's API fails.
        if now < self.mute_until || healthy.len() * 3 < self.servers.len() {
            return (Err(ViewError::Unreadable("no answer".into())), SecondView::Missing, Healing::Off);
        }
        let leader = healthy.first().map(|s| s.name.clone());
        let first = healthy[rng.index(healthy.len())];
        let skewed = now < self.skewed_until;
        let list = |by: &Server, skewed: bool| {
            let listed = self.servers.iter().map(|s| Listed {
                name: s.name.clone(),
                status: if skewed && s.name != by.name { Status::Offline } else { s.status(now) },
                failure_domain: None,
            });
            ClusterView::new(asked, by.name.clone(), leader.clone(), listed.collect())
        };
        let second = healthy.iter().find(|s| s.name != first.name && now >= self.alone_until);
        let second = second.and_then(|s| list(s, false).ok()).map_or(SecondView::Missing, SecondView::Seen);
        (list(first, skewed), second, Healing::Off)
    }
}

fn unreachable() -> BmcError {
    BmcError { reason: ReasonCode::BmcUnreachable, transient: true, detail: String::new() }
}

impl Server {
    pub(crate) fn open(&self, now: u64) -> Result<(), BmcError> {
        if now < self.bmc_away_until { Err(unreachable()) } else { Ok(()) }
    }

    pub(crate) fn read(&self, now: u64, rng: &mut Rng) -> Result<Reported, BmcError> {
        self.open(now)?;
        if self.manner == Manner::Rejects {
            return Err(BmcError { reason: ReasonCode::Credential, transient: false, detail: String::new() });
        }
        let name = if self.manner == Manner::Stranger {
            "apelora-stranger".into()
        } else {
            format!("apelora-{}", self.name)
        };
        let power = match (self.powered, self.manner) {
            (true, Manner::Flickers) if rng.once_in(12) => PowerWord::Off,
            (true, _) if self.off_at.is_some() => PowerWord::PoweringOff,
            (true, _) => PowerWord::On,
            (false, _) => PowerWord::Off,
        };
        Ok(Reported { identity: RawIdentity::LabName(name), power, detail: String::new() })
    }

    /// Takes a power-off request.
    pub(crate) fn send_off(&mut self, now: u64) -> SendAnswer {
        if now < self.bmc_away_until {
            return SendAnswer::NotSent(ReasonCode::BmcUnreachable);
        }
        let (delay, answer) = match self.manner {
            Manner::Good(delay) => (Some(delay), SendAnswer::Accepted),
            Manner::Declines(delay) => (Some(delay), SendAnswer::Declined),
            Manner::Silent(delay) => (Some(delay), SendAnswer::Unanswered),
            Manner::Flickers => (Some(2_000), SendAnswer::Accepted),
            Manner::Ignores | Manner::Stranger => (None, SendAnswer::Accepted),
            Manner::Rejects => (None, SendAnswer::Rejected(ReasonCode::Credential)),
        };
        if let Some(delay) = delay.filter(|_| self.powered) {
            self.off_at = Some(self.off_at.map_or(now + delay, |at| at.min(now + delay)));
        }
        answer
    }
}

/// Milliseconds as a duration.
pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
