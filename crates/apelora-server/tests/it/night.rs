//! A cluster as a worker leaves it in the database.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::map::{MapSha, Provider};
use apelora_fencing::name::{HolderId, Incarnation, RecordId};
use apelora_fencing::proof::PowerWord;
use apelora_fencing::reason::ReasonCode;
use apelora_fencing::status::{
    CheckStatus, InstanceStatus, MapCondition, MapStatus, MappedStatus, MemberStatus, PassStatus,
    SettingStatus, Status,
};
use apelora_fencing::view::{Healing, Status as Word};
use apelora_fencing::world::{LeaseFacts, MemberFacts, ViewFacts};
use apelora_fencing::write::{
    Check, Evidence, Final, Found, Intent, Numbers, Observation, Outcome, Saw, Seen,
};
use apelora_fencing::{BootTime, Clock, Limits, MemberName, World, Write, decide};
use apelora_store::{Leader, LeaderConfig, Store};

use crate::lab::new_id;

/// The worker's name.
pub(crate) const WORKER: &str = "w1";

/// A worker that leads.
pub(crate) struct Night {
    leader: Leader,
}

/// A clock that stands still: nothing here waits.
struct Frozen;

impl Clock for Frozen {
    fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_secs(1_000))
    }
}

impl Night {
    /// Takes the lead.
    pub(crate) async fn begin(store: &Store) -> Self {
        let config = LeaderConfig::new(Limits::PRODUCTION, WORKER);
        let leader = store.campaign(&config, HolderId(new_id()), Arc::new(Frozen)).await.unwrap();
        Self { leader: leader.expect("nobody else leads") }
    }

    pub(crate) async fn write(&self, write: Write) {
        self.leader.commit(write).await.result.unwrap();
    }

    /// These members were seen Online, and then not Online any more: the first life of each.
    pub(crate) async fn lose(&self, members: &[&str]) {
        self.see(members, &Seen::Online(Vec::new())).await;
        self.see(members, &Seen::Away).await;
    }

    pub(crate) async fn see(&self, members: &[&str], seen: &Seen) {
        let seen = members
            .iter()
            .map(|member| Observation { member: MemberName::from(*member), seen: seen.clone() })
            .collect();
        self.write(Write::Observed(seen)).await;
    }

    pub(crate) async fn checked(&self, member: &str, found: Found) {
        self.write(Write::Checked(vec![Check { member: member.into(), found }])).await;
    }

    /// A record that ends before anything is sent; its id.
    pub(crate) async fn refuse(&self, member: &str, reason: ReasonCode) -> String {
        let record = self.intend(member).await;
        self.write(Write::Final(Final {
            record,
            outcome: Outcome::Refused,
            reason,
            sent: false,
            proof: None,
            evidence: vec![
                Evidence {
                    offset: Duration::from_millis(120),
                    what: Saw::Opened,
                    detail: "redfish, TLS 1.3".to_owned(),
                },
                Evidence {
                    offset: Duration::from_millis(350),
                    what: Saw::Power(PowerWord::On),
                    detail: "PowerState On".to_owned(),
                },
                Evidence {
                    offset: Duration::from_millis(900),
                    what: Saw::Trouble(reason),
                    detail: "no answer".to_owned(),
                },
            ],
        }))
        .await;
        record.0.to_string()
    }

    /// Begins a record.
    pub(crate) async fn intend(&self, member: &str) -> RecordId {
        let record = RecordId(new_id());
        self.write(Write::Intent(Intent {
            record,
            member: member.into(),
            incarnation: Incarnation(1),
            uuid: Some("5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27".parse().unwrap()),
            provider: Provider::Redfish,
            target: "10.0.0.11".to_owned(),
            map: MapSha::from_bytes([7; 32]),
            numbers: Numbers {
                offline_for: Duration::from_secs(35),
                members_total: 3,
                members_offline: 1,
                lease_remaining: Duration::from_secs(25),
            },
            witnesses: ("s1".into(), Some("s3".into())),
        }))
        .await;
        record
    }

    pub(crate) async fn publish(&self, report: &Status) {
        self.publish_text(&serde_json::to_string(report).unwrap()).await;
    }

    pub(crate) async fn publish_text(&self, text: &str) {
        self.leader.publish(text).await.unwrap();
    }

    pub(crate) async fn resign(&self) {
        self.leader.resign().await;
    }
}

/// A world in which the guards find nothing but what these statuses say.
pub(crate) fn world(members: &[(&str, &str)]) -> World {
    let facts = |(name, word): &(&str, &str)| MemberFacts {
        offline_for: (*word == "Offline").then_some(Duration::from_secs(65)),
        second_view_agrees: true,
        mapped: true,
        ever_online: true,
        ..MemberFacts::new(MemberName::from(*name), Some(Word::from_word(word)))
    };
    World {
        fence_after: Duration::from_secs(30),
        view: ViewFacts {
            readable: true,
            responder_online: true,
            leader_online: true,
            healing: Healing::Off,
        },
        lease: LeaseFacts { held: true, remaining: Duration::from_secs(25) },
        mapping_valid: true,
        open: None,
        history_gap: None,
        failure_domain_rule: false,
        single_view: false,
        members: members.iter().map(facts).collect(),
    }
}

/// The report about it, as a worker writes it.
pub(crate) fn report(members: &[(&str, &str)]) -> Status {
    let world = world(members);
    let mut judged = MemberStatus::of(&decide(&world, &Limits::PRODUCTION));
    for member in &mut judged {
        member.check = Some(CheckStatus { age_ms: 4_000, reason: None, detail: "On".to_owned() });
        member.instances = vec![InstanceStatus {
            project: "default".to_owned(),
            name: format!("vm-of-{}", member.member),
            plan: "restart".to_owned(),
            target: Some("s3".into()),
            sentence: "It restarts on s3.".to_owned(),
        }];
    }
    let entry = |(name, _): &(&str, &str)| MappedStatus {
        member: MemberName::from(*name),
        provider: "redfish".to_owned(),
        target: format!("https://{name}.bmc"),
        uuid: Some("5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27".to_owned()),
        secrets: vec!["APELORA_BMC_SECRET_X".to_owned()],
    };
    Status {
        worker: WORKER.to_owned(),
        dry_run: false,
        pass: Some(PassStatus {
            age_ms: 1_000,
            responder: Some("s1".into()),
            second: Some("s3".into()),
            problem: None,
            world,
        }),
        in_progress: None,
        map: MapStatus {
            condition: MapCondition::Valid,
            sha256: Some("07".repeat(32)),
            problem: None,
            warnings: Vec::new(),
            members: members.iter().map(entry).collect(),
        },
        members: judged,
        settings: vec![SettingStatus {
            name: "APELORA_BMC_FENCE_AFTER_SECS".to_owned(),
            value: "30".to_owned(),
            source: "default".to_owned(),
        }],
    }
}
