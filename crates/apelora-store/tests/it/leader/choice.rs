//! The choice of random writes: half of them bring a power-off a step further, half are anything.

use apelora_fencing::name::{Incarnation, MemberName, RecordId};
use apelora_fencing::proof::{Ground, PowerWord};
use apelora_fencing::record::RecordStatus;
use apelora_fencing::write::{Check, Final, Found, Numbers, Observation, Outcome, Refusal, Seen, Withdrawal};
use apelora_fencing::{ReasonCode, Write};

use super::model::{MEMBERS, Pair};
use super::permits::request;
use super::rig::{
    away, ended, intent, lease_dead, lease_seen, off, online, record_id, success, uuid, watched,
};

pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

impl Pair {
    pub fn member(&mut self) -> &'static str {
        self.dice.of(&MEMBERS)
    }

    /// Mostly the present life of a member, sometimes another one.
    pub fn life(&mut self, member: &str) -> Incarnation {
        let life = self.memory.members.get(&MemberName::from(member)).map_or(0, |m| m.incarnation.0);
        Incarnation(if self.dice.once_in(8) { (life + 1).saturating_sub(self.dice.next() % 3) } else { life })
    }

    /// Mostly the open record, sometimes any, sometimes none that exists.
    fn record(&mut self) -> RecordId {
        let open = self.memory.records.iter().find(|r| r.status.is_open()).map(|r| r.id);
        match open {
            Some(open) if !self.dice.once_in(6) => open,
            _ if self.records.is_empty() || self.dice.once_in(6) => record_id(),
            _ => {
                let at = self.dice.below(self.records.len());
                self.records[at]
            }
        }
    }

    /// What brings a power-off a step further, if something does.
    fn next_step(&mut self) -> Option<Write> {
        let by = self.memory.lease.epoch;
        if let Some(open) = self.memory.records.iter().find(|r| r.status.is_open()) {
            return Some(if open.epoch != by {
                Write::Adopt(open.id)
            } else if open.status == RecordStatus::Intent && self.dice.once_in(2) {
                Write::Permit(request(open.id, false))
            } else {
                Write::Final(self.last())
            });
        }
        let member = self.member();
        let known = self.memory.members.get(&MemberName::from(member));
        match known {
            Some(m) if m.online => Some(away(member)),
            Some(m) if m.incarnation.0 > 0 && m.proof.is_none_or(|p| p.incarnation != m.incarnation) => {
                let record = record_id();
                let incarnation = m.incarnation.0;
                if self.dice.once_in(5) {
                    return Some(lease_dead(member, incarnation));
                }
                self.records.push(record);
                Some(Write::Intent(intent(member, incarnation, record)))
            }
            Some(m) if m.proof.is_some() && self.dice.once_in(2) => {
                let incarnation = m.incarnation;
                Some(Write::Withdraw(Withdrawal { member: member.into(), incarnation, power: PowerWord::On }))
            }
            _ => Some(online(member)),
        }
    }

    pub fn write(&mut self) -> Write {
        if self.dice.once_in(2)
            && let Some(write) = self.next_step()
        {
            return write;
        }
        match self.dice.below(24) {
            0..=5 => {
                let count = 1 + self.dice.below(3);
                let observations = (0..count).map(|_| Observation {
                    member: self.member().into(),
                    seen: match self.dice.below(6) {
                        0 => Seen::Online(vec![lease_seen()]),
                        1 | 2 => Seen::Online(Vec::new()),
                        _ => Seen::Away,
                    },
                });
                Write::Observed(observations.collect())
            }
            6 => Write::Refused(vec![Refusal {
                member: self.member().into(),
                reasons: [ReasonCode::NotMinority, ReasonCode::Held].into(),
                numbers: Numbers::default(),
            }]),
            7..=10 => {
                let member = self.member();
                let record = record_id();
                self.records.push(record);
                let mut intent = intent(member, self.life(member).0, record);
                let hardware = MEMBERS.iter().position(|m| *m == member).unwrap();
                intent.uuid = match self.dice.below(8) {
                    0 => None,
                    // A renamed member is still the same hardware.
                    1 => Some(uuid(1)),
                    _ => Some(uuid(u8::try_from(hardware).unwrap() + 1)),
                };
                Write::Intent(intent)
            }
            11..=13 => {
                let record = self.record();
                Write::Permit(request(record, self.dice.once_in(6)))
            }
            14 => Write::Adopt(self.record()),
            15..=17 => Write::Final(self.last()),
            18 => Write::ReadBack(self.record()),
            19 => {
                let member = self.member();
                let life = self.life(member).0;
                if self.dice.once_in(2) { watched(member, life) } else { lease_dead(member, life) }
            }
            20 => {
                let member = self.member();
                let incarnation = self.life(member);
                Write::Withdraw(Withdrawal { member: member.into(), incarnation, power: PowerWord::On })
            }
            21 => {
                let all = [Found::Good, Found::Bad(ReasonCode::BmcUnreachable), Found::Contradiction];
                let checks =
                    (0..2).map(|_| Check { member: self.member().into(), found: self.dice.of(&all) });
                Write::Checked(checks.collect())
            }
            _ => {
                let member = self.member();
                let incarnation = self.life(member);
                Write::RecoveryStarted { member: member.into(), incarnation }
            }
        }
    }

    fn last(&mut self) -> Final {
        let record = self.record();
        let sent = match self.memory.records.iter().find(|r| r.id == record) {
            Some(r) if !self.dice.once_in(20) => r.status == RecordStatus::Sent,
            _ => self.dice.once_in(2),
        };
        match self.dice.below(4) {
            0 => ended(record, ReasonCode::NeverOff, sent),
            1 => ended(record, ReasonCode::PersonConfirmed, sent),
            _ if sent => success(record),
            _ => Final {
                outcome: Outcome::Success,
                reason: ReasonCode::AlreadyOff,
                sent: false,
                proof: Some(off(Ground::Unsent)),
                ..success(record)
            },
        }
    }
}
