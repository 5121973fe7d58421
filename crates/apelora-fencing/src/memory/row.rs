//! The rows as they are stored, times on the database's clock.

use std::time::Duration;

use crate::identity::SystemUuid;
use crate::lease::LeaseSeen;
use crate::map::MapSha;
use crate::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};
use crate::reason::ReasonCode;
use crate::record::{MemberRow, ProofKind, ProofRow, RecordStatus};

/// A point on the database's clock.
pub type DbTime = Duration;

/// The leader lease's one row. Never deleted; the epoch never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    /// Who holds or held it.
    pub holder: Option<HolderId>,
    /// Grows with every acquisition.
    pub epoch: Epoch,
    /// When it ends.
    pub expires_at: DbTime,
}

/// A fence record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordRow {
    /// Its id.
    pub id: RecordId,
    /// Whom it is about.
    pub member: MemberName,
    /// The mapped hardware.
    pub uuid: Option<SystemUuid>,
    /// Which life.
    pub incarnation: Incarnation,
    /// Where it stands.
    pub status: RecordStatus,
    /// The map it was made from.
    pub map: MapSha,
    /// The epoch that last wrote it.
    pub epoch: Epoch,
    /// The holder that last wrote it.
    pub holder: HolderId,
    /// When the permit was committed, if something was or may have been sent.
    pub send_at: Option<DbTime>,
}

/// A stored proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredProof {
    /// Its kind.
    pub kind: ProofKind,
    /// The life it ended.
    pub incarnation: Incarnation,
    /// When it was stored.
    pub at: DbTime,
    /// Whether a restart builds on it.
    pub recovery_started: bool,
}

/// What is stored about a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoredMember {
    /// Its present life.
    pub incarnation: Incarnation,
    /// Whether it is stored as Online.
    pub online: bool,
    /// When it was last stored as Online again.
    pub last_online_at: Option<DbTime>,
    /// Its latest proof that was not withdrawn.
    pub proof: Option<StoredProof>,
    /// Whether an entry locks its power.
    pub held: bool,
    /// Whether its mapping is distrusted.
    pub distrusted: bool,
    /// Its leases while it was Online.
    pub leases: Vec<LeaseSeen>,
}

impl StoredMember {
    pub(super) fn row(&self, now: DbTime) -> MemberRow {
        MemberRow {
            incarnation: self.incarnation,
            online: self.online,
            last_online: self.last_online_at.map(|at| now.saturating_sub(at)),
            proof: self.proof.map(|p| ProofRow {
                kind: p.kind,
                incarnation: p.incarnation,
                age: now.saturating_sub(p.at),
                recovery_started: p.recovery_started,
            }),
            held: self.held,
            distrusted: self.distrusted,
            leases: self.leases.clone(),
        }
    }

    pub(super) fn standing(&self) -> Option<&StoredProof> {
        self.proof.as_ref().filter(|p| p.incarnation == self.incarnation && !self.online)
    }

    /// Why nothing may be sent to it, by what is stored.
    pub(super) fn forbids_send(&self, incarnation: Incarnation) -> Option<ReasonCode> {
        if self.online || self.incarnation != incarnation {
            return Some(ReasonCode::BackOnline);
        }
        match self.standing() {
            Some(StoredProof { kind: ProofKind::Person, .. }) => return Some(ReasonCode::PersonConfirmed),
            Some(_) => return Some(ReasonCode::AlreadyFenced),
            None => {}
        }
        let flags = [
            (incarnation == Incarnation(0), ReasonCode::NeverOnline),
            (self.held, ReasonCode::Held),
            (self.distrusted, ReasonCode::Distrusted),
        ];
        flags.into_iter().find(|(is, _)| *is).map(|(_, reason)| reason)
    }
}
