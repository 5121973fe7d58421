//! Incus' answers, as the machine takes them: member lists, the second view, healing, what runs where, and which member this
//! worker runs on. Pure; what is not understood counts as the worse.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use apelora_fencing::restart::{Evacuate, Instance};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status, ViewError};
use apelora_fencing::{BootTime, MemberName};
use apelora_incus::{HealingSetting, Member, Tie};

/// What Incus calls a failure domain that nobody set.
const NO_DOMAIN: &str = "default";

/// What one look at the cluster saw.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// The first answer.
    pub(crate) view: Result<ClusterView, ViewError>,
    /// The answer of another member.
    pub(crate) second: SecondView,
    /// The cluster's own healing.
    pub(crate) healing: Healing,
    /// The member that this worker runs on, if the list names it.
    pub(crate) own_host: Option<MemberName>,
}

impl Sight {
    /// Nothing was seen that can be used.
    pub(crate) const fn unreadable(problem: ViewError) -> Self {
        Self { view: Err(problem), second: SecondView::Missing, healing: Healing::Unknown, own_host: None }
    }
}

/// One member's answer.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) view: ClusterView,
    pub(crate) healing: HealingSetting,
}

/// One member's answer as a view. A list that contradicts itself is none.
pub(crate) fn view(asked: BootTime, answer: &apelora_incus::View) -> Result<ClusterView, ViewError> {
    let listed = |member: &Member| {
        if let Some(why) = no_name(&member.name) {
            return Err(ViewError::Unreadable(format!("a member is listed whose name {why}")));
        }
        Ok(Listed {
            name: name(&member.name),
            status: Status::from_word(&member.status),
            failure_domain: Some(member.failure_domain.clone()).filter(|d| !d.is_empty() && d != NO_DOMAIN),
        })
    };
    let members = answer.members.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    let mut leaders = answer.members.iter().filter(|member| member.leads());
    let leader = match (leaders.next(), leaders.next()) {
        (Some(one), None) => Some(name(&one.name)),
        // Two leaders are none.
        _ => None,
    };
    ClusterView::new(asked, name(&answer.server.name), leader, members)
}

fn name(text: &str) -> MemberName {
    text.into()
}

/// No member's name is longer, in characters: what is longer could not be stored, and one such row would keep those of all
/// others from being stored.
const LONGEST_NAME: usize = 255;

/// Why this can be no member's name. Incus gives none of these; whoever does is not believed in anything.
fn no_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.chars().nth(LONGEST_NAME).is_some() {
        Some("is longer than 255 characters")
    } else if name.chars().any(char::is_control) {
        Some("has control characters")
    } else {
        None
    }
}

/// Whether two members that list themselves Online have answered: more answers add nothing.
pub(crate) fn is_enough(answers: &[Answered]) -> bool {
    let alive: BTreeSet<_> =
        answers.iter().filter(|a| a.view.responder_is_alive()).map(|a| a.view.responder()).collect();
    alive.len() >= 2
}

/// The first view and the second one, of two members; those that list themselves Online come first, else the order is that
/// of the answers. Whether they agree plays no part.
pub(crate) fn pair(
    answers: &[Answered],
    problem: impl FnOnce() -> String,
) -> (Result<ClusterView, ViewError>, SecondView) {
    let mut views: Vec<_> = answers.iter().map(|a| &a.view).collect();
    views.sort_by_key(|view| !view.responder_is_alive());
    let Some(first) = views.first() else {
        return (Err(ViewError::Unreadable(problem())), SecondView::Missing);
    };
    let second = views.iter().find(|view| view.responder() != first.responder());
    let second = second.map_or(SecondView::Missing, |view| SecondView::Seen((*view).clone()));
    (Ok((*first).clone()), second)
}

/// The cluster's own healing by all answers. One that reads it as on is enough, and no attestation overrules it.
pub(crate) fn healing(answers: &[Answered], attested_off: bool) -> Healing {
    let any = |wanted: fn(&HealingSetting) -> bool| answers.iter().any(|a| wanted(&a.healing));
    if any(|healing| matches!(healing, HealingSetting::On(_))) {
        Healing::On
    } else if attested_off || any(|healing| *healing == HealingSetting::Off) {
        Healing::Off
    } else {
        Healing::Unknown
    }
}

/// The member that this worker runs on: the one behind its own socket, else the one at an address of this host, else the
/// one that is named as this host. An address that several members have tells nothing. Host names have no case, so that a
/// name that differs in that only is the own one too: wrong, that costs a power-off; not known, it costs the own host.
pub(crate) fn own_host(
    socket: Option<&MemberName>,
    members: &[(MemberName, Option<IpAddr>)],
    names: &[String],
    is_own: impl Fn(IpAddr) -> bool,
) -> Option<MemberName> {
    if let Some(socket) = socket {
        return Some(socket.clone());
    }
    let mut here = members
        .iter()
        .filter(|(_, address)| address.is_some_and(|a| !a.is_loopback() && !a.is_unspecified() && is_own(a)));
    if let (Some((member, _)), None) = (here.next(), here.next()) {
        return Some(member.clone());
    }
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let named = |is: &dyn Fn(&str, &str) -> bool| {
        let all = members.iter().map(|(member, _)| member);
        // Of several the first by name, so that the answer does not follow the order of a list.
        all.filter(|member| names.iter().any(|own| is(own, member.as_str()))).min().cloned()
    };
    named(&|own, member| own == member)
        .or_else(|| named(&|own, member| own.eq_ignore_ascii_case(member)))
        .or_else(|| named(&|own, member| short(own).eq_ignore_ascii_case(&short(member))))
}

/// The address in a member's `url`, when it is a number.
pub(crate) fn address(url: &str) -> Option<IpAddr> {
    let host = url.strip_prefix("https://")?.trim_end_matches('/');
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    };
    host.parse().ok()
}

/// What runs on each of these members, for those of which everything is known. `shared` are the pools that every member
/// reaches.
pub(crate) fn inventory(
    instances: &[apelora_incus::Instance],
    online: &BTreeSet<MemberName>,
    shared: &BTreeSet<String>,
) -> BTreeMap<MemberName, Vec<Instance>> {
    let mut of: BTreeMap<_, Option<Vec<_>>> =
        online.iter().map(|member| (member.clone(), Some(Vec::new()))).collect();
    for instance in instances {
        let Some(entry) = of.get_mut(&name(&instance.location)) else { continue };
        // One instance of which nothing is known: its member is going away, and the rest is not believed either.
        *entry = match (entry.take(), read(instance, shared)) {
            (Some(mut known), Some(read)) => {
                known.push(read);
                Some(known)
            }
            _ => None,
        };
    }
    of.into_iter()
        .filter_map(|(member, instances)| {
            let mut instances = instances?;
            instances.sort_by(|a, b| (&a.project, &a.name).cmp(&(&b.project, &b.name)));
            Some((member, instances))
        })
        .collect()
}

fn read(instance: &apelora_incus::Instance, shared: &BTreeSet<String>) -> Option<Instance> {
    let config = instance.config.as_ref()?;
    let evacuate = Evacuate::from_word(config.evacuate.as_deref());
    let pools = config.pools();
    let shared_storage = config.root_pool().is_some() && pools.iter().all(|pool| shared.contains(*pool));
    let local_device = match config.tie() {
        Tie::Free => false,
        // Only an operator knows that the other server is set up alike.
        Tie::Loose => evacuate != Evacuate::Migrate,
        Tie::Server => true,
    };
    Some(Instance {
        project: instance.project.clone(),
        name: instance.name.clone(),
        member: name(&instance.location),
        architecture: config.architecture.clone(),
        autostart: config.autostart.setting(),
        priority: config.autostart_priority,
        was_running: config.was_running() || matches!(instance.status.as_str(), "Running" | "Ready"),
        evacuate,
        ephemeral: config.ephemeral,
        shared_storage,
        local_device,
        // Not known is as good as had: the move would be refused.
        has_backups: instance.has_backups.unwrap_or(true),
        memory: match config.memory {
            // What Incus gives a virtual machine without a limit.
            None if instance.kind == "virtual-machine" => Some(1 << 30),
            _ => config.memory_bytes(),
        },
    })
}

/// The pools that every member reaches: by the drivers that can be read, else by attestation. A readable driver that is not
/// shared overrules the attestation.
pub(crate) fn shared_pools(
    readable: Option<&[apelora_incus::Pool]>,
    attested: &[String],
) -> BTreeSet<String> {
    match readable {
        Some(pools) => pools.iter().filter(|p| p.is_shared()).map(|p| p.name.clone()).collect(),
        None => attested.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests;
