//! What is wrong with a BMC is found in idle time, by reading alone, and is what a failure of its server is refused for.

use apelora_fencing::ReasonCode;
use apelora_fencing::record::ProofKind;
use apelora_fencing::write::Outcome;
use apelora_lab::https::Authority;
use apelora_lab::site::{BmcKind, MemberPlan, Trouble};
use apelora_store::ConfirmError;
use apelora_worker::Notice;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::whole::{Log, Pace, Running, Whole, at_pace};

const CHECKED: &str = "cluster.bmc.checked";
const POWER_OFF: &str = "cluster.member.power_off";

/// Every member with a mistake, and the reason that it has.
const MISTAKES: [(&str, BmcKind, ReasonCode); 7] = [
    ("wrong-uuid", BmcKind::Redfish, ReasonCode::UuidMismatch),
    ("swapped-1", BmcKind::Redfish, ReasonCode::UuidMismatch),
    ("swapped-2", BmcKind::Redfish, ReasonCode::UuidMismatch),
    ("password-1", BmcKind::Redfish, ReasonCode::Credential),
    ("password-2", BmcKind::Ipmi, ReasonCode::IpmiAuth),
    ("authority", BmcKind::Redfish, ReasonCode::TlsIssuer),
    ("no-secret", BmcKind::Ipmi, ReasonCode::SecretMissing),
];

/// Five good members, and the others.
async fn site_of_mistakes() -> Whole {
    let mut whole = Whole::start(|plan| {
        plan.members = ["s1", "s2", "s3", "s4", "s5"].map(|m| MemberPlan::new(m, BmcKind::Ipmi)).to_vec();
        plan.members.extend(MISTAKES.map(|(member, bmc, _)| MemberPlan::new(member, bmc)));
    })
    .await;
    let other = whole.site.bmc_map().with_file_name("other-ca.pem");
    std::fs::write(&other, Authority::new("Somebody else").unwrap().pem()).unwrap();
    whole.edit_map(|members| {
        members["wrong-uuid"]["uuid"] = "0d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27".into();
        let first = members["swapped-1"]["address"].take();
        members["swapped-1"]["address"] = members["swapped-2"]["address"].take();
        members["swapped-2"]["address"] = first;
        // Each has its own password; that is not what gives the exchange away here.
        members["swapped-1"]["secret"] = "APELORA_BMC_SECRET_SWAPPED_2".into();
        members["swapped-2"]["secret"] = "APELORA_BMC_SECRET_SWAPPED_1".into();
        members["authority"]["ca_file"] = other.to_str().unwrap().into();
    });
    for member in ["PASSWORD_1", "PASSWORD_2"] {
        whole.secrets.insert(format!("APELORA_BMC_SECRET_{member}"), "not-the-password".into());
    }
    whole.secrets.remove("APELORA_BMC_SECRET_NO_SECRET");
    whole
}

fn success(figures: &str, member: &str) -> Option<bool> {
    let begin = format!("apelora_bmc_check_success{{member=\"{member}\"}} ");
    let line = figures.lines().find(|line| line.starts_with(&begin))?;
    Some(line.ends_with(" 1"))
}

/// The lines of the log that warn about this member.
fn warnings<'a>(log: &'a str, member: &str) -> Vec<&'a str> {
    let level = |line: &str| line.contains("WARN") || line.contains("ERROR");
    let begin = format!("{member}'s BMC");
    log.lines().filter(|line| level(line) && line.contains(&begin)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_mistake_is_found_before_the_night_and_refuses_in_it() {
    let log = Log::default();
    let _logged = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).set_default();
    let pace = at_pace(1);
    let whole = site_of_mistakes().await;
    pace.set(20);
    let mut worker = whole.work(whole.config()).await;
    let all = whole.site.members().len();
    let status = whole
        .shown("every BMC was read", |status| {
            status.members.iter().filter(|member| member.check.is_some()).count() == all
        })
        .await;
    let figures = worker.get("/metrics").await.1;
    for member in &status.members {
        let name = member.member.as_str();
        let wanted = MISTAKES.iter().find(|(mistaken, ..)| *mistaken == name).map(|(.., reason)| *reason);
        let check = member.check.as_ref().unwrap();
        assert_eq!(check.reason.as_deref(), wanted.map(ReasonCode::as_str), "{name}: {}", check.detail);
        assert_eq!(success(&figures, name), Some(wanted.is_none()), "{name} in\n{figures}");
        let warned = warnings(&log.text(), name).len();
        assert_eq!(warned, usize::from(wanted.is_some()), "{name}");
        let row = match wanted {
            None => ("success".to_owned(), String::new()),
            Some(reason) => ("failed".to_owned(), reason.as_str().to_owned()),
        };
        assert_eq!(whole.audited(name, CHECKED).await, [row], "{name}");
    }
    assert_eq!(whole.asked(), 0, "a drill sends nothing");

    for (member, _, reason) in MISTAKES {
        dies_and_is_refused(&whole, &mut worker, &pace, member, reason).await;
    }
    assert!(whole.site.members().iter().all(|member| whole.site.has_power(member).unwrap()));
    worker.stop().await;
}

async fn dies_and_is_refused(
    whole: &Whole,
    worker: &mut Running,
    pace: &Pace,
    member: &str,
    wanted: ReasonCode,
) {
    whole.site.crash(member).unwrap();
    let told = |word: &'static str| {
        move |notice: &Notice| notice.word() == word && notice.to_string().contains(member)
    };
    worker.hear("its failure is judged", told("intent")).await;
    pace.set(4);
    let ended = worker.hear("its end", told("ended")).await;
    pace.set(20);
    assert!(
        matches!(ended, Notice::Ended { outcome: Outcome::Refused, reason, .. } if reason == wanted),
        "{member}: {ended:?}"
    );
    let last = whole.audited(member, POWER_OFF).await.pop();
    assert_eq!(last, Some(("refused".into(), wanted.as_str().into())), "{member}");
    assert_eq!((whole.asked(), whole.proof(member).await), (0, None), "{member}");
    whole.site.heal(member).unwrap();
    let alive = |notice: &Notice| matches!(notice, Notice::Seen { member: seen, status: Some(status) } if seen.as_str() == member && status.is_alive());
    worker.hear("it is back", alive).await;
}

#[tokio::test(start_paused = true)]
async fn a_bmc_that_contradicts_the_cluster_is_not_believed_before_a_person_clears_it() {
    let log = Log::default();
    let _logged = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).set_default();
    let pace = at_pace(1);
    let whole = Whole::start(|_| {}).await;
    whole.site.bmc("s3").unwrap().set_trouble(Some(&Trouble::Reads(false)));
    pace.set(20);
    let mut worker = whole.work(whole.config()).await;
    let distrusted = worker.hear_word("distrusted").await;
    assert!(matches!(&distrusted, Notice::Distrusted { member } if member.as_str() == "s3"));
    assert_eq!(success(&worker.get("/metrics").await.1, "s3"), Some(false));
    assert_eq!(warnings(&log.text(), "s3").len(), 1, "{}", log.text());
    assert_eq!(whole.audited("s3", CHECKED).await, [("failed".into(), "distrusted".into())]);
    assert_eq!(whole.audited("s3", "cluster.bmc.distrusted").await.len(), 1);
    let reason = |status: &apelora_fencing::status::Status| {
        let s3 = status.members.iter().find(|member| member.member.as_str() == "s3").unwrap();
        s3.check.as_ref().and_then(|check| check.reason.clone())
    };
    whole.shown("distrusted", |status| reason(status).as_deref() == Some("distrusted")).await;
    let refused = |result| matches!(result, Err(ConfirmError::Refused(ReasonCode::Distrusted)));
    assert!(refused(whole.trust("s3").await));

    // Nor does a new leader make a good one of it, whose first reading contradicts nothing for long enough.
    worker.stop().await;
    let mut worker = whole.work(whole.config()).await;
    worker.hear_word("elected").await;
    let read = worker.hear_word("bmc_trouble").await;
    assert!(read.to_string().contains("s3's BMC (redfish): This member's mapping is distrusted"), "{read}");
    assert_eq!(success(&worker.get("/metrics").await.1, "s3"), Some(false));
    assert!(refused(whole.trust("s3").await));

    // Its server dies, and the BMC's Off proves nothing.
    whole.site.crash("s3").unwrap();
    let refusal = worker
        .hear("the refusal", |notice| matches!(notice, Notice::Refused { reasons, .. } if reasons.contains(&ReasonCode::Distrusted)))
        .await;
    assert!(refusal.to_string().starts_with("s3 is not switched off: "), "{refusal}");
    let last = whole.audited("s3", POWER_OFF).await.pop();
    assert_eq!(last, Some(("refused".into(), "distrusted".into())));
    tokio::time::sleep(std::time::Duration::from_secs(150)).await;
    assert_eq!((whole.asked(), whole.proof("s3").await), (0, None));

    // It is repaired, read again, and trusted by a person; the next failure is handled.
    whole.site.heal("s3").unwrap();
    whole.shown("read again", |status| reason(status).is_none()).await;
    let written = async {
        while !matches!(whole.audited("s3", CHECKED).await.last(), Some((outcome, _)) if outcome == "success")
        {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(300), written).await.expect("a good reading");
    assert!(whole.trust("s3").await.unwrap());
    whole.site.crash("s3").unwrap();
    worker.hear_word("intent").await;
    pace.set(4);
    worker.hear_word("fenced").await;
    assert_eq!((whole.asked(), whole.proof("s3").await), (1, Some(ProofKind::PowerOff)));
    worker.stop().await;
}
