//! The life of a worker: it follows and campaigns, leads for a while, and follows again.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::Why;
use apelora_fencing::view::Status;
use apelora_fencing::{HolderId, MemberName};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::lead::Lead;
use super::outside::Outside;
use super::story::Story;
use crate::notice::{Notice, SteppedDown};

/// How long one attempt to lead may take.
const CAMPAIGN_LIMIT: Duration = Duration::from_secs(5);

/// What a follower knows.
struct Follower {
    outside: Arc<Outside>,
    /// This process.
    holder: HolderId,
    /// The member that this worker runs on.
    own_host: Option<MemberName>,
    /// Whether a member list was read since the start, so that `own_host` is known.
    knows_own_host: bool,
    /// The own host was Offline: no campaign before it is Online.
    barred: bool,
    /// Why the lease could not be asked for the last time: told once, not every three seconds for a whole night.
    trouble: Option<String>,
    story: Story,
}

/// Lives until told to stop.
pub(crate) async fn live(outside: Arc<Outside>, mut stop: watch::Receiver<bool>) {
    let holder = HolderId((outside.ids)());
    let mut follower = Follower {
        // Until a list says otherwise: a member of this host's name is not switched off from here.
        own_host: Some(outside.config.host.as_str().into()),
        knows_own_host: false,
        barred: false,
        trouble: None,
        holder,
        story: Story::default(),
        outside,
    };
    while !*stop.borrow() {
        let won = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            won = follower.campaign() => won,
        };
        let Some(term) = won else {
            follower.rest(&mut stop).await;
            continue;
        };
        let lead = Lead::new(
            Arc::clone(&follower.outside),
            term,
            follower.holder,
            follower.own_host.clone(),
            std::mem::take(&mut follower.story),
        );
        let left = lead.run(&mut stop).await;
        follower.back(left.why, left.own_host, left.story);
        if left.why != SteppedDown::OwnHostLearnt {
            follower.rest(&mut stop).await;
        }
    }
}

impl Follower {
    /// Tries to lead, if there is nothing against it.
    async fn campaign(&mut self) -> Option<super::database::Term> {
        if self.barred || !self.knows_own_host {
            self.look().await;
        }
        let health = &self.outside.health;
        if self.barred {
            health.hindered("the cluster reports the host that this worker runs on as Offline".into());
            return None;
        }
        let clock = Arc::clone(&self.outside.clock);
        let asked = timeout(CAMPAIGN_LIMIT, self.outside.database.campaign(self.holder, clock)).await;
        let problem = match asked {
            Ok(Ok(won)) => {
                if won.is_none() {
                    health.following(self.outside.clock.boot());
                }
                if self.trouble.take().is_some() {
                    info!("the lease can be asked for again");
                }
                return won;
            }
            Ok(Err(problem)) => format!("the database does not answer: {problem}"),
            Err(_) => format!("the database did not answer within {} s", CAMPAIGN_LIMIT.as_secs()),
        };
        health.hindered(problem.clone());
        if self.trouble.as_ref() != Some(&problem) {
            warn!(problem, "the lease could not be asked for; it is tried until it can be");
            self.trouble = Some(problem);
        }
        None
    }

    /// Learns on which member this worker runs, and whether that is Online again.
    async fn look(&mut self) {
        let sight = self.outside.cluster.look(&self.outside.clock).await;
        let Ok(view) = &sight.view else { return };
        if !self.knows_own_host {
            self.knows_own_host = true;
            self.own_host = sight.own_host;
            if let Some(member) = &self.own_host {
                self.outside.notices.tell(Notice::OwnHost { member: member.clone() });
            }
        }
        let own = self.own_host.as_ref().and_then(|host| view.status(host));
        // A host that is no member any more bars nobody.
        self.barred &= own.is_some_and(|status| *status != Status::Online);
    }

    /// Back from a leadership.
    fn back(&mut self, why: SteppedDown, own_host: Option<MemberName>, story: Story) {
        self.story = story;
        if why == SteppedDown::OwnHostLearnt {
            self.own_host = own_host;
            self.knows_own_host = true;
            if let Some(member) = &self.own_host {
                self.outside.notices.tell(Notice::OwnHost { member: member.clone() });
            }
        }
        self.barred = why == SteppedDown::Machine(Why::OwnHostOffline);
        self.outside.health.hindered(format!("it leads no more: {why}"));
    }

    /// Waits until the next attempt, or until told to stop.
    async fn rest(&self, stop: &mut watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = sleep(self.pause()) => {}
        }
    }

    /// The time until the next attempt.
    fn pause(&self) -> Duration {
        let pace = &self.outside.config.pace;
        let most = u64::try_from(pace.jitter.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        // The lower half of an id is random but for its first two bits.
        let (_, chance) = (self.outside.ids)().as_u64_pair();
        pace.campaign + Duration::from_millis((chance & (u64::MAX >> 2)) % most)
    }
}
