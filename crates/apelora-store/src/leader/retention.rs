//! What of the leader's tables does not grow for ever: restarts that are over. Records, evidence and proofs stay.

use std::convert::Infallible;
use std::time::Duration;

use uuid::Uuid;

use super::recovery;
use crate::engine::{Conn, Fault, clock};
use crate::transact::{Stop, Work};
use crate::upkeep::OldRows;
use crate::{Store, StoreError};

impl Store {
    /// Deletes the restarts of instances that ended longer than `kept` ago, if their member was proven off in a later
    /// life since; the number deleted. It needs no lease: no leader changes rows of a life that is not the latest proven one, and no life begins
    /// again.
    ///
    /// # Errors
    /// Of the database; what was deleted before stays so.
    pub async fn prune_recoveries(&self, kept: Duration) -> Result<u64, StoreError> {
        let mut work = OldRecoveries { kept, offset: self.clock_offset() };
        let mut deleted = 0;
        loop {
            let gone = self.transact(&mut work).await?;
            deleted += gone;
            if gone < OldRows::LIMIT {
                return Ok(deleted);
            }
        }
    }
}

/// Deletes some of them, by the database's clock.
struct OldRecoveries {
    kept: Duration,
    offset: i64,
}

impl Work for OldRecoveries {
    type Locked = ();
    type Out = u64;
    type Refusal = Infallible;

    fn change(&self) -> Uuid {
        Uuid::nil()
    }

    async fn lock(&mut self, _tx: &mut Conn) -> Result<(), Fault> {
        Ok(())
    }

    async fn write(&mut self, tx: &mut Conn, (): ()) -> Result<u64, Stop<Infallible>> {
        let before = clock::read(tx, self.offset).await?.before(self.kept);
        Ok(recovery::delete_over(tx, before, OldRows::LIMIT).await?)
    }
}
