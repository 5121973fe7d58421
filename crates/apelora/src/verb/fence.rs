//! `apelora fence replay`.

use std::io;

use apelora_fencing::replay::{ReplayError, replay};

use crate::cli::Fence;
use crate::failure::Failure;

pub(super) fn run(verb: &Fence) -> Result<(), Failure> {
    match verb {
        Fence::Replay => match replay(io::stdin().lock(), io::stdout().lock()) {
            Ok(_) => Ok(()),
            Err(ReplayError::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                Err(Failure::OutputClosed)
            }
            Err(why) => Err(Failure::because(&why)),
        },
    }
}
