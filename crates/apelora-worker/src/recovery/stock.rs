//! What ran where, and where there is room: what plans are made from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apelora_fencing::recovery::RecoveryRow;
use apelora_fencing::restart::{self, Instance, Plan, Room};
use apelora_fencing::{BootTime, MemberName};
use tokio::time::timeout;
use tracing::debug;

use super::looker::Name;
use super::rooms;
use super::seen::Seen;
use super::with::With;

/// While nothing has to be restarted, both are read this often.
const IDLE: Duration = Duration::from_secs(30);
/// What reading the stored inventory may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The latest reading of both.
#[derive(Default)]
pub(super) struct Stock {
    inventory: Option<(BootTime, Inventory)>,
    rooms: Option<(BootTime, Vec<Room>)>,
}

#[derive(Default)]
struct Inventory {
    by_name: BTreeMap<Name, Instance>,
    /// In the order of starting.
    by_member: BTreeMap<MemberName, Vec<Instance>>,
}

impl Inventory {
    fn new(mut all: Vec<Instance>) -> Self {
        let mut new = Self::default();
        restart::sort(&mut all);
        for instance in all {
            let name = (instance.project.clone(), instance.name.clone());
            new.by_member.entry(instance.member.clone()).or_default().push(instance.clone());
            new.by_name.insert(name, instance);
        }
        new
    }
}

impl Stock {
    /// Reads what is too old. What was read `since` then is young enough for somebody who restarts. Whether there is enough
    /// to plan with.
    pub(super) async fn refresh(&mut self, with: &With, seen: &Seen, since: Option<BootTime>) -> bool {
        let now = with.outside.clock.boot();
        let old = |at: BootTime| now.since(at) >= IDLE || since.is_some_and(|since| at < since);
        // A leader that begins with an empty one has just asked for it: what is planned is shown as soon as it is there.
        if self.inventory.as_ref().is_none_or(|(at, all)| all.by_name.is_empty() || old(*at)) {
            let read = timeout(LIMIT, with.outside.database.inventory()).await;
            match read.unwrap_or_else(|_| Err("it took too long".into())) {
                Ok(all) => self.inventory = Some((now, Inventory::new(all))),
                Err(problem) => debug!(problem, "the stored inventory could not be read"),
            }
        }
        if let Some(view) = &seen.view
            && self.rooms.as_ref().is_none_or(|(at, _)| old(*at))
        {
            match rooms::read(&with.outside, view).await {
                Ok(rooms) => self.rooms = Some((now, rooms)),
                Err(problem) => debug!(problem, "where there is room could not be read"),
            }
        }
        let young = |at: Option<BootTime>| at.is_some_and(|at| since.is_none_or(|since| at >= since));
        young(self.inventory.as_ref().map(|(at, _)| *at)) && young(self.rooms.as_ref().map(|(at, _)| *at))
    }

    /// An instance as it was when its member was healthy.
    pub(super) fn instance(&self, name: &Name) -> Option<&Instance> {
        self.inventory.as_ref()?.1.by_name.get(name)
    }

    /// Everything that was stored of a member, in the order of starting.
    pub(super) fn on(&self, member: &MemberName) -> &[Instance] {
        let all = self.inventory.as_ref().and_then(|(_, all)| all.by_member.get(member));
        all.map_or(&[], Vec::as_slice)
    }

    /// Plans, given what is on its way already.
    pub(super) fn plan(
        &self,
        seen: &Seen,
        instances: &[Instance],
        off: &MemberName,
        open: &[RecoveryRow],
    ) -> Vec<Plan> {
        let mut fenced: BTreeSet<_> = seen.fenced.keys().cloned().collect();
        fenced.insert(off.clone());
        let fenced: Vec<_> = fenced.into_iter().collect();
        restart::plan(instances, &fenced, &self.rooms(seen, open))
    }

    /// Whether something may be moved to a member now, as far as is known.
    pub(super) fn is_usable(&self, seen: &Seen, member: &MemberName) -> bool {
        let rooms = self.rooms.iter().flat_map(|(_, rooms)| rooms);
        let mut of = rooms.filter(|room| room.member == *member);
        let away = seen.fenced.contains_key(member) || !is_online(seen, member);
        !away && of.next().is_some_and(|room| room.online && !room.in_maintenance)
    }

    /// The rooms without what is taken by restarts that have not ended.
    fn rooms(&self, seen: &Seen, open: &[RecoveryRow]) -> Vec<Room> {
        let mut rooms = self.rooms.as_ref().map(|(_, rooms)| rooms.clone()).unwrap_or_default();
        for room in &mut rooms {
            room.online &= is_online(seen, &room.member);
            room.instances = self.on(&room.member).len();
            for row in open.iter().filter(|row| row.target.as_ref() == Some(&room.member)) {
                let taken = self.instance(&(row.project.clone(), row.instance.clone()));
                let memory = taken.and_then(|instance| instance.memory).unwrap_or(0);
                room.free_memory = room.free_memory.map(|free| free.saturating_sub(memory));
                room.instances += 1;
            }
        }
        rooms
    }
}

/// Whether the latest member list says so.
pub(super) fn is_online(seen: &Seen, member: &MemberName) -> bool {
    let status = seen.view.as_ref().and_then(|view| view.status(member));
    status == Some(&apelora_fencing::view::Status::Online)
}
