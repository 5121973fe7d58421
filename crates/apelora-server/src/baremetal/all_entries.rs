//! The entries of all nodes, beside the Bare Metal API: what a transfer of nodes is checked with.

use super::{Call, PAGE_MAX, maintenance};
use crate::app::SeenPlaced;
use crate::endpoints;
use crate::error::ApiError;
use crate::node::render;
use crate::reply::Success;

/// GET /apelora/v1/maintenance.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    let args = call.request.query();
    args.only(&["limit", "marker", "stale"])?;
    let stale = args.bool("stale")?.unwrap_or(false);
    let marker = args.uuid("marker")?;
    let limit = args.limit(PAGE_MAX)?;
    let page = call.app.entries_of_all_nodes(call.cx, stale, marker, limit).await?;
    let mut out = b"{\"maintenance\": [".to_vec();
    for (i, placed) in page.entries.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        write_placed(&mut out, call.base, placed);
    }
    out.push(b']');
    if let Some(last) = page.entries.last().filter(|_| page.more) {
        let stale = if stale { "stale=true&" } else { "" };
        let link = format!(
            "{}{}?{stale}limit={limit}&marker={}",
            call.base,
            endpoints::ALL_ENTRIES,
            last.seen.entry.uuid
        );
        out.extend_from_slice(b", \"next\": ");
        render::write_text(&mut out, &link);
    }
    out.push(b'}');
    Ok(Success::json(out))
}

fn write_placed(out: &mut Vec<u8>, base: &str, placed: &SeenPlaced) {
    let node = &placed.node;
    out.extend_from_slice(b"{\"node\": {\"uuid\": ");
    render::write_text(out, &node.uuid);
    for (name, value) in [("name", &node.name), ("owner", &node.owner), ("lessee", &node.lessee)] {
        out.extend_from_slice(format!(", \"{name}\": ").as_bytes());
        match value {
            Some(value) => render::write_text(out, value),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"}, \"entry\": ");
    maintenance::write_entry(out, base, &node.uuid, &placed.seen);
    out.extend_from_slice(format!(", \"stale\": {}}}", placed.stale).as_bytes());
}
