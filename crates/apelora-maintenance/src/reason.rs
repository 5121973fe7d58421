//! The text of `maintenance_reason`.

use crate::entry::{Entry, REASON_MAX_BYTES};
use crate::registry::LEGACY;

/// The reason that old clients read, made from the active entries in their order.
///
/// A lone legacy entry is reproduced verbatim, null staying null, so that a script reads back what it wrote. Otherwise
/// each entry gives `<type>: <reason>`, or `<type>` without a reason, joined with `; ` and cut at 65,535 bytes on a
/// character boundary.
pub fn synthesise(entries: &[Entry]) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    if let [only] = entries
        && only.entry_type == LEGACY
    {
        return only.reason.clone();
    }
    let mut text = String::new();
    for entry in entries {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&entry.entry_type);
        if let Some(reason) = &entry.reason {
            text.push_str(": ");
            text.push_str(reason);
        }
        if text.len() > REASON_MAX_BYTES {
            break;
        }
    }
    text.truncate(text.floor_char_boundary(REASON_MAX_BYTES));
    Some(text)
}
