//! The history of a node. Source: tests/data/ironic/README.md section 5.

use apelora_maintenance::json::iso;
use apelora_store::HistoryColumn;

use super::{Call, PAGE_MAX, listing};
use crate::Microversion;
use crate::app::SeenRecord;
use crate::error::ApiError;
use crate::node::render::write_text;
use crate::reply::Success;

const PROJECT_SINCE: Microversion = Microversion::new(113);
const STATE_SINCE: Microversion = Microversion::new(115);

/// A list shows the beginning of longer events.
const EVENT_MAX: usize = 255;
const EVENT_CUT: usize = 251;

/// GET …/history.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    let args = call.request.query();
    args.only(&["detail", "limit", "marker", "sort_dir", "sort_key"])?;
    let detail = args.bool("detail")?.unwrap_or(false);
    let marker = args.uuid("marker")?;
    let limit = args.limit(PAGE_MAX)?;
    let direction = listing::direction(&args)?;
    let key = args.text("sort_key")?.unwrap_or("created_at");
    let column = HistoryColumn::ALL.into_iter().find(|c| c.name() == key).ok_or_else(|| {
        ApiError::bad_request(format!("The sort_key value \"{key}\" is an invalid field for sorting"))
    })?;
    let ident = call.ident()?;
    let page = call.app.history(call.cx, ident, (column, direction), marker, limit).await?;
    let mut out = b"{\"history\": [".to_vec();
    for (i, seen) in page.records.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        write_record(&mut out, call, &page.node_uuid, seen, detail);
    }
    out.push(b']');
    // The reference's link cannot be followed; this one can.
    if let Some(last) = page.records.last().filter(|_| page.records.len() == limit as usize) {
        let link = format!(
            "{}/v1/nodes/{}/history?sort_key={key}&sort_dir={}{}&limit={limit}&marker={}",
            call.base,
            ident.text,
            listing::direction_word(direction),
            if detail { "&detail=True" } else { "" },
            last.record().uuid,
        );
        out.extend_from_slice(b", \"next\": ");
        write_text(&mut out, &link);
    }
    out.push(b'}');
    Ok(Success::json(out))
}

/// GET …/history/{record}.
pub(super) async fn show(call: &Call<'_>) -> Result<Success, ApiError> {
    call.request.query().only(&[])?;
    let page = call.app.history_record(call.cx, call.ident()?, call.tail()).await?;
    let seen = page.records.first().ok_or_else(ApiError::internal)?;
    let mut out = Vec::with_capacity(512);
    write_record(&mut out, call, &page.node_uuid, seen, true);
    Ok(Success::json(out))
}

fn write_record(out: &mut Vec<u8>, call: &Call<'_>, node_uuid: &str, seen: &SeenRecord, detail: bool) {
    let record = seen.record();
    let version = call.cx.version;
    let text = |out: &mut Vec<u8>, name: &str, value: Option<&str>| {
        out.extend_from_slice(format!("\"{name}\": ").as_bytes());
        match value {
            Some(value) => write_text(out, value),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b", ");
    };
    out.push(b'{');
    text(out, "uuid", Some(&record.uuid));
    text(out, "created_at", record.created_at.map(iso).as_deref());
    text(out, "severity", record.severity.as_deref());
    if detail {
        text(out, "event_type", record.event_type.as_deref());
        text(out, "event", record.event.as_deref());
        text(out, "conductor", record.conductor.as_deref());
        text(out, "user", record.user.as_deref());
        if version >= PROJECT_SINCE {
            text(out, "project", record.project.as_deref());
        }
        if version >= STATE_SINCE {
            text(out, "state", record.state.as_deref());
            text(out, "target_provision_state", record.target_provision_state.as_deref());
            let seconds = record.duration_seconds.map_or_else(|| "null".to_owned(), |s| s.to_string());
            out.extend_from_slice(format!("\"duration_seconds\": {seconds}, ").as_bytes());
        }
    } else {
        text(out, "event", record.event.as_deref().map(shortened).as_deref());
    }
    out.extend_from_slice(b"\"links\": [{\"href\": ");
    write_text(out, &format!("{}/v1/nodes/{node_uuid}/history/{}", call.base, record.uuid));
    out.extend_from_slice(b", \"rel\": \"self\"}]}");
}

fn shortened(event: &str) -> String {
    if event.chars().count() <= EVENT_MAX {
        return event.to_owned();
    }
    event.chars().take(EVENT_CUT).chain("...".chars()).collect()
}
