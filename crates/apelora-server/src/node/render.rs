//! A node as JSON text, for one microversion.
//!
//! Columns that hold JSON pass through as text. Source: tests/data/ironic/README.md sections 1.2, 3.2, 3.3, 3.5.

use apelora_maintenance::json;
use apelora_store::{Cell, NodeColumn, NodeRow};
use serde::de::IgnoredAny;

use super::fields::{self, FIELDS, Field, Form, Source};
use super::mask;
use crate::Microversion;
use crate::auth::Caller;
use crate::authorise::{self, Sight};

/// For whom and from where a node is shown.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    /// Who reads it.
    pub(crate) caller: &'a Caller,
    pub(crate) version: Microversion,
    /// `http://host:port`, as the client called it.
    pub(crate) base: &'a str,
    /// This service's name.
    pub(crate) host: &'a str,
    /// Whether the node is shown as this service holds it: the reference answers a PATCH before it lets go of the
    /// node, so that its own name is the `reservation`.
    pub(crate) held: bool,
}

/// Which fields of a node to show, in which order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection(Vec<&'static Field>);

impl Selection {
    /// Everything that the version has.
    pub(crate) fn all(version: Microversion) -> Self {
        Self(FIELDS.iter().filter(|f| f.since <= version).collect())
    }

    /// These fields and the links: the uuid first, then the others as asked, then those that stand behind the links.
    pub(crate) fn of(asked: &[&'static Field], version: Microversion) -> Self {
        let asked = || asked.iter().copied().filter(|f| f.since <= version);
        let mut fields: Vec<&'static Field> = asked().filter(|f| f.name == "uuid").collect();
        fields.extend(asked().filter(|f| f.name != "uuid" && !f.after_links()));
        fields.extend(fields::find("links"));
        fields.extend(FIELDS.iter().filter(|f| f.after_links() && asked().any(|a| a.name == f.name)));
        Self(fields)
    }

    /// What a list shows unless it is asked for more.
    pub(crate) fn listed(version: Microversion) -> Self {
        let asked: Vec<_> = fields::LISTED.iter().filter_map(|name| fields::find(name)).collect();
        Self::of(&asked, version)
    }

    /// What the states of a node are.
    pub(crate) fn states(version: Microversion) -> Self {
        let found = fields::STATES.iter().filter_map(|name| fields::find(name));
        Self(found.filter(|f| f.since <= version).collect())
    }

    /// The columns that are needed to show it; the uuid always, for the links.
    pub(crate) fn columns(&self) -> Vec<NodeColumn> {
        let mut columns = vec![NodeColumn::Uuid];
        columns.extend(self.0.iter().filter_map(|f| f.column()).filter(|c| *c != NodeColumn::Uuid));
        columns
    }
}

/// Appends the node as a JSON object.
pub(crate) fn write_node(out: &mut Vec<u8>, row: &NodeRow, selection: &Selection, view: &View<'_>) {
    let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
    // Most lists show nothing that has to be asked about.
    let sight = selection
        .0
        .iter()
        .any(|field| is_guarded(field))
        .then(|| Sight::new(view.caller, row.text(NodeColumn::Owner), row.text(NodeColumn::Lessee)));
    out.push(b'{');
    for (i, field) in selection.0.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        out.push(b'"');
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b"\": ");
        if let (Some(redacted), Some(sight)) = (field.redacted(), &sight)
            && !sight.shows(redacted.rule)
        {
            out.extend_from_slice(redacted.json.as_bytes());
            continue;
        }
        match field.source {
            Source::Column(NodeColumn::Reservation) if view.held => write_text(out, view.host),
            Source::Column(column) => {
                write_cell(out, row.get(column), field.form, view.version, sight.as_ref());
            }
            Source::Links => write_links(out, view.base, &["nodes", uuid]),
            Source::PartLinks(part) => write_links(out, view.base, &["nodes", uuid, part]),
            Source::Conductor => write_text(out, view.host),
            Source::Absent(value) => out.extend_from_slice(value.as_bytes()),
        }
    }
    out.push(b'}');
}

/// The node alone, as the body of an answer.
pub(crate) fn node(row: &NodeRow, selection: &Selection, view: &View<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4_096);
    write_node(&mut out, row, selection, view);
    out
}

/// Whether policy has a word about what is shown of the field.
fn is_guarded(field: &Field) -> bool {
    field.redacted().is_some() || matches!(field.form, Form::SecretObject | Form::InstanceInfo)
}

fn write_cell(out: &mut Vec<u8>, cell: &Cell, form: Form, version: Microversion, sight: Option<&Sight<'_>>) {
    let reveals = |rule| sight.is_some_and(|sight| sight.reveals(rule));
    match (form, cell) {
        (Form::Object | Form::SecretObject | Form::InstanceInfo, Cell::Json(text)) if is_object(text) => {
            let text = match form {
                Form::SecretObject if !reveals(authorise::SHOW_PASSWORD) => &mask::secrets(text),
                Form::InstanceInfo if !reveals(authorise::SHOW_INSTANCE_SECRETS) => {
                    &mask::instance_info(text)
                }
                _ => text,
            };
            write_json(out, text);
        }
        (Form::Object | Form::SecretObject | Form::InstanceInfo, _) => out.extend_from_slice(b"{}"),
        (Form::Bool, cell) => write_bool(out, matches!(cell, Cell::Bool(true))),
        (Form::OptionalBool, Cell::Bool(value)) => write_bool(out, *value),
        (Form::ProvisionState, Cell::Text(state)) => match provision_state(state, version) {
            Some(state) => write_text(out, state),
            None => out.extend_from_slice(b"null"),
        },
        (Form::Time, Cell::Time(at)) => write_text(out, &json::iso(*at)),
        (_, Cell::Text(text)) => write_text(out, text),
        _ => out.extend_from_slice(b"null"),
    }
}

/// The state in the words of the version.
fn provision_state(state: &str, version: Microversion) -> Option<&str> {
    match state {
        "available" if version < Microversion::new(2) => None,
        "inspect wait" if version < Microversion::new(39) => Some("inspecting"),
        other => Some(other),
    }
}

/// Another service may have written the text: only what is an object is shown as one.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Appends the text of an object, or an empty one where there is none.
pub(crate) fn write_object(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) if is_object(text) => write_json(out, text),
        _ => out.extend_from_slice(b"{}"),
    }
}

/// The text as it is, unless it holds characters that answers have as escapes.
fn write_json(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let value = serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let _ = json::write(out, &value);
}

/// Appends a JSON text.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Plain texts, most of them, need no look at each character.
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing to memory does not fail.
        let _ = json::write(out, text);
    }
}

fn write_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends the pair of links to a resource: with and without the version.
pub(crate) fn write_links(out: &mut Vec<u8>, base: &str, path: &[&str]) {
    let path = path.join("/");
    out.extend_from_slice(b"[{\"href\": ");
    write_text(out, &format!("{base}/v1/{path}"));
    out.extend_from_slice(b", \"rel\": \"self\"}, {\"href\": ");
    write_text(out, &format!("{base}/{path}"));
    out.extend_from_slice(b", \"rel\": \"bookmark\"}]");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(caller: &Caller, version: u16) -> View<'_> {
        View { caller, version: Microversion::new(version), base: "http://h:1", host: "me", held: false }
    }

    fn show(row: &NodeRow, names: &[&str], version: u16) -> String {
        let asked: Vec<_> = names.iter().map(|n| fields::find(n).unwrap()).collect();
        let selection = Selection::of(&asked, Microversion::new(version));
        String::from_utf8(node(row, &selection, &view(&Caller::operator(), version))).unwrap()
    }

    #[test]
    fn fields_as_asked_with_uuid_and_links_at_their_places() {
        let row =
            NodeRow::from_cells([(NodeColumn::Uuid, Cell::from("u")), (NodeColumn::Name, Cell::from("n"))]);
        let links = r#""links": [{"href": "http://h:1/v1/nodes/u", "rel": "self"}, {"href": "http://h:1/nodes/u", "rel": "bookmark"}]"#;
        assert_eq!(show(&row, &["name", "uuid"], 115), format!(r#"{{"uuid": "u", "name": "n", {links}}}"#));
        assert_eq!(
            show(&row, &["chassis_uuid", "traits", "conductor"], 115),
            format!(r#"{{"traits": [], {links}, "conductor": "me", "chassis_uuid": null}}"#)
        );
    }

    #[test]
    fn values_that_are_null_in_the_database() {
        let row = NodeRow::from_cells([]);
        let caller = Caller::operator();
        let text =
            String::from_utf8(node(&row, &Selection::all(Microversion::MAX), &view(&caller, 116))).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for field in FIELDS.iter().filter(|f| f.column().is_some()) {
            let shown = &value[field.name];
            match field.form {
                Form::Bool => assert_eq!(shown, false, "{}", field.name),
                Form::Object | Form::SecretObject | Form::InstanceInfo => {
                    assert_eq!(shown, &serde_json::json!({}), "{}", field.name);
                }
                _ => assert!(shown.is_null(), "{}", field.name),
            }
        }
    }

    #[test]
    fn objects_that_another_service_broke() {
        for (stored, shown) in [
            (r#"{"a": 1.50, "b": 12345678901234567890123}"#, r#"{"a": 1.50, "b": 12345678901234567890123}"#),
            ("{\"\u{e9}\": 1}", r#"{"\u00e9": 1}"#),
            ("[1]", "{}"),
            ("{bad", "{}"),
            ("", "{}"),
        ] {
            let row = NodeRow::from_cells([(NodeColumn::Extra, Cell::Json(stored.into()))]);
            assert!(show(&row, &["extra"], 1).starts_with(&format!("{{\"extra\": {shown}, ")), "{stored}");
        }
    }

    #[test]
    fn states_in_the_words_of_the_version() {
        assert_eq!(provision_state("available", Microversion::new(1)), None);
        assert_eq!(provision_state("available", Microversion::new(2)), Some("available"));
        assert_eq!(provision_state("inspect wait", Microversion::new(38)), Some("inspecting"));
        assert_eq!(provision_state("inspect wait", Microversion::new(39)), Some("inspect wait"));
    }
}
