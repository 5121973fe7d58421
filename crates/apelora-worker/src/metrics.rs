//! Figures of this worker, in the text form of OpenMetrics (tests/data/fencing/README.md section 7).
//!
//! One registry for each worker, so that several in one process keep apart. Power-offs, refusals and proofs are counted
//! from audit rows that were committed, and from nothing else, so that figures and audit tell the same. No label holds
//! an address or free text: members are names of the cluster, reasons are the closed list of reason codes.

mod label;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apelora_fencing::lease::LeaseReading;
use apelora_fencing::map::{MapState, Provider};
use apelora_fencing::record::ProofKind;
use apelora_fencing::write::{AuditAction, AuditRow, Outcome};
use apelora_fencing::{Epoch, MemberName, ReasonCode};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use label::{
    KindLabel, LockspaceLabel, MemberLabel, OperationLabels, OutcomeLabel, ReasonLabel, RequestLabels,
    ResultLabel,
};
pub(crate) use label::{Operation, PassResult, Recovered, Renewal};

/// The media type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the buckets for one request to a BMC, in seconds.
const REQUEST_BUCKETS: [f64; 9] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0];
/// Upper bounds of the buckets from a power-off request to its proof, in seconds.
const OFF_BUCKETS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 45.0, 60.0];
/// Upper bounds of the buckets from a proof to a restarted instance, in seconds: a storage lease of a dead host takes
/// about 140 s to end.
const RESTART_BUCKETS: [f64; 9] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1800.0];

/// The figures of one worker.
pub(crate) struct Metrics {
    registry: Registry,
    power_offs: Family<OutcomeLabel, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<OperationLabels, Histogram, fn() -> Histogram>,
    off_seconds: Histogram,
    refusals: Family<ReasonLabel, Counter>,
    proofs: Family<KindLabel, Counter>,
    open_records: Gauge,
    mapped: Gauge,
    mapping_valid: Gauge,
    check_success: Family<MemberLabel, Gauge>,
    check_time: Family<MemberLabel, Gauge>,
    leader: Gauge,
    epoch: Gauge,
    renewals: Family<ResultLabel, Counter>,
    passes: Family<ResultLabel, Counter>,
    observer_age: Family<LockspaceLabel, Gauge>,
    /// The members and the lockspaces that have series now.
    shown: Mutex<(BTreeSet<String>, BTreeSet<String>)>,
    recoveries: Family<OutcomeLabel, Counter>,
    restart_seconds: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut new = Self {
            registry: Registry::with_prefix("apelora"),
            power_offs: Family::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            off_seconds: Histogram::new(OFF_BUCKETS),
            refusals: Family::default(),
            proofs: Family::default(),
            open_records: Gauge::default(),
            mapped: Gauge::default(),
            mapping_valid: Gauge::default(),
            check_success: Family::default(),
            check_time: Family::default(),
            leader: Gauge::default(),
            epoch: Gauge::default(),
            renewals: Family::default(),
            passes: Family::default(),
            observer_age: Family::default(),
            shown: Mutex::default(),
            recoveries: Family::default(),
            restart_seconds: Histogram::new(RESTART_BUCKETS),
        };
        new.register();
        new.show_zeros();
        new
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        let seconds = || Unit::Seconds;
        r.register("bmc_power_offs", "Audited power-offs by outcome", self.power_offs.clone());
        r.register("bmc_requests", "Requests to BMCs by result", self.requests.clone());
        r.register_with_unit(
            "bmc_request_duration",
            "Time that a request to a BMC took",
            seconds(),
            self.request_seconds.clone(),
        );
        r.register_with_unit(
            "bmc_power_off_duration",
            "Time from a power-off request to the proof that it worked",
            seconds(),
            self.off_seconds.clone(),
        );
        r.register(
            "fence_refusals",
            "Audited refusals to switch a member off, by reason",
            self.refusals.clone(),
        );
        r.register("fence_proofs", "Stored proofs that a member is off, by kind", self.proofs.clone());
        r.register("fence_open_records", "Power-offs in progress", self.open_records.clone());
        r.register("fence_mapped_members", "Members that the BMC map names", self.mapped.clone());
        r.register(
            "fence_mapping_valid",
            "1 when the BMC map is valid or none is configured, 0 when it is refused as a whole",
            self.mapping_valid.clone(),
        );
        r.register(
            "bmc_check_success",
            "1 when the latest idle reading of the member's BMC found the mapped server, else 0",
            self.check_success.clone(),
        );
        r.register_with_unit(
            "bmc_last_check_timestamp",
            "When the member's BMC was last read in idle time, as Unix time",
            seconds(),
            self.check_time.clone(),
        );
        r.register("supervisor_leader", "1 while this worker leads, else 0", self.leader.clone());
        r.register("supervisor_lease_epoch", "Epoch of this worker's latest leadership", self.epoch.clone());
        r.register(
            "supervisor_lease_renewals",
            "Renewals of the leader lease by result",
            self.renewals.clone(),
        );
        r.register("supervisor_passes", "Passes of this worker by what could be read", self.passes.clone());
        r.register_with_unit(
            "sanlock_observer_age",
            "Time since the storage lease observer's own lease was last renewed",
            seconds(),
            self.observer_age.clone(),
        );
        r.register(
            "recovery_instances",
            "Instances of fenced members by what became of them",
            self.recoveries.clone(),
        );
        r.register_with_unit(
            "recovery_restart_duration",
            "Time from the proof that a member is off until an instance of it runs elsewhere",
            seconds(),
            self.restart_seconds.clone(),
        );
    }

    /// Every series whose labels are known exists from the start.
    fn show_zeros(&self) {
        for outcome in [Outcome::Success, Outcome::Failed, Outcome::Refused] {
            drop(self.power_offs.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }));
        }
        for provider in [Provider::Redfish, Provider::Ipmi, Provider::Lima].map(Provider::as_str) {
            for operation in Operation::ALL.map(Operation::as_str) {
                drop(self.request_seconds.get_or_create(&OperationLabels { provider, operation }));
                drop(self.requests.get_or_create(&RequestLabels { provider, operation, result: "ok" }));
            }
        }
        for reason in ReasonCode::ALL {
            drop(self.refusals.get_or_create(&ReasonLabel { reason: reason.as_str() }));
        }
        for kind in ProofKind::ALL.map(ProofKind::as_str) {
            drop(self.proofs.get_or_create(&KindLabel { kind }));
        }
        for outcome in Recovered::ALL.map(Recovered::as_str) {
            drop(self.recoveries.get_or_create(&OutcomeLabel { outcome }));
        }
        for result in Renewal::ALL.map(Renewal::as_str) {
            drop(self.renewals.get_or_create(&ResultLabel { result }));
        }
        for result in PassResult::ALL.map(PassResult::as_str) {
            drop(self.passes.get_or_create(&ResultLabel { result }));
        }
        self.mapping_valid.set(1);
    }

    /// Counts an audit row that was written; `proof` is the kind of the proof that it tells of.
    pub(crate) fn audited(&self, row: &AuditRow, proof: Option<ProofKind>) {
        match (row.action, row.outcome) {
            (AuditAction::PowerOff, Some(outcome)) => {
                self.power_offs.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }).inc();
                if let (Outcome::Refused, Some(reason)) = (outcome, row.reason) {
                    self.refusals.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
                }
            }
            (AuditAction::Fenced, _) => {
                if let Some(kind) = proof {
                    self.proofs.get_or_create(&KindLabel { kind: kind.as_str() }).inc();
                }
            }
            _ => {}
        }
    }

    /// A request to a BMC ended.
    pub(crate) fn requested(
        &self,
        provider: Provider,
        operation: Operation,
        trouble: Option<ReasonCode>,
        took: Duration,
    ) {
        let (provider, operation) = (provider.as_str(), operation.as_str());
        let result = trouble.map_or("ok", ReasonCode::as_str);
        self.requests.get_or_create(&RequestLabels { provider, operation, result }).inc();
        self.request_seconds
            .get_or_create(&OperationLabels { provider, operation })
            .observe(took.as_secs_f64());
    }

    /// A power-off request led to a proof after this long.
    pub(crate) fn went_off(&self, took: Duration) {
        self.off_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn open_records(&self, count: usize) {
        self.open_records.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn map(&self, map: &MapState) {
        let members = match map {
            MapState::Valid(map) => map.len(),
            MapState::Absent | MapState::Invalid => 0,
        };
        self.mapped.set(i64::try_from(members).unwrap_or(i64::MAX));
        self.mapping_valid.set(i64::from(!matches!(map, MapState::Invalid)));
        match map {
            MapState::Valid(map) => self.keep_checks(|member| map.get(&member.into()).is_some()),
            MapState::Absent => self.keep_checks(|_| false),
            // Nobody knows whom it will name.
            MapState::Invalid => {}
        }
    }

    /// Checks of members that nobody checks any more would grow old, and raise an alarm for ever.
    fn keep_checks(&self, is_kept: impl Fn(&str) -> bool) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).0.retain(|member| {
            let kept = is_kept(member);
            if !kept {
                let label = MemberLabel { member: member.clone() };
                self.check_success.remove(&label);
                self.check_time.remove(&label);
            }
            kept
        });
    }

    /// An idle reading of a BMC ended; `at` is Unix time.
    pub(crate) fn checked(&self, member: &MemberName, good: bool, at: Duration) {
        let label = MemberLabel { member: member.as_str().to_owned() };
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).0.insert(label.member.clone());
        self.check_success.get_or_create(&label).set(i64::from(good));
        self.check_time.get_or_create(&label).set(i64::try_from(at.as_secs()).unwrap_or(i64::MAX));
    }

    /// Who leads no more looks at nothing any more: what it saw last is not shown as if it were so still.
    pub(crate) fn leads(&self, epoch: Option<Epoch>) {
        self.leader.set(i64::from(epoch.is_some()));
        match epoch {
            Some(epoch) => {
                self.epoch.set(i64::try_from(epoch.0).unwrap_or(i64::MAX));
            }
            None => {
                self.open_records(0);
                self.map(&MapState::Absent);
                self.leases(&[]);
            }
        }
    }

    pub(crate) fn renewal(&self, result: Renewal) {
        self.renewals.get_or_create(&ResultLabel { result: result.as_str() }).inc();
    }

    pub(crate) fn passed(&self, result: PassResult) {
        self.passes.get_or_create(&ResultLabel { result: result.as_str() }).inc();
    }

    pub(crate) fn leases(&self, readings: &[LeaseReading]) {
        let read: BTreeSet<_> = readings.iter().map(|reading| reading.lockspace.clone()).collect();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // An observer that is gone must not look as young as it was.
        for lockspace in shown.1.difference(&read) {
            self.observer_age.remove(&LockspaceLabel { lockspace: lockspace.clone() });
        }
        shown.1 = read;
        drop(shown);
        for reading in readings {
            let observer = &reading.observer;
            let age = observer.monotime.saturating_sub(observer.renewal_last_success);
            let label = LockspaceLabel { lockspace: reading.lockspace.clone() };
            self.observer_age.get_or_create(&label).set(i64::try_from(age).unwrap_or(i64::MAX));
        }
    }

    /// The restart of an instance ended.
    pub(crate) fn recovered(&self, outcome: Recovered) {
        self.recoveries.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }).inc();
    }

    /// An instance runs again, so long after its member was proven off.
    pub(crate) fn restarted(&self, after: Duration) {
        self.restart_seconds.observe(after.as_secs_f64());
    }

    /// Everything as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use apelora_fencing::map::BmcMap;

    use super::*;

    fn row(action: AuditAction, outcome: Option<Outcome>, reason: Option<ReasonCode>) -> AuditRow {
        AuditRow { action, member: "s1".into(), record: None, outcome, reason, sent: false }
    }

    #[test]
    fn every_outcome_is_there_from_the_start_and_has_a_help() {
        let text = Metrics::new().text();
        for line in [
            "apelora_bmc_power_offs_total{outcome=\"success\"} 0",
            "apelora_bmc_power_offs_total{outcome=\"failed\"} 0",
            "apelora_bmc_power_offs_total{outcome=\"refused\"} 0",
            "apelora_fence_proofs_total{kind=\"lease-dead\"} 0",
            "apelora_fence_refusals_total{reason=\"not_minority\"} 0",
            "apelora_supervisor_leader 0",
            "# HELP apelora_bmc_power_offs Audited power-offs by outcome.",
            "# TYPE apelora_bmc_request_duration_seconds histogram",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let names: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
        for name in names.iter().filter_map(|l| l.split(' ').next()) {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        }
    }

    /// An age that grows for ever, and a power-off that is in progress for ever, would be alarms about nothing.
    #[test]
    fn what_is_not_looked_at_any_more_is_not_shown() {
        let map = |members: &[&str]| {
            let entries: Vec<_> = members
                .iter()
                .map(|m| format!(r#""{m}": {{"provider": "lima", "address": "apelora-{m}"}}"#))
                .collect();
            let text = format!(r#"{{"members": {{{}}}}}"#, entries.join(", "));
            MapState::Valid(std::sync::Arc::new(BmcMap::parse(text.as_bytes(), &[]).unwrap()))
        };
        let metrics = Metrics::new();
        metrics.leads(Some(Epoch(7)));
        metrics.map(&map(&["s1", "s2"]));
        metrics.checked(&"s1".into(), true, Duration::from_secs(9));
        metrics.checked(&"s2".into(), false, Duration::from_secs(9));
        metrics.open_records(1);
        let has = |word: &str| metrics.text().contains(word);
        assert!(has(r#"check_success{member="s1"} 1"#) && has(r#"check_success{member="s2"} 0"#));
        metrics.map(&MapState::Invalid);
        assert!(has(r#"member="s2""#) && has("apelora_fence_mapping_valid 0"));
        metrics.map(&map(&["s1"]));
        assert!(has(r#"check_success{member="s1"} 1"#) && !has(r#"member="s2""#));
        metrics.map(&MapState::Invalid);
        metrics.leads(None);
        assert!(
            !has("member=") && has("apelora_fence_open_records 0") && has("apelora_fence_mapping_valid 1")
        );
        assert!(has("apelora_supervisor_lease_epoch 7"));
    }

    #[test]
    fn power_offs_are_counted_from_audit_rows() {
        let metrics = Metrics::new();
        let rows = [
            row(AuditAction::PowerOff, Some(Outcome::Success), Some(ReasonCode::PoweredOff)),
            row(AuditAction::Fenced, None, None),
            row(AuditAction::PowerOff, Some(Outcome::Refused), Some(ReasonCode::NotMinority)),
            row(AuditAction::Returned, None, None),
        ];
        rows.iter().for_each(|row| metrics.audited(row, Some(ProofKind::PowerOff)));
        let text = metrics.text();
        for line in [
            "apelora_bmc_power_offs_total{outcome=\"success\"} 1",
            "apelora_bmc_power_offs_total{outcome=\"refused\"} 1",
            "apelora_bmc_power_offs_total{outcome=\"failed\"} 0",
            "apelora_fence_refusals_total{reason=\"not_minority\"} 1",
            "apelora_fence_proofs_total{kind=\"power-off\"} 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
