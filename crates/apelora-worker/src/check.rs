//! The read-only check of BMCs, for `apelora bmc check`: everything that a fencing does, up to and without the power-off.

use std::fmt::Display;
use std::time::Duration;

use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::identity::{ByteOrder, Matched, RawIdentity};
use apelora_fencing::map::{Access, BmcMap, CipherSuite};
use apelora_fencing::proof::{PowerWord, Reported};
use apelora_fencing::{MemberName, ReasonCode, Ticket};
use apelora_maintenance::json::iso;
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, PrimitiveDateTime};
use tokio::time::{Instant, timeout_at};

use crate::provider::{Facts, Providers};
use crate::status::millis;

/// So many BMCs are checked at the same time.
pub const AT_ONCE: usize = 8;

/// A certificate that ends within so many days is advised about.
const SOON_DAYS: i64 = 30;

/// What the check of one member found. Fit for a table and for JSON; without user names and secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The member.
    pub member: MemberName,
    /// `redfish`, `ipmi` or `lima`.
    pub provider: String,
    /// Where the BMC is.
    pub target: String,
    /// What would stop a power-off; absent when all is well.
    pub failure: Option<CheckFailure>,
    /// What is not wrong and could be better.
    pub advice: Vec<String>,
    /// The server's maker, when it is a known one (Redfish).
    pub vendor: Option<String>,
    /// The path of the system (Redfish).
    pub system: Option<String>,
    /// The identity as the BMC reports it: a UUID as printed, 32 digits in the order in which they came (IPMI), or a VM's
    /// name.
    pub reported: Option<String>,
    /// The byte order in which it is the mapped UUID; absent when it is not.
    pub byte_order: Option<ByteOrder>,
    /// `On`, `Off`, `PoweringOn`, `PoweringOff`, `Paused` or `Unknown`. Absent when it was not read.
    pub power: Option<String>,
    /// The BMC's certificate (Redfish).
    pub certificate: Option<CertificateRow>,
    /// The cipher suite of the session (IPMI).
    pub suite: Option<u8>,
    /// The privilege level of the session (IPMI).
    pub privilege: Option<String>,
    /// How long one question waited for its answer, in milliseconds, in a conversation that was open.
    pub round_trip_ms: Option<u64>,
    /// How long the whole check took, in milliseconds, with connecting and closing.
    pub took_ms: u64,
}

/// What would stop a power-off of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFailure {
    /// The reason code.
    pub reason: ReasonCode,
    /// What it means.
    pub sentence: String,
    /// What exactly was found.
    pub detail: String,
    /// What to do about it.
    pub remedy: String,
}

/// A BMC's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateRow {
    /// SHA-256 of its DER form, in hexadecimal digits.
    pub sha256: String,
    /// When it ends (RFC 3339); absent when that cannot be read.
    pub not_after: Option<String>,
    /// Whole days until then.
    pub days_left: Option<i64>,
}

impl CheckFailure {
    fn new(reason: ReasonCode, detail: impl Display) -> Self {
        Self {
            reason,
            sentence: reason.sentence().to_owned(),
            detail: detail.to_string(),
            remedy: reason.remedy().to_owned(),
        }
    }
}

impl From<BmcError> for CheckFailure {
    fn from(error: BmcError) -> Self {
        Self::new(error.reason, error.detail)
    }
}

impl CheckRow {
    /// Whether a power-off could be sent to this BMC.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.failure.is_none()
    }

    fn new(target: &Target) -> Self {
        Self {
            member: target.member.clone(),
            provider: target.entry.provider().as_str().to_owned(),
            target: target.entry.target(),
            failure: None,
            advice: Vec::new(),
            vendor: None,
            system: None,
            reported: None,
            byte_order: None,
            power: None,
            certificate: None,
            suite: None,
            privilege: None,
            round_trip_ms: None,
            took_ms: 0,
        }
    }
}

/// Checks the members of `map` that `only` names, or all of them: eight at once, each within `each`. The rows come in the
/// order of the members' names. `now` is what the ends of certificates are compared with.
///
/// Nothing that changes power is ever sent.
///
/// # Errors
/// The names in `only` that the map does not have.
pub async fn check(
    providers: &Providers,
    map: &BmcMap,
    only: &[MemberName],
    each: Duration,
    now: OffsetDateTime,
) -> Result<Vec<CheckRow>, NotMapped> {
    let missing: Vec<_> =
        only.iter().filter(|name| map.get(name).is_none()).map(ToString::to_string).collect();
    if !missing.is_empty() {
        return Err(NotMapped(missing));
    }
    let targets: Vec<_> = map
        .iter()
        .filter(|(member, _)| only.is_empty() || only.contains(member))
        .map(|(member, entry)| Target { member: member.clone(), entry: entry.clone(), map: map.sha() })
        .collect();
    let rows = stream::iter(targets)
        .map(|target| async move { check_one(providers, &target, Instant::now() + each, now).await });
    Ok(rows.buffered(AT_ONCE).collect().await)
}

/// Names that the map does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the BMC map does not name {}: add it to the file named by APELORA_BMC_MAP, or correct the name", .0.join(", "))]
pub struct NotMapped(pub Vec<String>);

/// Checks one member, at the latest by `by`; only the good-bye may last two seconds longer. Nothing that changes power is
/// ever sent.
pub async fn check_one(providers: &Providers, target: &Target, by: Instant, now: OffsetDateTime) -> CheckRow {
    let began = Instant::now();
    let mut row = CheckRow::new(target);
    let late = |what| CheckFailure::new(ReasonCode::Deadline, format_args!("{what} was not over in time"));
    // Any number will do: nothing is verified by it here.
    match timeout_at(by, providers.open(Ticket(0), target, by)).await {
        Err(_) => row.failure = Some(late("the opening")),
        Ok(Err(error)) => row.failure = Some(error.into()),
        Ok(Ok(mut conversation)) => {
            let asked = Instant::now();
            let read = timeout_at(by, conversation.read(by)).await;
            let facts = conversation.facts();
            row.round_trip_ms =
                matches!(read, Ok(Ok(_))).then(|| millis(asked.elapsed() / facts.questions.max(1)));
            match read {
                Err(_) => row.failure = Some(late("the reading")),
                Ok(Err(error)) => row.failure = Some(error.into()),
                Ok(Ok(reported)) => judge(&mut row, target, &reported, facts.obstacle.clone()),
            }
            describe(&mut row, target, facts, now);
            conversation.close().await;
        }
    }
    row.took_ms = millis(began.elapsed());
    row
}

/// Identity first: the power of a server that is not the mapped one is nobody's business.
fn judge(row: &mut CheckRow, target: &Target, reported: &Reported, obstacle: Option<(ReasonCode, String)>) {
    row.reported = match &reported.identity {
        RawIdentity::Text(text) | RawIdentity::LabName(text) => Some(text.clone()),
        RawIdentity::Guid(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        RawIdentity::Missing => None,
    };
    match target.entry.identity.check(&reported.identity) {
        Err(why) => return row.failure = Some(CheckFailure::new(why.reason(), why)),
        Ok(Matched::Uuid(_, order)) => row.byte_order = Some(order),
        Ok(Matched::LabName(_)) => {}
    }
    row.power = Some(reported.power.as_str().to_owned());
    row.failure = match obstacle {
        Some((reason, detail)) => Some(CheckFailure::new(reason, detail)),
        None if reported.power == PowerWord::Unknown => {
            Some(CheckFailure::new(ReasonCode::PowerStateUnknown, &reported.detail))
        }
        None => None,
    };
}

fn describe(row: &mut CheckRow, target: &Target, facts: Facts, now: OffsetDateTime) {
    row.vendor = facts.vendor.map(str::to_owned);
    row.suite = facts.suite;
    row.privilege = facts.privilege.map(str::to_owned);
    row.certificate = facts.certificate.map(|(sha256, end)| CertificateRow {
        sha256,
        not_after: end.map(|end| iso(PrimitiveDateTime::new(end.date(), end.time()))),
        days_left: end.map(|end| (end - now).whole_days()),
    });
    if let Some(days) = row.certificate.as_ref().and_then(|c| c.days_left).filter(|days| *days < SOON_DAYS) {
        row.advice.push(format!("the BMC's certificate ends in {days} days: renew it"));
    }
    match (&target.entry.access, &facts.system) {
        (Access::Redfish { system: None, .. }, Some(found)) => {
            row.advice.push(format!(
                "name \"system\": \"{found}\" in the map: fewer requests, and no neighbour is asked"
            ));
        }
        (Access::Ipmi { cipher_suites, .. }, _) if cipher_suites.contains(&CipherSuite::Suite3) => {
            match facts.suite {
                Some(17) => row.advice.push(
                    "pin \"cipher_suites\": [17] in the map: a forged refusal of 17 then gains nothing"
                        .to_owned(),
                ),
                Some(_) if cipher_suites.contains(&CipherSuite::Suite17) => row.advice.push(
                    "the BMC refused cipher suite 17 and spoke 3: update its firmware, or enable 17"
                        .to_owned(),
                ),
                _ => {}
            }
        }
        _ => {}
    }
    row.system = facts.system;
}
