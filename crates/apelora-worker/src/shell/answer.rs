//! What the tasks of a leadership tell its loop.

use apelora_fencing::event::{BmcError, ReadDone};
use apelora_fencing::proof::{SendPermit, SendReport};
use apelora_fencing::recovery::Permission;
use apelora_fencing::write::{AuditRow, CommitError, Committed, Write};
use apelora_fencing::{BootTime, Incarnation, MemberName, Ticket};
use tokio::sync::{mpsc, oneshot};

use super::pass::Passed;

/// One thing that a task has to say.
pub(crate) enum Answer {
    /// A pass was read.
    Passed(Box<Passed>),
    /// A write ended.
    Committed(Ticket, Box<Write>, Result<Committed, CommitError>, Vec<AuditRow>),
    /// The permit's write ended.
    Permitted(Ticket, Result<SendPermit, CommitError>, Vec<AuditRow>),
    /// A conversation is open, or not.
    Opened(Ticket, Result<(), BmcError>),
    /// Identity and power were read, or not.
    Read(Ticket, ReadDone),
    /// The request ended; the permit that was lent for it comes back.
    Sent(Ticket, SendReport, SendPermit),
    /// Nothing was sent, because there was no permit for it or nobody to lend it to.
    NotSent(Ticket, SendReport),
    /// The lease was renewed until then, by the own clock and short of the margin.
    Renewed(BootTime),
    /// The database says that another leads.
    Lost,
    /// May a restart of the instances of this member's life go on now?
    MayRecover {
        /// The fenced member.
        member: MemberName,
        /// The life of it that ended.
        incarnation: Incarnation,
        /// Who asks.
        reply: oneshot::Sender<Permission>,
    },
}

/// The tasks' end of the loop's one channel.
#[derive(Clone)]
pub(crate) struct Answers(mpsc::UnboundedSender<Answer>);

impl Answers {
    pub(super) fn channel() -> (Self, mpsc::UnboundedReceiver<Answer>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Tells the loop, if it is still there. There is one answer to each effect, so the channel is bounded by them.
    pub(crate) fn send(&self, answer: Answer) {
        let _ = self.0.send(answer);
    }

    /// Asks the loop whether a restart of the instances of this member's life may begin or go on now. Not now, when the
    /// loop is gone.
    pub(crate) async fn may_recover(&self, member: &MemberName, incarnation: Incarnation) -> Permission {
        let (reply, replied) = oneshot::channel();
        self.send(Answer::MayRecover { member: member.clone(), incarnation, reply });
        replied.await.unwrap_or(Permission::NotNow)
    }
}
