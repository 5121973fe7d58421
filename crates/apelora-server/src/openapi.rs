//! The document at `/openapi.json`, made once from the table of endpoints.
//!
//! The Bare Metal API has its own documents: its routes are listed with their versions and policies, the routes of
//! maintenance entries are described whole.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use apelora_maintenance::registry;
use bytes::Bytes;
use utoipa::ToSchema;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, LicenseBuilder, OpenApiBuilder, PathItem,
    PathsBuilder, Ref, Required, ResponseBuilder, schema,
};

use crate::Microversion;
use crate::endpoints::{self, ENDPOINTS, Endpoint};
use crate::microversion::LEGACY_HEADER;

/// An active reason why a node is out of service.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
struct MaintenanceEntry {
    /// The entry's id.
    #[schema(format = "uuid")]
    uuid: String,
    /// A registered type.
    r#type: String,
    /// Free text, never interpreted.
    reason: Option<String>,
    /// The rank with which it was asserted: system, owner or lessee.
    scope: String,
    /// Who asserted it; null for readers whom the entry's scope outranks.
    asserted_by: Option<String>,
    /// The asserter's project, empty when there is none; null for readers whom the entry's scope outranks.
    asserted_by_project: Option<String>,
    /// When, in UTC.
    #[schema(format = "date-time")]
    asserted_at: String,
    /// Data of the type, never interpreted.
    #[schema(value_type = Object)]
    extra: (),
    /// The entry itself.
    links: Vec<Link>,
}

/// A link to a resource.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
struct Link {
    /// The address.
    href: String,
    /// What it is to this resource.
    rel: String,
}

/// The active entries of a node, oldest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
struct MaintenanceEntries {
    /// The entries.
    maintenance: Vec<MaintenanceEntry>,
}

/// An entry to be asserted. Scope and asserter follow from the caller.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
struct NewMaintenanceEntry {
    /// A registered type that is not reserved for the service.
    r#type: String,
    /// Free text, at most 65,535 bytes.
    reason: Option<String>,
    /// Data of the type, at most 65,535 bytes as JSON text.
    #[schema(value_type = Option<Object>)]
    extra: (),
}

/// The boolean's reason.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
struct MaintenanceReason {
    /// Replaces the reason that is there; cut at 4,096 characters.
    reason: Option<String>,
}

/// A refusal.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
struct Error {
    /// JSON text of an object with `faultcode`, `faultstring` and `debuginfo`.
    error_message: String,
}

/// The document.
pub(crate) fn document() -> Bytes {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    DOCUMENT.get_or_init(|| build().to_json().map(Bytes::from).unwrap_or_default()).clone()
}

fn build() -> utoipa::openapi::OpenApi {
    let mut paths = BTreeMap::<&str, PathItem>::new();
    for endpoint in ENDPOINTS {
        let item = paths.entry(endpoint.template).or_default();
        item.merge_operations(PathItem::new(method(endpoint), operation(endpoint)));
    }
    let paths = paths.into_iter().fold(PathsBuilder::new(), |paths, (path, item)| paths.path(path, item));
    let components = ComponentsBuilder::new()
        .schema_from::<Link>()
        .schema_from::<MaintenanceEntry>()
        .schema_from::<MaintenanceEntries>()
        .schema_from::<NewMaintenanceEntry>()
        .schema_from::<MaintenanceReason>()
        .schema_from::<Error>()
        .security_scheme(
            "basic",
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Basic).build()),
        );
    let types: Vec<_> = registry::TYPES.iter().map(|t| format!("`{}`: {}", t.name, t.summary)).collect();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Apelora")
                .version(env!("CARGO_PKG_VERSION"))
                .license(Some(LicenseBuilder::new().name("Apache-2.0").build()))
                .description(Some(format!(
                    "The OpenStack Bare Metal API at microversions {} to {}, chosen by the header \
                     X-OpenStack-Ironic-API-Version, with typed maintenance entries from {} on. Maintenance types: {}.",
                    Microversion::MIN,
                    Microversion::MAX,
                    Microversion::TYPED_MAINTENANCE,
                    types.join("; "),
                )))
                .build(),
        )
        .paths(paths.build())
        .components(Some(components.build()))
        .build()
}

fn method(endpoint: &Endpoint) -> HttpMethod {
    match endpoint.method {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(endpoint: &Endpoint) -> OperationBuilder {
    let policy = endpoint.rule.map_or_else(|| "open to all".to_owned(), |rule| format!("policy `{rule}`"));
    let mut operation = OperationBuilder::new()
        .operation_id(Some(format!("{:?}", endpoint.operation)))
        .summary(Some(endpoint.summary))
        .description(Some(format!("From {} on; {policy}.", endpoint.since)))
        .parameter(
            ParameterBuilder::new()
                .name(LEGACY_HEADER)
                .parameter_in(ParameterIn::Header)
                .description(Some(
                    "The microversion of the request, `1.N` or `latest`; 1.1 when it is missing",
                ))
                .schema(Some(schema::ObjectBuilder::new().schema_type(schema::Type::String))),
        );
    for name in endpoint.template.split('{').skip(1).filter_map(|part| part.split('}').next()) {
        operation = operation.parameter(
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(schema::ObjectBuilder::new().schema_type(schema::Type::String))),
        );
    }
    let entry = Some("MaintenanceEntry");
    let (body, answers): (Option<&str>, &[(&str, &str, Option<&str>)]) =
        match (endpoint.template, endpoint.method) {
            (endpoints::MAINTENANCE, "GET") => {
                (None, &[("200", "The entries", Some("MaintenanceEntries")), FORBIDDEN, NO_NODE])
            }
            (endpoints::MAINTENANCE, "POST") => (
                Some("NewMaintenanceEntry"),
                &[("201", "The entry", entry), BAD, FORBIDDEN, NO_NODE, DUPLICATE],
            ),
            (endpoints::MAINTENANCE, "PUT") => {
                (Some("MaintenanceReason"), &[("202", "Done", None), BAD, FORBIDDEN, NO_NODE, LOCKED])
            }
            (endpoints::MAINTENANCE, _) => (
                None,
                &[
                    ("202", "Done, below 1.116", None),
                    ("204", "Done, from 1.116 on", None),
                    FORBIDDEN,
                    NO_NODE,
                    LOCKED,
                ],
            ),
            (endpoints::MAINTENANCE_ENTRY, "GET") => {
                (None, &[("200", "The entry", entry), FORBIDDEN, NO_NODE])
            }
            (endpoints::MAINTENANCE_ENTRY, _) => (None, &[("204", "Done", None), FORBIDDEN, NO_NODE, LOCKED]),
            _ => (None, &[("default", "As the Bare Metal API documents it", None)]),
        };
    if let Some(body) = body {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(body))).build();
        operation = operation
            .request_body(Some(RequestBodyBuilder::new().content("application/json", content).build()));
    }
    for (status, description, schema) in answers {
        let mut response = ResponseBuilder::new().description(*description);
        if let Some(schema) = schema {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(*schema))).build();
            response = response.content("application/json", content);
        }
        operation = operation.response(*status, response);
    }
    operation
}

const BAD: (&str, &str, Option<&str>) =
    ("400", "A field that cannot be taken; the text names it", Some("Error"));
const FORBIDDEN: (&str, &str, Option<&str>) =
    ("403", "Policy, or an entry that the caller may not release; the text names every one", Some("Error"));
const NO_NODE: (&str, &str, Option<&str>) =
    ("404", "No such node or entry, or an older version", Some("Error"));
const DUPLICATE: (&str, &str, Option<&str>) =
    ("409", "The same type at the same scope from the same project is active already", Some("Error"));
const LOCKED: (&str, &str, Option<&str>) =
    ("409", "Another service holds the node's reservation", Some("Error"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_in_the_document() {
        let document: serde_json::Value = serde_json::from_slice(&document()).unwrap();
        for endpoint in ENDPOINTS {
            let operation = &document["paths"][endpoint.template][endpoint.method.to_lowercase()];
            assert!(operation["summary"].is_string(), "{} {}", endpoint.method, endpoint.template);
        }
        let text = document.to_string();
        for reference in
            text.match_indices("#/components/schemas/").map(|(at, found)| &text[at + found.len()..])
        {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
