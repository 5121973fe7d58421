//! The audit trail: `GET /apelora/v1/audit`.

use apelora_maintenance::json::{self, iso};
use apelora_store::{AuditQuery, AuditRecord, Direction};
use http::HeaderValue;
use serde::Serialize;
use serde_json::Value;
use time::PrimitiveDateTime;
use time::format_description::well_known::Iso8601;
use utoipa::ToSchema;

use super::csv;
use crate::accept::Accept;
use crate::args::{Args, expected};
use crate::authorise::{self, authorise};
use crate::baremetal::{Call, PAGE_MAX};
use crate::endpoints;
use crate::error::ApiError;
use crate::ident;
use crate::reply::Success;

/// A page of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditTrail {
    /// The rows, in the order that was asked for.
    audit: Vec<AuditRow>,
    /// The next page, where more may follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A row of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditRow {
    /// Its place in the trail; grows with every row.
    seq: i64,
    /// The row's id.
    #[schema(format = "uuid")]
    uuid: String,
    /// When, in UTC.
    #[schema(format = "date-time")]
    at: String,
    /// Who: a person, or the service.
    user: String,
    /// That user's project; empty when there is none.
    project: String,
    /// The rank with which that user acted; empty for none.
    scope: String,
    /// The epoch of the worker that did it.
    epoch: Option<i64>,
    /// What was done, such as `cluster.member.power_off`.
    action: String,
    /// How it ended: success, failed or refused.
    outcome: String,
    /// Why, as a stable word.
    reason_code: Option<String>,
    /// The node's uuid.
    node_uuid: Option<String>,
    /// The node's name at that time.
    node_name: Option<String>,
    /// The cluster member.
    member: Option<String>,
    /// The hardware's own uuid.
    hardware_uuid: Option<String>,
    /// One sentence.
    summary: String,
    /// Everything about it.
    #[schema(value_type = Object)]
    evidence: Option<Value>,
}

/// The columns of the CSV form, in this order for ever; new ones follow.
const COLUMNS: [&str; 16] = [
    "seq",
    "uuid",
    "at",
    "user",
    "project",
    "scope",
    "epoch",
    "action",
    "outcome",
    "reason_code",
    "node_uuid",
    "node_name",
    "member",
    "hardware_uuid",
    "summary",
    "evidence",
];

impl From<AuditRecord> for AuditRow {
    fn from(row: AuditRecord) -> Self {
        Self {
            seq: row.seq,
            uuid: row.uuid,
            at: iso(row.at),
            user: row.user,
            project: row.project,
            scope: row.scope,
            epoch: row.epoch,
            action: row.action,
            outcome: row.outcome,
            reason_code: row.reason_code,
            node_uuid: row.node_uuid,
            node_name: row.node_name,
            member: row.member,
            hardware_uuid: row.hardware_uuid,
            summary: row.summary,
            evidence: serde_json::from_str(&row.evidence).ok(),
        }
    }
}

impl AuditRow {
    fn write_csv(&self, out: &mut String) {
        let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
        let cells = [
            self.seq.to_string(),
            self.uuid.clone(),
            self.at.clone(),
            self.user.clone(),
            self.project.clone(),
            self.scope.clone(),
            self.epoch.map(|epoch| epoch.to_string()).unwrap_or_default(),
            self.action.clone(),
            self.outcome.clone(),
            text(&self.reason_code),
            text(&self.node_uuid),
            text(&self.node_name),
            text(&self.member),
            text(&self.hardware_uuid),
            self.summary.clone(),
            self.evidence.as_ref().map(Value::to_string).unwrap_or_default(),
        ];
        csv::write_row(out, cells.iter().map(String::as_str));
    }
}

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Lines,
    Csv,
}

impl Form {
    /// What the argument `format` names, else what the client accepts best.
    fn of(args: &Args, accept: &Accept) -> Result<Self, ApiError> {
        if let Some(word) = args.text("format")? {
            return match word {
                "json" => Ok(Self::Json),
                "jsonl" => Ok(Self::Lines),
                "csv" => Ok(Self::Csv),
                _ => Err(ApiError::bad_request(format!(
                    "Invalid format: {word}, acceptable values are: csv, json, jsonl"
                ))),
            };
        }
        let lines = accept.weight("application", "jsonl").max(accept.weight("application", "x-ndjson"));
        let offered = [
            (Self::Csv, accept.weight("text", "csv")),
            (Self::Lines, lines),
            (Self::Json, accept.weight("application", "json")),
        ];
        // The last of equals: JSON unless something else is wanted more.
        match offered.into_iter().max_by_key(|(_, weight)| *weight) {
            Some((form, weight)) if weight > 0 => Ok(form),
            _ => Err(ApiError::NotAcceptable),
        }
    }
}

/// Which rows, from where on, and how many.
fn query(args: &Args) -> Result<AuditQuery, ApiError> {
    let text = |name: &str| Ok::<_, ApiError>(args.text(name)?.map(str::to_owned));
    let (mut node_uuid, mut node_name) = (None, None);
    if let Some(node) = args.text("node")? {
        match ident::canonical_uuid(node) {
            Some(uuid) => node_uuid = Some(uuid),
            None => node_name = Some(node.to_owned()),
        }
    }
    Ok(AuditQuery {
        node_uuid,
        node_name,
        member: text("member")?,
        action: text("action")?,
        outcome: text("outcome")?,
        user: text("actor")?,
        from: time(args, "from")?,
        until: time(args, "until")?,
        after: args.seq("marker")?,
        direction: direction(args)?,
        limit: args.limit(PAGE_MAX)?,
    })
}

/// The order: `asc` from the oldest row on, which is the usual one, `desc` from the newest.
fn direction(args: &Args) -> Result<Direction, ApiError> {
    match args.text("sort_dir")? {
        None | Some("asc") => Ok(Direction::Ascending),
        Some("desc") => Ok(Direction::Descending),
        Some(other) => Err(ApiError::bad_request(format!(
            "Invalid sort direction: {other}. Acceptable values are 'asc' or 'desc'"
        ))),
    }
}

/// A time in UTC: ISO 8601, taken as UTC without an offset; a date is its beginning.
fn time(args: &Args, name: &str) -> Result<Option<PrimitiveDateTime>, ApiError> {
    let Some(text) = args.text(name)? else { return Ok(None) };
    // A plus sign that was not encoded arrives as a blank.
    let whole = text.trim().replace(' ', "+");
    let read = match time::OffsetDateTime::parse(&whole, &Iso8601::DEFAULT) {
        // The last hours of the year 9999 are in no year of UTC.
        Ok(at) => {
            at.checked_to_offset(time::UtcOffset::UTC).map(|at| PrimitiveDateTime::new(at.date(), at.time()))
        }
        Err(_) => PrimitiveDateTime::parse(&whole, &Iso8601::DEFAULT)
            .or_else(|_| time::Date::parse(&whole, &Iso8601::DEFAULT).map(time::Date::midnight))
            .ok(),
    };
    // What no database has a place for is no time either.
    let read = read.filter(|at| (1..=9999).contains(&at.year()));
    read.map(Some).ok_or_else(|| expected("an ISO 8601 time", name, &text.into()))
}

/// GET /apelora/v1/audit.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::AUDIT_GET, None)?;
    let args = call.request.query();
    args.only(&[
        "member", "node", "action", "outcome", "actor", "from", "until", "sort_dir", "marker", "limit",
        "format",
    ])?;
    let form = Form::of(&args, &Accept::of(&call.request.headers))?;
    let query = query(&args)?;
    let rows = call.app.store().audit(&query).await.map_err(crate::app::store_error)?;
    let more = rows.len() == query.limit as usize;
    let next = rows.last().filter(|_| more).map(|last| args.next(call.base, endpoints::AUDIT, last.seq));
    let rows = rows.into_iter().map(AuditRow::from);
    Ok(match form {
        Form::Json => super::json(&AuditTrail { audit: rows.collect(), next })?,
        Form::Lines => {
            let mut out = String::new();
            for row in rows {
                out.push_str(&json::to_string(&row).map_err(super::unwritable)?);
                out.push('\n');
            }
            Success::content(HeaderValue::from_static("application/jsonl"), out).followed_by(next)
        }
        Form::Csv => {
            let mut out = String::new();
            csv::write_row(&mut out, COLUMNS);
            rows.for_each(|row| row.write_csv(&mut out));
            let csv = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
            Success::content(csv, out).followed_by(next)
        }
    })
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let read = |text: &str| {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("from", text).finish();
            time(&Args::parse(&query), "from")
        };
        for (text, at) in [
            ("2026-11-30T09:09:33Z", datetime!(2026-11-30 09:09:33)),
            ("2026-11-30T09:09:33.5+01:30", datetime!(2026-11-30 07:39:33.5)),
            ("2026-11-30T09:09:33", datetime!(2026-11-30 09:09:33)),
            ("2026-11-30", datetime!(2026-11-30 00:00)),
        ] {
            assert_eq!(read(text), Ok(Some(at)), "{text}");
        }
        assert_eq!(
            time(&Args::parse("from=2026-11-30T09:09:33+00:00"), "from"),
            Ok(Some(datetime!(2026-11-30 09:09:33)))
        );
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "-2026-01-01",
            "2026-11-30T25:00:00Z",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_page_keeps_the_filters() {
        let args = Args::parse("member=a%26b&marker=3&sort_dir=desc&limit=2");
        assert_eq!(
            args.next("http://h", endpoints::AUDIT, 9),
            "http://h/apelora/v1/audit?member=a%26b&sort_dir=desc&limit=2&marker=9"
        );
    }

    #[test]
    fn the_form_is_what_the_client_wants() {
        let form = |query: &str, accept: Option<&str>| {
            let mut headers = http::HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(http::header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            }
            Form::of(&Args::parse(query), &Accept::of(&headers))
        };
        assert_eq!(form("", None), Ok(Form::Json));
        assert_eq!(form("", Some("*/*")), Ok(Form::Json));
        assert_eq!(form("", Some("text/csv")), Ok(Form::Csv));
        assert_eq!(form("", Some("text/csv, application/json;q=0.5")), Ok(Form::Csv));
        assert_eq!(form("", Some("application/x-ndjson")), Ok(Form::Lines));
        assert_eq!(form("", Some("application/jsonl, */*;q=0.1")), Ok(Form::Lines));
        assert_eq!(form("", Some("text/html")), Err(ApiError::NotAcceptable));
        assert_eq!(form("format=csv", Some("application/json")), Ok(Form::Csv));
        assert!(form("format=xml", None).is_err());
    }
}
