//! `apelora demo break|hang|cut|heal`: orders to a running demo.

use std::ffi::OsString;

use crate::cli::{DemoVerb, OneMember};
use crate::demo::control::{Answer, Deed, Order, give, meeting_place};
use crate::failure::Failure;
use crate::output::raw;
use crate::printable::printable;

pub(super) fn run(verb: DemoVerb, environment: &[(OsString, OsString)]) -> Result<(), Failure> {
    let (deed, OneMember { member, demo }) = match verb {
        DemoVerb::Break(how) => (if how.lose_power { Deed::LosePower } else { Deed::Break }, how.whom),
        DemoVerb::Hang(whom) => (Deed::Hang, whom),
        DemoVerb::Cut(whom) => (Deed::Cut, whom),
        DemoVerb::Heal(whom) => (Deed::Heal, whom),
    };
    let folder = meeting_place(environment, &std::env::temp_dir());
    match give(&folder, demo, &Order { deed, member }).map_err(|e| Failure::because(&e))? {
        Answer::Done(sentence) => raw(&format!("{}\n", printable(&sentence))),
        Answer::Refused(why) => Err(Failure::Failed(printable(&why).into_owned())),
    }
}
