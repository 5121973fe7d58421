//! The machine's effects, carried out in their order. Each that carries a ticket is answered once.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::{BmcError, Effect, ReadDone, Target};
use apelora_fencing::proof::{Reading, SendAnswer, SendReport};
use apelora_fencing::write::{CommitError, Write};
use apelora_fencing::{BootTime, ReasonCode, Ticket};
use tokio::time::timeout;

use super::answer::Answer;
use super::lead::Lead;
use super::pass;
use super::talk::{self, Gone, Talk};
use crate::notice::SteppedDown;

/// The store has its own, shorter limits. Whoever does not answer by then may have made the write or not.
const COMMIT_LIMIT: Duration = Duration::from_secs(10);

impl Lead {
    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Look(ticket) => {
                if let Some(older) = self.look.take() {
                    older.abort();
                }
                let gathering = pass::gather(Arc::clone(&self.outside), ticket, self.answers.clone());
                self.look = Some(self.tasks.spawn(gathering));
            }
            Effect::Commit(ticket, write) => self.commit(ticket, write),
            Effect::Permit(ticket, request) => {
                let (term, answers) = (Arc::clone(&self.term), self.answers.clone());
                self.tasks.spawn(async move {
                    let made = timeout(COMMIT_LIMIT, term.permit(request)).await;
                    let (result, audit) = made.unwrap_or((Err(CommitError::Unknown), Vec::new()));
                    answers.send(Answer::Permitted(ticket, result, audit));
                });
            }
            Effect::Open(ticket, target, by) => self.open(ticket, target, by),
            Effect::Read(ticket, by) => self.read(ticket, by),
            Effect::SendOff(ticket, reading, by) => self.send_off(ticket, reading, by),
            // Its task notices that nobody holds the other end.
            Effect::Close(ticket) => drop(self.talks.remove(&ticket)),
            Effect::Renew => self.renew_now.notify_one(),
            Effect::Wake(at) => self.wake = Some(at),
            Effect::StepDown(why) => self.ended = Some(SteppedDown::Machine(why)),
        }
    }

    fn commit(&mut self, ticket: Ticket, write: Write) {
        if let Write::Final(last) = &write {
            self.permit.take_if(|permit| permit.record() == last.record);
        }
        let (term, answers) = (Arc::clone(&self.term), self.answers.clone());
        self.tasks.spawn(async move {
            let made = timeout(COMMIT_LIMIT, term.commit(write.clone())).await;
            let (result, audit) = made.unwrap_or((Err(CommitError::Unknown), Vec::new()));
            answers.send(Answer::Committed(ticket, Box::new(write), result, audit));
        });
    }

    fn open(&mut self, ticket: Ticket, target: Target, by: BootTime) {
        let (handle, listener) = Talk::new(target);
        self.talks.insert(ticket, handle);
        let by = self.outside.instant(by);
        let held = talk::hold(Arc::clone(&self.outside), ticket, by, listener, self.answers.clone());
        self.talkers.spawn(held);
    }

    fn read(&mut self, ticket: Ticket, by: BootTime) {
        let by = self.outside.instant(by);
        let told = self.talks.get(&ticket).ok_or(Gone).and_then(|talk| talk.read(by));
        if let Err(Gone) = told {
            let now = self.outside.clock.boot();
            let result = Err(BmcError {
                reason: ReasonCode::BmcUnreachable,
                transient: true,
                detail: "the conversation has ended".into(),
            });
            self.answers.send(Answer::Read(ticket, ReadDone { began: now, ended: now, result }));
        }
    }

    /// Without a permit for this very record and this very map nothing is sent, whatever the machine says.
    fn send_off(&mut self, ticket: Ticket, reading: Reading, by: BootTime) {
        let by = self.outside.instant(by);
        let record = self.supervisor.in_progress().map(|(_, record)| record);
        let talk = self.talks.get(&ticket);
        let map = talk.map(|talk| talk.target().map);
        let permit = self.permit.take_if(|p| Some(p.record()) == record && Some(p.map()) == map);
        let lent = talk.zip(permit).is_some_and(|(talk, permit)| talk.send(permit, reading, by).is_ok());
        self.sending = lent;
        if !lent {
            let now = self.outside.clock.boot();
            let answer = SendAnswer::NotSent(ReasonCode::PermitExpired);
            let report = SendReport { began: now, ended: now, answer };
            self.answers.send(Answer::NotSent(ticket, report));
        }
    }
}
