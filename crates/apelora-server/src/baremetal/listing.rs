//! Lists of nodes: filters, order, pages. Source: tests/data/ironic/README.md section 3.5.

use apelora_store::{Cell, Direction, NodeColumn, NodeFilter, NodeQuery};
use http::StatusCode;

use super::{Call, PAGE_MAX};
use crate::Microversion;
use crate::args::Args;
use crate::error::ApiError;
use crate::node::fields::{self, Field};
use crate::node::render::{self, Selection};
use crate::node::rules;
use crate::python;
use crate::reply::Success;

/// A filter that compares a column with a text.
struct TextFilter {
    name: &'static str,
    column: NodeColumn,
    since: u16,
}

const fn text_filter(name: &'static str, column: NodeColumn, since: u16) -> TextFilter {
    TextFilter { name, column, since }
}

/// The filters of which nothing more is to be said.
static TEXT_FILTERS: &[TextFilter] = &[
    text_filter("driver", NodeColumn::Driver, 16),
    text_filter("resource_class", NodeColumn::ResourceClass, 21),
    text_filter("fault", NodeColumn::Fault, 42),
    text_filter("conductor_group", NodeColumn::ConductorGroup, 46),
    text_filter("owner", NodeColumn::Owner, 50),
    text_filter("lessee", NodeColumn::Lessee, 65),
];

const CONDUCTOR_SINCE: Microversion = Microversion::new(49);
const SHARD_SINCE: Microversion = Microversion::new(82);
const PARENT_SINCE: Microversion = Microversion::new(83);
const PROVISION_STATE_SINCE: Microversion = Microversion::new(9);
const FIELDS_SINCE: Microversion = Microversion::new(8);
const DETAIL_SINCE: Microversion = Microversion::new(43);
const INSTANCE_NAME_SINCE: Microversion = Microversion::new(104);

/// Every argument of a list; the list in detail has neither `fields` nor `detail`.
const ARGUMENTS: [&str; 26] = [
    "associated",
    "chassis_uuid",
    "conductor",
    "conductor_group",
    "description_contains",
    "driver",
    "fault",
    "include_children",
    "instance_name",
    "instance_uuid",
    "lessee",
    "limit",
    "maintenance",
    "marker",
    "owner",
    "parent_node",
    "project",
    "provision_state",
    "resource_class",
    "retired",
    "shard",
    "sharded",
    "sort_dir",
    "sort_key",
    "detail",
    "fields",
];

/// GET /v1/nodes.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    let args = call.request.query();
    args.only(&ARGUMENTS)?;
    let typed = Typed::read(&args)?;
    let detail = args.bool("detail")?;
    let names = args.names("fields")?;
    let version = call.cx.version;
    let asked = names.as_deref().map(|names| selected(names, version)).transpose()?;
    let conditions = typed.conditions(call, &args)?;
    if detail.is_some() && version < DETAIL_SINCE {
        return Err(ApiError::bad_request("Invalid query parameter ?detail=True received."));
    }
    let detail = detail.unwrap_or(false);
    if detail && asked.is_some() {
        return Err(ApiError::bad_request("Can not specify ?detail=True and fields in the same request."));
    }
    let selection = match &asked {
        _ if detail => Selection::all(version),
        Some(asked) => Selection::of(asked, version),
        None => Selection::listed(version),
    };
    // Older versions have no such argument: there the next page is the same list.
    let fields_of_next = match &asked {
        _ if detail || version < FIELDS_SINCE => None,
        Some(asked) => Some(asked.iter().map(|f| f.name).collect::<Vec<_>>().join(",")),
        None => Some(fields::LISTED.join(",")),
    };
    let next = Next { path: "nodes", detail, fields: fields_of_next };
    page(call, &typed, conditions, &selection, &next, args.text("project")?).await
}

/// GET /v1/nodes/detail.
pub(super) async fn list_in_detail(call: &Call<'_>) -> Result<Success, ApiError> {
    let args = call.request.query();
    let known: Vec<_> = ARGUMENTS.into_iter().filter(|a| !matches!(*a, "detail" | "fields")).collect();
    args.only(&known)?;
    let typed = Typed::read(&args)?;
    let conditions = typed.conditions(call, &args)?;
    let next = Next { path: "nodes/detail", detail: false, fields: None };
    page(call, &typed, conditions, &Selection::all(call.cx.version), &next, args.text("project")?).await
}

/// The fields of these names.
///
/// # Errors
/// 406 for fields, and for the argument itself, that are newer than the version; 400 for unknown ones.
pub(super) fn selected(names: &[String], version: Microversion) -> Result<Vec<&'static Field>, ApiError> {
    if version < FIELDS_SINCE {
        return Err(ApiError::newer());
    }
    let mut selected = Vec::with_capacity(names.len());
    for name in names {
        match fields::find(name).filter(|f| f.selectable()) {
            Some(field) => selected.push(field),
            None => return Err(ApiError::bad_request(format!("Field {name} is not a valid field."))),
        }
    }
    if selected.iter().any(|f| f.since > version) {
        return Err(ApiError::newer());
    }
    Ok(selected)
}

/// The arguments whose types are checked before anything else is looked at.
struct Typed {
    associated: Option<bool>,
    maintenance: Option<bool>,
    retired: Option<bool>,
    sharded: Option<bool>,
    include_children: Option<bool>,
    chassis: Option<String>,
    instance: Option<String>,
    marker: Option<String>,
    limit: u32,
    sort_key: String,
    direction: Direction,
}

impl Typed {
    fn read(args: &Args) -> Result<Self, ApiError> {
        Ok(Self {
            chassis: args.uuid("chassis_uuid")?,
            instance: args.uuid("instance_uuid")?,
            associated: args.bool("associated")?,
            maintenance: args.bool("maintenance")?,
            retired: args.bool("retired")?,
            sharded: args.bool("sharded")?,
            include_children: args.bool("include_children")?,
            marker: args.uuid("marker")?,
            limit: args.limit(PAGE_MAX)?,
            sort_key: args.text("sort_key")?.unwrap_or("id").to_owned(),
            direction: direction(args)?,
        })
    }

    /// The order, and the conditions on nodes.
    fn conditions(&self, call: &Call<'_>, args: &Args) -> Result<Conditions, ApiError> {
        let version = call.cx.version;
        let since = |minimum: Microversion| {
            if version < minimum { Err(ApiError::newer_than(minimum)) } else { Ok(()) }
        };
        let sort = sort_column(&self.sort_key, version)?;
        let mut filters = Vec::new();
        if let Some(state) = args.text("provision_state")? {
            if version < PROVISION_STATE_SINCE {
                return Err(ApiError::newer());
            }
            if !rules::PROVISION_STATES.contains(&state) {
                return Err(ApiError::bad_request(format!("Provision state \"{state}\" is not valid")));
            }
            filters.push(NodeFilter::Equals(NodeColumn::ProvisionState, state.into()));
        }
        for TextFilter { name, column, since: minor } in TEXT_FILTERS {
            if let Some(value) = args.text(name)? {
                since(Microversion::new(*minor))?;
                if *column == NodeColumn::Fault {
                    check_fault(value)?;
                }
                let value = if *column == NodeColumn::ConductorGroup {
                    value.to_lowercase()
                } else {
                    value.to_owned()
                };
                filters.push(NodeFilter::Equals(*column, Cell::from(value)));
            }
        }
        if let Some(conductor) = args.text("conductor")? {
            since(CONDUCTOR_SINCE)?;
            filters.extend(call.app.not_served_by(conductor));
        }
        if let Some(shards) = args.text("shard")? {
            since(SHARD_SINCE)?;
            let shards = shards.split(',').map(|s| Cell::from(s.trim())).collect();
            filters.push(NodeFilter::OneOf(NodeColumn::Shard, shards));
        }
        if let Some(sharded) = self.sharded {
            since(SHARD_SINCE)?;
            filters.push(is_set(NodeColumn::Shard, sharded));
        }
        let parent = args.text("parent_node")?;
        if parent.is_some() || self.include_children.is_some() {
            since(PARENT_SINCE)?;
        }
        match (parent, self.include_children) {
            (Some(parent), _) => filters.push(NodeFilter::Equals(NodeColumn::ParentNode, parent.into())),
            (None, Some(true)) => {}
            (None, _) => filters.push(NodeFilter::IsNull(NodeColumn::ParentNode)),
        }
        if let Some(name) = args.text("instance_name")? {
            if version < INSTANCE_NAME_SINCE {
                let text = "instance_name is not acceptable in this API version";
                return Err(ApiError::resource(StatusCode::NOT_ACCEPTABLE, text));
            }
            filters.push(NodeFilter::Equals(NodeColumn::InstanceName, name.into()));
        }
        if let Some(text) = args.text("description_contains")? {
            if text.chars().count() > fields::DESCRIPTION_MAX {
                return Err(ApiError::bad_request(format!(
                    "Cannot query nodes with description exceeding {} characters",
                    fields::DESCRIPTION_MAX
                )));
            }
            filters.push(NodeFilter::Contains(NodeColumn::Description, text.to_owned()));
        }
        if let Some(project) = args.text("project")? {
            filters.push(NodeFilter::project(project));
        }
        if let Some(chassis) = &self.chassis {
            return Err(ApiError::not_found(format!("Chassis {chassis} could not be found.")));
        }
        if let Some(instance) = &self.instance {
            filters.push(NodeFilter::Equals(NodeColumn::InstanceUuid, instance.as_str().into()));
        }
        filters.extend(self.associated.map(|set| is_set(NodeColumn::InstanceUuid, set)));
        filters.extend(self.maintenance.map(|flag| NodeFilter::Flag(NodeColumn::Maintenance, flag)));
        filters.extend(self.retired.map(|flag| NodeFilter::Flag(NodeColumn::Retired, flag)));
        Ok(Conditions { sort, filters })
    }
}

struct Conditions {
    sort: NodeColumn,
    filters: Vec<NodeFilter>,
}

fn is_set(column: NodeColumn, set: bool) -> NodeFilter {
    if set { NodeFilter::IsNotNull(column) } else { NodeFilter::IsNull(column) }
}

fn check_fault(fault: &str) -> Result<(), ApiError> {
    if rules::FAULTS.contains(&fault) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "Unrecognized fault \"{fault}\" is specified, allowed faults are {}",
        python::repr_tuple(&rules::FAULTS)
    )))
}

/// The direction that `sort_dir` names.
pub(super) fn direction(args: &Args) -> Result<Direction, ApiError> {
    match args.text("sort_dir")? {
        None | Some("asc") => Ok(Direction::Ascending),
        Some("desc") => Ok(Direction::Descending),
        Some(other) => Err(ApiError::bad_request(format!(
            "Invalid sort direction: {other}. Acceptable values are 'asc' or 'desc'"
        ))),
    }
}

fn sort_column(key: &str, version: Microversion) -> Result<NodeColumn, ApiError> {
    if key == "id" {
        return Ok(NodeColumn::Id);
    }
    let invalid = |shown: String| {
        ApiError::bad_request(format!("The sort_key value {shown} is an invalid field for sorting"))
    };
    let Some(field) = fields::find(key) else { return Err(invalid(format!("\"{key}\""))) };
    if field.since > version {
        return Err(ApiError::newer());
    }
    match field.column() {
        Some(column) if field.sortable() => Ok(column),
        _ if field.is_object() || key == "traits" => Err(invalid(key.to_owned())),
        _ => Err(invalid(format!("\"{key}\""))),
    }
}

/// What the link to the next page says beside order, flags, limit and marker.
struct Next {
    path: &'static str,
    detail: bool,
    fields: Option<String>,
}

async fn page(
    call: &Call<'_>,
    typed: &Typed,
    conditions: Conditions,
    selection: &Selection,
    next: &Next,
    project: Option<&str>,
) -> Result<Success, ApiError> {
    let query = NodeQuery {
        columns: selection.columns(),
        filters: conditions.filters,
        sort: (conditions.sort, typed.direction),
        marker: typed.marker.clone(),
        limit: typed.limit,
    };
    let rows = call.app.nodes(call.cx, query, project).await?;
    let view = call.view();
    let mut out = Vec::with_capacity(64 + rows.len() * 512);
    out.extend_from_slice(b"{\"nodes\": [");
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        render::write_node(&mut out, row, selection, &view);
    }
    out.push(b']');
    // As in the reference: also when nothing follows a full page.
    if let Some(last) = rows.last().filter(|_| rows.len() == typed.limit as usize) {
        let marker = last.text(NodeColumn::Uuid).unwrap_or_default();
        out.extend_from_slice(b", \"next\": ");
        render::write_text(&mut out, &next_link(call.base, typed, next, marker));
    }
    out.push(b'}');
    Ok(Success::json(out))
}

/// The order of arguments is the reference's; the other filters it forgets, too.
fn next_link(base: &str, typed: &Typed, next: &Next, marker: &str) -> String {
    let mut link = format!(
        "{base}/v1/{}?sort_key={}&sort_dir={}",
        next.path,
        typed.sort_key,
        direction_word(typed.direction)
    );
    for (name, set) in [
        ("associated", typed.associated == Some(true)),
        ("maintenance", typed.maintenance == Some(true)),
        ("retired", typed.retired == Some(true)),
        ("detail", next.detail),
    ] {
        if set {
            link.push_str(&format!("&{name}=True"));
        }
    }
    if let Some(fields) = &next.fields {
        link.push_str(&format!("&fields={fields}"));
    }
    link.push_str(&format!("&limit={}&marker={marker}", typed.limit));
    link
}

/// The word for a direction in links.
pub(super) fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ascending => "asc",
        Direction::Descending => "desc",
    }
}
