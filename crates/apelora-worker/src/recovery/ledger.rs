//! The restarts as they are stored.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::{Incarnation, MemberName};

/// A life of a member that ended.
pub(super) type Life = (MemberName, Incarnation);

/// Which restart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) life: Life,
    pub(super) project: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of(row: &RecoveryRow) -> Self {
        let life = (row.member.clone(), row.incarnation);
        Self { life, project: row.project.clone(), name: row.instance.clone() }
    }
}

/// What is stored, as far as this leadership knows: it is the only one that writes.
#[derive(Default)]
pub(super) struct Ledger(Mutex<BTreeMap<Key, RecoveryRow>>);

impl Ledger {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Key, RecoveryRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row is stored; how far it was before.
    pub(super) fn put(&self, row: RecoveryRow) -> Option<Step> {
        self.rows().insert(Key::of(&row), row).map(|before| before.step)
    }

    pub(super) fn get(&self, key: &Key) -> Option<RecoveryRow> {
        self.rows().get(key).cloned()
    }

    /// The rows of one life.
    pub(super) fn of(&self, life: &Life) -> Vec<RecoveryRow> {
        self.rows().iter().filter(|(key, _)| key.life == *life).map(|(_, row)| row.clone()).collect()
    }

    /// The rows that have not ended.
    pub(super) fn open(&self) -> Vec<RecoveryRow> {
        self.rows().values().filter(|row| !row.step.is_end()).cloned().collect()
    }
}
