//! Which instances of a fenced member may be restarted where, and why not.
//!
//! Whether a restart may begin at all says [`crate::Supervisor::may_recover`]; this is only the plan, which pages also show
//! beforehand. The rules for what restarts are Incus' own (evacuation and boot settings of its instances).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::name::MemberName;

/// What an instance's `cluster.evacuate` says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evacuate {
    /// `auto`: moves unless a device ties it to its server.
    Auto,
    /// `migrate` or `live-migrate`.
    Migrate,
    /// `stop`, `stateful-stop`, `force-stop`, or a word this code does not know: stays.
    Stop,
}

impl Evacuate {
    /// Reads the configuration's word; absent means `auto`.
    pub fn from_word(word: Option<&str>) -> Self {
        match word {
            None | Some("" | "auto") => Self::Auto,
            Some("migrate" | "live-migrate") => Self::Migrate,
            Some(_) => Self::Stop,
        }
    }
}

/// An instance, as it was when its member was last healthy: Incus forgets its configuration when the member is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub member: MemberName,
    /// Its CPU architecture.
    pub architecture: String,
    /// `boot.autostart`, if set.
    pub autostart: Option<bool>,
    /// `boot.autostart.priority`: higher ones start first.
    pub priority: i64,
    /// Whether it was running (`volatile.last_state.power`).
    pub was_running: bool,
    /// `cluster.evacuate`.
    pub evacuate: Evacuate,
    /// Whether it is deleted when it stops.
    pub ephemeral: bool,
    /// Whether every volume is on a pool that the target reaches too.
    pub shared_storage: bool,
    /// Whether a device ties it to its server (a passed-through disk, GPU or USB device).
    pub local_device: bool,
    /// Whether it has backups, which Incus refuses to move.
    pub has_backups: bool,
    /// Its memory limit in bytes, if it has one.
    pub memory: Option<u64>,
}

/// A member that instances may be moved to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// The member.
    pub member: MemberName,
    /// Whether the cluster sees it Online.
    pub online: bool,
    /// Whether its node is in maintenance, so that nothing new is put there.
    pub in_maintenance: bool,
    /// Its architectures.
    pub architectures: Vec<String>,
    /// Memory that is free, in bytes, if it is known.
    pub free_memory: Option<u64>,
    /// How many instances it runs.
    pub instances: usize,
}

/// Why an instance stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stays {
    /// Its member is not fenced.
    NotFenced,
    /// It is ephemeral: it is gone with its server.
    Ephemeral,
    /// A volume is on a local pool.
    LocalStorage,
    /// A device ties it to its server.
    LocalDevice,
    /// `cluster.evacuate` forbids it.
    Evacuate,
    /// It has backups, which the cluster refuses to move.
    Backups,
    /// No member has its architecture.
    Architecture,
    /// No member is Online and out of maintenance.
    NoTarget,
    /// No member has enough free memory.
    NoRoom,
}

impl Stays {
    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFenced => "not_fenced",
            Self::Ephemeral => "ephemeral",
            Self::LocalStorage => "local_storage",
            Self::LocalDevice => "local_device",
            Self::Evacuate => "evacuate_stop",
            Self::Backups => "backups",
            Self::Architecture => "architecture",
            Self::NoTarget => "no_target",
            Self::NoRoom => "no_room",
        }
    }

    /// What it means and what to do, as one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NotFenced => "Its member is not proven off; nothing restarts before that.",
            Self::Ephemeral => "It is ephemeral and is gone with its server.",
            Self::LocalStorage => "A volume is on a local pool; it starts again when its server returns.",
            Self::LocalDevice => "A device ties it to its server; remove the device or wait for the server.",
            Self::Evacuate => {
                "Its cluster.evacuate setting keeps it on its server; set it to migrate to allow a move."
            }
            Self::Backups => "It has backups, which the cluster refuses to move; delete or export them.",
            Self::Architecture => "No other member has its architecture.",
            Self::NoTarget => "No other member is Online and out of maintenance.",
            Self::NoRoom => "No other member has enough free memory for it.",
        }
    }
}

/// What is planned for an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Move it there and start it.
    Restart(MemberName),
    /// Move it there and leave it stopped, as it was or as it is configured.
    Move(MemberName),
    /// Leave it.
    Stay(Stays),
}

/// Puts instances in the order in which they are planned and started: Incus' own at boot, by priority, then by name.
pub fn sort(instances: &mut [Instance]) {
    instances.sort_by(|a, b| (b.priority, &a.project, &a.name).cmp(&(a.priority, &b.project, &b.name)));
}

/// Plans every instance of `fenced` members, in the order given; all other instances stay as `NotFenced`.
///
/// Each goes to the member with the most free memory after what was planned before it, the fewest instances among equals,
/// then by name. A member whose free memory is not known comes last.
pub fn plan(instances: &[Instance], fenced: &[MemberName], rooms: &[Room]) -> Vec<Plan> {
    let mut left: BTreeMap<&MemberName, (Option<u64>, usize)> =
        rooms.iter().map(|r| (&r.member, (r.free_memory, r.instances))).collect();
    instances
        .iter()
        .map(|instance| {
            if let Some(stays) = ties(instance, fenced) {
                return Plan::Stay(stays);
            }
            let target = match target(instance, fenced, rooms, &left) {
                Ok(target) => target,
                Err(stays) => return Plan::Stay(stays),
            };
            if let Some((memory, count)) = left.get_mut(target) {
                *memory = memory.map(|free| free.saturating_sub(instance.memory.unwrap_or(0)));
                *count += 1;
            }
            // Incus' own rule at boot.
            if instance.autostart.unwrap_or(instance.was_running) {
                Plan::Restart(target.clone())
            } else {
                Plan::Move(target.clone())
            }
        })
        .collect()
}

/// What ties an instance to its server.
fn ties(instance: &Instance, fenced: &[MemberName]) -> Option<Stays> {
    let reasons = [
        (!fenced.contains(&instance.member), Stays::NotFenced),
        (instance.ephemeral, Stays::Ephemeral),
        (!instance.shared_storage, Stays::LocalStorage),
        (instance.local_device, Stays::LocalDevice),
        (instance.evacuate == Evacuate::Stop, Stays::Evacuate),
        (instance.has_backups, Stays::Backups),
    ];
    reasons.into_iter().find(|(is, _)| *is).map(|(_, stays)| stays)
}

fn target<'a>(
    instance: &Instance,
    fenced: &[MemberName],
    rooms: &'a [Room],
    left: &BTreeMap<&MemberName, (Option<u64>, usize)>,
) -> Result<&'a MemberName, Stays> {
    let usable: Vec<_> =
        rooms.iter().filter(|r| r.online && !r.in_maintenance && !fenced.contains(&r.member)).collect();
    if usable.is_empty() {
        return Err(Stays::NoTarget);
    }
    let fitting: Vec<_> =
        usable.into_iter().filter(|r| r.architectures.contains(&instance.architecture)).collect();
    if fitting.is_empty() {
        return Err(Stays::Architecture);
    }
    let of = |room: &Room| left.get(&room.member).copied().unwrap_or_default();
    let enough = |room: &&Room| match (of(room).0, instance.memory) {
        (Some(free), Some(needed)) => free >= needed,
        _ => true,
    };
    let best = fitting.into_iter().filter(enough).max_by_key(|room| {
        let (free, count) = of(room);
        (free, Reverse(count), Reverse(&room.member))
    });
    best.map(|room| &room.member).ok_or(Stays::NoRoom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: &str) -> Instance {
        Instance {
            project: "default".into(),
            name: name.into(),
            member: "s1".into(),
            architecture: "x86_64".into(),
            autostart: None,
            priority: 0,
            was_running: true,
            evacuate: Evacuate::Auto,
            ephemeral: false,
            shared_storage: true,
            local_device: false,
            has_backups: false,
            memory: Some(4),
        }
    }

    fn room(member: &str, free: u64) -> Room {
        Room {
            member: member.into(),
            online: true,
            in_maintenance: false,
            architectures: vec!["x86_64".into()],
            free_memory: Some(free),
            instances: 0,
        }
    }

    fn one(instance: Instance, rooms: &[Room]) -> Plan {
        plan(&[instance], &["s1".into()], rooms).remove(0)
    }

    #[test]
    fn nothing_restarts_without_a_fenced_member() {
        assert_eq!(plan(&[instance("a")], &[], &[room("s2", 9)]), [Plan::Stay(Stays::NotFenced)]);
    }

    #[test]
    fn what_ties_an_instance_to_its_server() {
        type Change = fn(&mut Instance);
        let changes: [(Change, Stays); 5] = [
            (|i| i.ephemeral = true, Stays::Ephemeral),
            (|i| i.shared_storage = false, Stays::LocalStorage),
            (|i| i.local_device = true, Stays::LocalDevice),
            (|i| i.evacuate = Evacuate::from_word(Some("stop")), Stays::Evacuate),
            (|i| i.has_backups = true, Stays::Backups),
        ];
        for (change, stays) in changes {
            let mut tied = instance("a");
            change(&mut tied);
            assert_eq!(one(tied, &[room("s2", 9)]), Plan::Stay(stays));
        }
    }

    #[test]
    fn autostart_decides_and_otherwise_the_last_state() {
        for (autostart, was_running, restarts) in
            [(None, true, true), (None, false, false), (Some(true), false, true), (Some(false), true, false)]
        {
            let is = one(Instance { autostart, was_running, ..instance("a") }, &[room("s2", 9)]);
            let target = "s2".into();
            assert_eq!(is, if restarts { Plan::Restart(target) } else { Plan::Move(target) });
        }
    }

    #[test]
    fn instances_spread_over_the_room_there_is() {
        let many: Vec<_> = ["a", "b", "c", "d"].map(instance).to_vec();
        let rooms = [room("s3", 9), room("s2", 9)];
        let plans = plan(&many, &["s1".into()], &rooms);
        let targets: Vec<_> = plans
            .iter()
            .map(|p| match p {
                Plan::Restart(m) | Plan::Move(m) => m.as_str(),
                Plan::Stay(stays) => stays.as_str(),
            })
            .collect();
        assert_eq!(targets, ["s2", "s3", "s2", "s3"]);
        let five = plan(&[many, vec![instance("e")]].concat(), &["s1".into()], &rooms);
        assert_eq!(five[4], Plan::Stay(Stays::NoRoom));
    }

    #[test]
    fn higher_priorities_come_first_and_names_decide_among_equals() {
        let with = |name: &str, priority| Instance { priority, ..instance(name) };
        let mut all = [with("c", 0), with("b", 9), with("a", 0), with("d", -1)];
        sort(&mut all);
        assert_eq!(all.map(|i| i.name), ["b", "a", "c", "d"]);
    }

    #[test]
    fn a_target_is_online_out_of_maintenance_and_of_the_architecture() {
        let away = Room { online: false, ..room("s2", 9) };
        let maintained = Room { in_maintenance: true, ..room("s3", 9) };
        let other = Room { architectures: vec!["aarch64".into()], ..room("s4", 9) };
        let fenced = room("s1", 9);
        let none = [away, maintained, fenced];
        assert_eq!(one(instance("a"), &none), Plan::Stay(Stays::NoTarget));
        assert_eq!(one(instance("a"), &[other]), Plan::Stay(Stays::Architecture));
        let unknown = Room { free_memory: None, ..room("s2", 0) };
        assert_eq!(one(instance("a"), &[unknown.clone(), room("s5", 4)]), Plan::Restart("s5".into()));
        assert_eq!(one(instance("a"), &[unknown]), Plan::Restart("s2".into()));
    }
}
