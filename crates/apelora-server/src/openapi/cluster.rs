//! The cluster API in the document: arguments, bodies and answers of its endpoints.

use utoipa::openapi::ComponentsBuilder;

use super::{Answer, BAD, FORBIDDEN, shows};
use crate::cluster::{AuditRow, AuditTrail, detail, view};
use crate::endpoints as e;

/// With everything that the cluster API shows and takes.
pub(super) fn schemas(components: ComponentsBuilder) -> ComponentsBuilder {
    components
        .schema_from::<view::Leader>()
        .schema_from::<view::Reason>()
        .schema_from::<view::BmcMap>()
        .schema_from::<view::MapEntry>()
        .schema_from::<view::Members>()
        .schema_from::<view::Member>()
        .schema_from::<view::Judged>()
        .schema_from::<view::Proof>()
        .schema_from::<detail::StoredProof>()
        .schema_from::<view::OpenFenceRecord>()
        .schema_from::<view::Check>()
        .schema_from::<view::InstanceCounts>()
        .schema_from::<detail::MemberDetail>()
        .schema_from::<detail::Guard>()
        .schema_from::<detail::FenceRecords>()
        .schema_from::<detail::FenceRecord>()
        .schema_from::<detail::Evidence>()
        .schema_from::<detail::Instance>()
        .schema_from::<detail::Recovery>()
        .schema_from::<detail::Explanation>()
        .schema_from::<view::ConfirmOff>()
        .schema_from::<view::ConfirmedOff>()
        .schema_from::<view::TrustAgain>()
        .schema_from::<view::Trusted>()
        .schema_from::<view::Settings>()
        .schema_from::<view::Setting>()
        .schema_from::<AuditTrail>()
        .schema_from::<AuditRow>()
}

/// Arguments of the query.
pub(super) fn arguments(template: &str) -> &'static [(&'static str, &'static str)] {
    match template {
        e::FENCE_RECORDS => &[
            ("member", "Only records of this member"),
            ("open", "`true`: only the record of the power-off that is in progress"),
            ("limit", "Records on a page, 1 to 1000"),
            ("marker", "The seq of the last record of the page before"),
        ],
        e::AUDIT => &[
            ("member", "Only rows about this cluster member"),
            ("node", "Only rows about this node, by uuid, or by the name it had"),
            ("action", "Only rows of this action, such as `cluster.member.power_off`"),
            ("outcome", "Only rows of this outcome: `success`, `failed` or `refused`"),
            ("actor", "Only what this user did"),
            ("from", "Only rows of this time or later: ISO 8601, in UTC unless it says otherwise"),
            ("until", "Only rows before this time"),
            ("sort_dir", "`asc`: from the oldest row on, the default; `desc`: from the newest"),
            ("limit", "Rows on a page, 1 to 1000"),
            ("marker", "The seq of the last row of the page before"),
            ("format", "`json`, `jsonl` or `csv`; otherwise what the Accept header wants most"),
        ],
        _ => &[],
    }
}

const NO_MEMBER: Answer = shows("404", "No such member", "Error");
const NOT_JSON: Answer = shows("415", "The body is not sent as `application/json`", "Error");

/// Body and answers of an endpoint of the cluster API; `None` for the others.
pub(super) fn described(template: &str) -> Option<(Option<&'static str>, &'static [Answer])> {
    static MEMBERS: [Answer; 3] = [shows("200", "The members", "Members"), BAD, FORBIDDEN];
    static MEMBER: [Answer; 4] = [shows("200", "The member", "MemberDetail"), BAD, FORBIDDEN, NO_MEMBER];
    static EXPLAIN: [Answer; 4] =
        [shows("200", "What was judged, and the verdict", "Explanation"), BAD, FORBIDDEN, NO_MEMBER];
    static CONFIRM: [Answer; 6] = [
        shows("200", "The word was taken: the member counts as fenced", "ConfirmedOff"),
        BAD,
        FORBIDDEN,
        NO_MEMBER,
        shows(
            "409",
            "The word does not apply; the text begins with the reason code: `seen_online`, or `back_online` when \
             another incarnation was shown",
            "Error",
        ),
        NOT_JSON,
    ];
    static TRUST: [Answer; 6] = [
        shows("200", "The entry is trusted", "Trusted"),
        BAD,
        FORBIDDEN,
        NO_MEMBER,
        shows("409", "The BMC still contradicts the cluster", "Error"),
        NOT_JSON,
    ];
    static RECORDS: [Answer; 3] = [shows("200", "A page of records", "FenceRecords"), BAD, FORBIDDEN];
    static RECORD: [Answer; 4] =
        [shows("200", "The record", "FenceRecord"), BAD, FORBIDDEN, shows("404", "No such record", "Error")];
    static AUDIT: [Answer; 4] = [
        shows(
            "200",
            "A page of the trail; as JSON lines or CSV the next page is named by the Link header",
            "AuditTrail",
        ),
        BAD,
        FORBIDDEN,
        shows("406", "No form of the trail is accepted", "Error"),
    ];
    static SETTINGS: [Answer; 3] = [shows("200", "The settings", "Settings"), BAD, FORBIDDEN];
    Some(match template {
        e::MEMBERS => (None, &MEMBERS),
        e::MEMBER => (None, &MEMBER),
        e::MEMBER_EXPLAIN => (None, &EXPLAIN),
        e::MEMBER_CONFIRM_OFF => (Some("ConfirmOff"), &CONFIRM),
        e::MEMBER_TRUST => (Some("TrustAgain"), &TRUST),
        e::FENCE_RECORDS => (None, &RECORDS),
        e::FENCE_RECORD => (None, &RECORD),
        e::AUDIT => (None, &AUDIT),
        e::SETTINGS => (None, &SETTINGS),
        _ => return None,
    })
}
