//! Which states are the same.

use super::model::*;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use apelora_fencing::canon::{Canon, Parts};

impl Exploration {
    /// Drops final records that nothing can ask about any more.
    pub(super) fn forget(&self, s: &mut State) {
        let keep = s.store.records.len().saturating_sub(3);
        let mut i = 0;
        s.store.records.retain(|r| {
            i += 1;
            i > keep || r.status.is_open() || r.send_at.is_some()
        });
    }

    /// A fingerprint that is the same for states that differ by the names of members, and by which of the two workers is which.
    pub(super) fn canonical(&self, s: &State) -> u64 {
        let holder_is_second = s.store.lease.holder == Some(holder(1));
        let order: [usize; WORKERS] =
            if self.symmetric && !self.own_hosts && holder_is_second { [1, 0] } else { [0, 1] };
        let mut parts = Parts {
            whole: DefaultHasher::new(),
            members: self.names.iter().map(|n| (n.clone(), DefaultHasher::new())).collect(),
            records: s.store.records.iter().map(|r| r.id).collect(),
        };
        parts.whole((s.budget, s.map, s.broken.is_some()));
        let lease = s.store.lease;
        parts.whole((lease.epoch, lease.expires_at.saturating_sub(s.db()), lease.expires_at < s.db()));
        for (name, server) in self.names.iter().zip(&s.servers) {
            let row = &s.store.members[name];
            let proof = row.proof.map(|p| (p.kind, p.incarnation, p.recovery_started));
            parts.of(name, (server, row.incarnation, row.online, proof, row.held, row.distrusted));
        }
        for (i, record) in s.store.records.iter().rev().enumerate() {
            let owner = order.iter().position(|w| holder(*w) == record.holder);
            let since = s.store.members[&record.member]
                .last_online_at
                .zip(record.send_at)
                .is_some_and(|(o, s)| o > s);
            let sent = record.send_at.map(|_| since);
            parts.of(&record.member, (i, record.status, record.incarnation, record.epoch, owner, sent));
            parts.whole((record.map.as_bytes(), record.status));
        }
        for w in order {
            let worker = &s.workers[w];
            parts.whole((worker.epoch, worker.hung, worker.barred, worker.supervisor.is_some()));
            parts.whole(lease.holder == Some(holder(w)));
            let until = worker.permit.as_ref().map(|p| p.until().since(s.now));
            parts.whole(until);
            if let Some((asked, offline, map)) = worker.looked {
                parts.whole(map);
                parts.whole(s.now.since(asked).min(ticks(2)));
                for (m, name) in self.names.iter().enumerate() {
                    parts.of(name, offline & (1 << m) != 0);
                }
            }
            for (m, name) in self.names.iter().enumerate() {
                parts.of(name, ("met", worker.met & (1 << m) != 0));
            }
            for Task { doing, late } in &worker.doing {
                let kind = (std::mem::discriminant(doing), late);
                match doing {
                    Doing::Look(_, asked) => parts.whole((kind, s.now.since(*asked).min(ticks(2)))),
                    Doing::Commit(..) => parts.whole(kind),
                    Doing::Open(_, m) | Doing::Read(_, m) | Doing::Send(_, m) | Doing::Stalled(_, m) => {
                        parts.of(&self.names[*m], kind);
                    }
                    Doing::Report(_, m, report) => parts.of(&self.names[*m], (kind, report.answer)),
                }
            }
            if let Some(supervisor) = &worker.supervisor {
                supervisor.canon(s.now, &mut parts);
            }
            for name in &self.names {
                parts.of(name, "next worker");
            }
        }
        let mut members: Vec<u64> = parts.members.iter().map(|(_, h)| h.finish()).collect();
        if self.symmetric && !self.own_hosts {
            members.sort_unstable();
        }
        members.hash(&mut parts.whole);
        parts.whole.finish()
    }
}
