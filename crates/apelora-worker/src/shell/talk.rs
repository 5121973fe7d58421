//! One open conversation is one task: it opens, does what it is told, and ends when its handle is dropped.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::{BmcError, ReadDone, Target};
use apelora_fencing::proof::{Reading, SendAnswer, SendPermit, SendReport};
use apelora_fencing::{ReasonCode, Ticket};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::{Answer, Answers};
use super::bmc::Bmc;
use super::outside::Outside;
use super::send::send;
use crate::metrics::Operation;

/// The adapters keep their deadlines themselves; one that does not is cut off this much later.
const SLACK: Duration = Duration::from_secs(1);
/// How long the end of a conversation may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// What a conversation is told to do.
enum Order {
    Read(Instant),
    Send(Box<(SendPermit, Reading)>, Instant),
}

/// The shell's end of a conversation. Dropping it ends the conversation, whatever it is at.
pub(super) struct Talk {
    target: Target,
    orders: mpsc::UnboundedSender<Order>,
    _hangup: oneshot::Sender<()>,
}

/// The conversation is over.
pub(super) struct Gone;

impl Talk {
    /// Makes both ends of a conversation with `target`.
    pub(super) fn new(target: Target) -> (Self, Listener) {
        let (orders, received) = mpsc::unbounded_channel();
        let (hangup, hung_up) = oneshot::channel();
        (
            Self { target: target.clone(), orders, _hangup: hangup },
            Listener { target, orders: received, hangup: hung_up },
        )
    }

    /// With whom it is held.
    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// Has identity and power read by this time.
    pub(super) fn read(&self, by: Instant) -> Result<(), Gone> {
        self.orders.send(Order::Read(by)).map_err(|_| Gone)
    }

    /// Lends the permit for one request, that is to be over by this time. Should the conversation be over, the permit is
    /// lost with it, and nothing is sent.
    pub(super) fn send(&self, permit: SendPermit, fresh: Reading, by: Instant) -> Result<(), Gone> {
        self.orders.send(Order::Send(Box::new((permit, fresh)), by)).map_err(|_| Gone)
    }
}

/// The task's end of a conversation.
pub(super) struct Listener {
    target: Target,
    orders: mpsc::UnboundedReceiver<Order>,
    hangup: oneshot::Receiver<()>,
}

/// Holds the conversation until its handle is dropped.
pub(super) async fn hold(
    outside: Arc<Outside>,
    ticket: Ticket,
    by: Instant,
    listener: Listener,
    answers: Answers,
) {
    let Listener { target, mut orders, mut hangup } = listener;
    let provider = target.entry.provider();
    let began = outside.clock.boot();
    let opened = tokio::select! {
        biased;
        _ = &mut hangup => return,
        opened = timeout_at(by + SLACK, outside.bmcs.open(ticket, &target, by)) => opened,
    };
    let opened = opened.unwrap_or_else(|_| Err(overdue()));
    let took = outside.clock.boot().since(began);
    outside.metrics.requested(provider, Operation::Open, opened.as_ref().err().map(|e| e.reason), took);
    let mut bmc = match opened {
        Ok(bmc) => {
            answers.send(Answer::Opened(ticket, Ok(())));
            bmc
        }
        Err(error) => return answers.send(Answer::Opened(ticket, Err(error))),
    };
    loop {
        let order = tokio::select! {
            biased;
            _ = &mut hangup => break,
            order = orders.recv() => order,
        };
        let done = async {
            match order {
                None => None,
                Some(Order::Read(by)) => Some(read(&outside, &mut bmc, ticket, &target, by).await),
                Some(Order::Send(lent, by)) => {
                    let (permit, fresh) = *lent;
                    Some(request(&outside, &mut bmc, ticket, &target, (permit, fresh), by).await)
                }
            }
        };
        let done = tokio::select! {
            biased;
            _ = &mut hangup => break,
            done = done => done,
        };
        match done {
            Some(answer) => answers.send(answer),
            None => break,
        }
    }
    // Whoever does not let go is let go.
    let _ = timeout(CLOSE_LIMIT, bmc.close()).await;
}

async fn read(outside: &Outside, bmc: &mut Bmc, ticket: Ticket, target: &Target, by: Instant) -> Answer {
    let began = outside.clock.boot();
    let result = timeout_at(by + SLACK, bmc.read(by)).await.unwrap_or_else(|_| Err(overdue()));
    let ended = outside.clock.boot();
    let trouble = result.as_ref().err().map(|e| e.reason);
    outside.metrics.requested(target.entry.provider(), Operation::Read, trouble, ended.since(began));
    Answer::Read(ticket, ReadDone { began, ended, result })
}

async fn request(
    outside: &Outside,
    bmc: &mut Bmc,
    ticket: Ticket,
    target: &Target,
    (permit, fresh): (SendPermit, Reading),
    by: Instant,
) -> Answer {
    let began = outside.clock.boot();
    let asked = send(bmc, &permit, &fresh, &*outside.clock, by);
    let report = match timeout_at(by + SLACK, asked).await {
        Ok(report) => report,
        // What was cut off in the middle may have left.
        Err(_) => SendReport { began, ended: outside.clock.boot(), answer: SendAnswer::Unanswered },
    };
    let trouble = match report.answer {
        SendAnswer::Accepted | SendAnswer::Declined => None,
        SendAnswer::Rejected(reason) | SendAnswer::NotSent(reason) => Some(reason),
        SendAnswer::Unanswered => Some(ReasonCode::Deadline),
    };
    let took = report.ended.since(report.began);
    outside.metrics.requested(target.entry.provider(), Operation::PowerOff, trouble, took);
    Answer::Sent(ticket, report, permit)
}

fn overdue() -> BmcError {
    BmcError {
        reason: ReasonCode::Deadline,
        transient: true,
        detail: "the adapter did not keep its deadline".into(),
    }
}
