//! A caller that switches a system off as the contract describes it, to see the client's part of every case.
//!
//! It judges identities and counts readings in the plainest way; the product's own judgement and pacing are in the
//! fencing core.

use std::sync::Arc;
use std::time::Duration;

use apelora_redfish::{
    Conversation, Dial, PowerWord, RedfishError, Reported, ReportedUuid, ResetAnswer, SendReport, Target,
};
use secrecy::SecretString;
use tokio::time::{Instant, sleep};

/// How an operation ended: outcome and reason in the words of the cases.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) outcome: &'static str,
    pub(crate) reason: String,
}

fn ended(outcome: &'static str, reason: impl Into<String>) -> Ended {
    Ended { outcome, reason: reason.into() }
}

pub(crate) struct Pace {
    pub(crate) deadline: Duration,
    pub(crate) confirm_gap: Duration,
}

/// Between two questions.
const AGAIN: Duration = Duration::from_millis(250);

/// Who switches what off, and how patiently.
pub(crate) struct Caller<'a> {
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) target: &'a Target,
    pub(crate) password: SecretString,
    pub(crate) uuid: &'a str,
    pub(crate) pace: &'a Pace,
}

impl Caller<'_> {
    pub(crate) async fn switch_off(&self) -> Ended {
        let by = Instant::now() + self.pace.deadline;
        let opened = loop {
            match Conversation::open_through(Arc::clone(&self.dial), self.target, &self.password, by).await {
                Err(why) if why.is_passing() && Instant::now() + AGAIN < by => sleep(AGAIN).await,
                other => break other,
            }
        };
        match opened {
            Ok(conversation) => Operation { conversation, uuid: self.uuid, pace: self.pace, by }.run().await,
            Err(why) => ended("refused", why.reason()),
        }
    }
}

struct Operation<'a> {
    conversation: Conversation,
    uuid: &'a str,
    pace: &'a Pace,
    by: Instant,
}

impl Operation<'_> {
    async fn run(&mut self) -> Ended {
        let mut offs = 0;
        let reported = loop {
            match self.read().await {
                Err(ended) => return ended,
                Ok(reported) if reported.power.is_running() => break reported,
                Ok(reported) if reported.power == PowerWord::Off => {
                    offs += 1;
                    if offs == 2 {
                        return ended("off", "already_off");
                    }
                    sleep(self.pace.confirm_gap).await;
                }
                Ok(_) if Instant::now() + AGAIN >= self.by => return ended("refused", "power_state_unknown"),
                Ok(_) => sleep(AGAIN).await,
            }
        };
        assert!(!self.conversation.may_have_sent());
        match self.conversation.force_off(&reported, &mut || true, self.by).await {
            SendReport::NotSent(why) => {
                assert!(!self.conversation.may_have_sent());
                ended("refused", why.reason())
            }
            SendReport::MaybeSent(answer) => {
                assert!(self.conversation.may_have_sent());
                self.read_back(answer).await
            }
        }
    }

    /// One judged reading before a send; errors that may pass are repeated.
    async fn read(&mut self) -> Result<Reported, Ended> {
        loop {
            match self.conversation.read(self.by).await {
                Ok(reported) => return self.judged(reported).map_err(|reason| ended("refused", reason)),
                Err(why) if why.is_passing() && Instant::now() + AGAIN < self.by => sleep(AGAIN).await,
                Err(why) => return Err(ended("refused", why.reason())),
            }
        }
    }

    fn judged(&self, reported: Reported) -> Result<Reported, &'static str> {
        match &reported.uuid {
            ReportedUuid::Missing => Err("uuid_missing"),
            ReportedUuid::Malformed => Err("uuid_invalid"),
            ReportedUuid::Text(text) if text.eq_ignore_ascii_case(self.uuid) => Ok(reported),
            ReportedUuid::Text(_) => Err("uuid_mismatch"),
        }
    }

    async fn read_back(&mut self, mut answer: ResetAnswer) -> Ended {
        if answer.is_final() {
            return ended("failed", answer.reason().unwrap());
        }
        let (mut off_since, mut came_back, mut answered, mut sends) = (None::<Instant>, false, false, 1);
        while Instant::now() < self.by {
            match self.conversation.read(self.by).await {
                Err(RedfishError::Auth { .. }) => return ended("failed", "http_auth"),
                Err(_) => off_since = None,
                Ok(reported) => match self.judged(reported) {
                    Err(_) => return ended("failed", "uuid_changed"),
                    Ok(reported) => {
                        answered = true;
                        if reported.power == PowerWord::Off {
                            let since = *off_since.get_or_insert_with(Instant::now);
                            if since.elapsed() >= self.pace.confirm_gap {
                                return ended("off", "powered_off");
                            }
                        } else {
                            came_back |= off_since.take().is_some();
                        }
                        let unanswered = matches!(answer, ResetAnswer::None(_));
                        if unanswered && sends == 1 && reported.power == PowerWord::On {
                            sends += 1;
                            if let SendReport::MaybeSent(second) =
                                self.conversation.force_off(&reported, &mut || true, self.by).await
                            {
                                answer = second;
                            }
                        }
                    }
                },
            }
            sleep(AGAIN).await;
        }
        ended(
            "failed",
            if came_back {
                "came_back_on"
            } else if !answered {
                "unreachable_after_reset"
            } else {
                answer.reason().unwrap_or("never_off")
            },
        )
    }
}
