//! `apelora fence replay|explain`.

use std::ffi::OsString;
use std::io;

use apelora_fencing::replay::{ReplayError, replay};

use super::member;
use crate::cli::Fence;
use crate::failure::Failure;

pub(super) fn run(verb: Fence, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    match verb {
        Fence::Explain(options) => member::explain(options, environment),
        Fence::Replay => match replay(io::stdin().lock(), io::stdout().lock()) {
            Ok(_) => Ok(()),
            Err(ReplayError::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                Err(Failure::OutputClosed)
            }
            Err(why) => Err(Failure::because(&why)),
        },
    }
}
