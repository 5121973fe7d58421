//! Bad networks: every datagram of a switch-off in turn is lost, repeated, late, overtaken, cut or altered. The server
//! must end up off, nothing may be believed that is not so, and nothing is switched without a fresh reading of On.

use std::time::Duration;

use apelora_ipmi::{Completion, Power, SendReport, Target, Unanswered};

use crate::peers::{ALL, Bmc, Fenced, HASTY, Kind, fence};
use crate::relay::{BOTH, Delivery, Direction, Passing, Relay, once};

/// Datagrams of a switch-off without a fault, in one direction.
const DATAGRAMS: usize = 9;

/// One switch-off through a relay with this fault.
async fn fence_through(
    bmc: &Bmc,
    fault: impl FnMut(&Passing<'_>) -> Vec<Delivery> + Send + 'static,
    at: &str,
) -> Fenced {
    bmc.switch_on();
    let before = bmc.power_offs();
    let relay = Relay::start(bmc.address(), fault).await;
    let target = Target { address: relay.address(), ..bmc.target() };
    let fenced = fence(&target, HASTY, 2, |reading| {
        // The server is switched by the BMC alone, so what was read must still be so.
        let off = reading.power == Power::Off;
        assert!(!off || !bmc.is_on(), "{at}: read Off while the server was on");
    })
    .await;
    assert!(fenced.is_off() && !bmc.is_on(), "{at}: {fenced:?}");
    let accepted =
        fenced.sends.iter().filter(|sent| **sent == SendReport::Answered(Completion::SUCCESS)).count();
    let arrived = bmc.power_offs() - before;
    assert!(accepted <= arrived, "{at}: {arrived} power-offs arrived: {fenced:?}");
    fenced
}

/// Every datagram of both directions with the same fault, against every BMC.
async fn each_datagram(
    name: &str,
    change: impl FnMut(&Passing<'_>) -> Vec<Delivery> + Clone + Send + 'static,
) {
    for kind in ALL {
        let bmc = Bmc::start(kind).await;
        for direction in BOTH {
            // Two more, for the handshake that is refused before the one with suite 3.
            for number in 1..=DATAGRAMS + 2 {
                let at = format!("{kind:?}: {name} {direction:?} {number}");
                fence_through(&bmc, once(direction, number, change.clone()), &at).await;
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_datagram_lost() {
    each_datagram("lost", |_| Vec::new()).await;
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_datagram_repeated() {
    each_datagram("repeated", |passing| vec![Delivery::of(passing.bytes), Delivery::of(passing.bytes)]).await;
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_datagram_later_than_the_client_waits() {
    let late = HASTY.step * 3 / 2;
    each_datagram("late", move |passing| vec![Delivery { late, ..Delivery::of(passing.bytes) }]).await;
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_datagram_overtaken_by_its_copy() {
    // It arrives at once and once more after the next one: out of order, and a replay.
    let late = Duration::from_millis(3);
    each_datagram("overtaken", move |passing| {
        vec![Delivery::of(passing.bytes), Delivery { late, ..Delivery::of(passing.bytes) }]
    })
    .await;
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_answer_cut() {
    let bmc = Bmc::start(Kind::Suite17).await;
    for number in 1..=DATAGRAMS {
        for cut in [0, 15, 31, 47] {
            let at = format!("answer {number} cut to {cut}");
            let change = move |passing: &Passing<'_>| {
                let kept = cut.min(passing.bytes.len() - 1);
                vec![Delivery::of(&passing.bytes[..kept])]
            };
            fence_through(&bmc, once(Direction::ToClient, number, change), &at).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_answer_altered() {
    let bmc = Bmc::start(Kind::Suite17).await;
    for number in 1..=DATAGRAMS {
        // Payload type, session id, sequence, length, tag or initialisation vector, status, ciphertext or code.
        for offset in [5, 6, 10, 14, 16, 17, 33] {
            let at = format!("answer {number} altered at {offset}");
            let change = move |passing: &Passing<'_>| {
                let mut bytes = passing.bytes.to_vec();
                bytes[offset] ^= 0x80;
                vec![Delivery::of(&bytes)]
            };
            fence_through(&bmc, once(Direction::ToClient, number, change), &at).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_lost_answer_to_the_power_off_is_never_taken_for_anything() {
    for kind in ALL {
        let bmc = Bmc::start(kind).await;
        // The seventh answer, or the eighth where suite 17 is refused first.
        let number = if kind == Kind::Suite17 { 7 } else { 8 };
        let at = format!("{kind:?}");
        let fenced = fence_through(&bmc, once(Direction::ToClient, number, |_| Vec::new()), &at).await;
        assert_eq!(fenced.sends, [SendReport::MaybeSent(Unanswered::Silence)], "{kind:?}");
        assert_eq!(bmc.power_offs(), 1, "{kind:?}");
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_lost_power_off_is_sent_again_only_after_a_fresh_reading_of_on() {
    for kind in ALL {
        let bmc = Bmc::start(kind).await;
        let number = if kind == Kind::Suite17 { 7 } else { 8 };
        let at = format!("{kind:?}");
        let fenced = fence_through(&bmc, once(Direction::ToBmc, number, |_| Vec::new()), &at).await;
        let [first, second] = fenced.sends[..] else { panic!("{kind:?}: {fenced:?}") };
        assert_eq!(first, SendReport::MaybeSent(Unanswered::Silence), "{kind:?}");
        assert!(matches!(second, SendReport::Answered(_)), "{kind:?}");
        assert_eq!(fenced.readings[1].power, Power::On, "{kind:?}");
        assert_eq!(bmc.power_offs(), 1, "{kind:?}");
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_third_of_all_datagrams_lost_delays_and_deceives_nobody() {
    let bmc = Bmc::start(Kind::Suite17).await;
    for seed in 0..4_usize {
        bmc.switch_on();
        let lossy = move |passing: &Passing<'_>| {
            // A fixed, scattered third of them.
            let scattered = (passing.number + seed).wrapping_mul(2_654_435_761) >> 7;
            let lost = (scattered + usize::from(passing.direction == Direction::ToBmc)).is_multiple_of(3);
            if lost { Vec::new() } else { vec![Delivery::of(passing.bytes)] }
        };
        let relay = Relay::start(bmc.address(), lossy).await;
        let target = Target { address: relay.address(), ..bmc.target() };
        let fenced = fence(&target, HASTY, 4, |reading| {
            assert!(reading.power != Power::Off || !bmc.is_on(), "seed {seed}");
        })
        .await;
        // Whether it succeeds in the end depends on the losses; that a success is one does not.
        assert!(!fenced.is_off() || !bmc.is_on(), "seed {seed}: {fenced:?}");
    }
}
