//! GUARD-MONOTONE: making any single input worse never turns a refusal into an intent, and `decide` is total.

use std::time::Duration;

use apelora_fencing::decide::{Action, decide};
use apelora_fencing::reason::ReasonCode;
use apelora_fencing::record::ProofKind;
use apelora_fencing::view::{Healing, Status};
use apelora_fencing::world::{BmcPause, LeaseFacts, MemberFacts, ViewFacts, World};
use apelora_fencing::{Limits, MemberName};
use proptest::prelude::*;

fn duration() -> impl Strategy<Value = Duration> {
    // Around every limit, and far from it.
    prop_oneof![
        (0_u64..700_000).prop_map(Duration::from_millis),
        prop::sample::select(vec![0, 14_999, 15_000, 19_999, 20_000, 29_999, 30_000, 599_999, 600_000])
            .prop_map(Duration::from_millis),
    ]
}

fn member(i: usize) -> impl Strategy<Value = MemberFacts> {
    let statuses = vec![
        Status::Online,
        Status::Offline,
        Status::Blocked,
        Status::from_word("Evacuated"),
        Status::from_word("x"),
    ];
    let flags = prop::collection::vec(prop::bool::weighted(0.85), 7);
    let times = (prop::option::of(duration()), prop::option::of(duration()), any::<bool>());
    (
        prop::option::weighted(0.95, prop::sample::select(statuses)),
        flags,
        times,
        prop::option::weighted(0.3, 0..2_u8),
    )
        .prop_map(move |(status, flags, (offline_for, last_send, online_since_send), domain)| {
            MemberFacts {
                failure_domain: domain.map(|d| format!("d{d}")),
                offline_for,
                second_view_agrees: flags[0],
                mapped: flags[1],
                lab_refused: !flags[2],
                own_host: !flags[3],
                ever_online: flags[4],
                held: !flags[5],
                distrusted: !flags[6],
                last_send,
                online_since_send,
                ..MemberFacts::new(MemberName::from(format!("m{i}").as_str()), status)
            }
        })
}

fn world() -> impl Strategy<Value = World> {
    let members = (1_usize..7).prop_flat_map(|n| (0..n).map(member).collect::<Vec<_>>());
    let flags = prop::collection::vec(prop::bool::weighted(0.85), 6);
    (members, flags, duration(), prop::option::weighted(0.1, duration())).prop_map(
        |(members, flags, remaining, gap)| World {
            fence_after: Duration::from_secs(30),
            view: ViewFacts {
                readable: flags[0],
                responder_online: flags[1],
                leader_online: flags[2],
                healing: if flags[3] { Healing::Off } else { Healing::On },
            },
            lease: LeaseFacts { held: flags[4], remaining },
            mapping_valid: flags[5],
            open: None,
            history_gap: gap,
            failure_domain_rule: true,
            single_view: false,
            members,
        },
    )
}

/// Ways to make the world worse for one member. What they do to others counts only through the numbers of Offline.
const WORSE: [fn(&mut World, usize); 21] = [
    |w, i| w.members[i].offline_for = w.members[i].offline_for.map(|d| d / 2),
    |w, i| w.members[i].offline_for = None,
    |w, i| w.members[i].second_view_agrees = false,
    |w, i| w.members[i].mapped = false,
    |w, i| w.members[i].lab_refused = true,
    |w, i| w.members[i].own_host = true,
    |w, i| w.members[i].ever_online = false,
    |w, i| w.members[i].held = true,
    |w, i| w.members[i].distrusted = true,
    |w, i| w.members[i].proof = Some(ProofKind::PowerOff),
    |w, i| w.members[i].last_send = Some(w.members[i].last_send.unwrap_or(Duration::MAX) / 2),
    |w, i| w.members[i].online_since_send = false,
    |w, i| w.members[i].status = None,
    |w, i| {
        w.members[i].bmc_pause =
            Some(BmcPause { reason: ReasonCode::BmcUnreachable, left: Duration::from_secs(1) });
    },
    |w, i| {
        // One more is Offline.
        let other =
            w.members.iter().enumerate().position(|(j, m)| j != i && m.status == Some(Status::Online));
        if let Some(j) = other {
            w.members[j].status = Some(Status::Offline);
        }
    },
    |w, i| {
        // One healthy member fewer.
        let other = w.members.iter().enumerate().position(|(j, m)| j > i && m.status == Some(Status::Online));
        if let Some(j) = other {
            w.members.remove(j);
        }
    },
    |w, _| w.lease.remaining /= 2,
    |w, _| w.lease.held = false,
    |w, _| w.view.responder_online = false,
    |w, _| w.mapping_valid = false,
    |w, _| w.history_gap = Some(w.history_gap.unwrap_or(Duration::MAX) / 2),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn worse_never_permits(world in world(), which in 0..WORSE.len(), at in 0_usize..7) {
        let at = at % world.members.len();
        let name = world.members[at].name.clone();
        let before = decide(&world, &Limits::PRODUCTION);
        let mut worse = world.clone();
        WORSE[which](&mut worse, at);
        let after = decide(&worse, &Limits::PRODUCTION);
        let action = |d: &apelora_fencing::Decision| d.verdict(&name).map(|v| v.action);
        prop_assert!(
            action(&before) == Some(Action::Intent) || action(&after) != Some(Action::Intent),
            "worse in way {} permits {}", which, name
        );
        prop_assert_eq!(before.verdicts.len(), world.members.len());
        prop_assert_eq!(&decide(&world, &Limits::PRODUCTION), &before);
        for verdict in &before.verdicts {
            prop_assert_eq!(verdict.action == Action::Intent, verdict.reasons().is_empty());
        }
    }
}
