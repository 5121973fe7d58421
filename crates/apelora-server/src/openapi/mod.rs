//! The document at `/openapi.json`, made once from the table of endpoints.
//!
//! The Bare Metal API has its own documents: its routes are listed with their versions and policies, the routes of
//! maintenance entries are described whole.

mod cluster;
mod schemas;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use apelora_maintenance::registry;
use bytes::Bytes;
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
use schemas::{
    Error, Link, MaintainedNode, MaintenanceEntries, MaintenanceEntry, MaintenanceReason,
    NewMaintenanceEntry, PlacedMaintenanceEntries, PlacedMaintenanceEntry,
};

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
    for (path, summary) in OWN_PAGES {
        let operation = OperationBuilder::new()
            .summary(Some(summary))
            .response("200", ResponseBuilder::new().description("Done"));
        paths.entry(path).or_default().merge_operations(PathItem::new(HttpMethod::Get, operation));
    }
    let paths = paths.into_iter().fold(PathsBuilder::new(), |paths, (path, item)| paths.path(path, item));
    let components = ComponentsBuilder::new()
        .schema_from::<Link>()
        .schema_from::<MaintenanceEntry>()
        .schema_from::<MaintenanceEntries>()
        .schema_from::<NewMaintenanceEntry>()
        .schema_from::<MaintenanceReason>()
        .schema_from::<MaintainedNode>()
        .schema_from::<PlacedMaintenanceEntry>()
        .schema_from::<PlacedMaintenanceEntries>()
        .schema_from::<Error>();
    let components = cluster::schemas(components).security_scheme(
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

/// The service's own pages, open to all.
const OWN_PAGES: [(&str, &str); 4] = [
    ("/healthz", "Whether the process is alive"),
    ("/readyz", "Whether requests can be answered: 503 while the database does not answer"),
    ("/metrics", "Figures in the text form of OpenMetrics"),
    ("/openapi.json", "This document"),
];

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
    for (name, meaning) in arguments(endpoint) {
        operation = operation.parameter(
            ParameterBuilder::new()
                .name(*name)
                .parameter_in(ParameterIn::Query)
                .description(Some(*meaning))
                .schema(Some(schema::ObjectBuilder::new().schema_type(schema::Type::String))),
        );
    }
    let (body, answers) = described(endpoint);
    if let Some(body) = body {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(body))).build();
        operation = operation
            .request_body(Some(RequestBodyBuilder::new().content("application/json", content).build()));
    }
    for Answer { status, meaning, schema } in answers {
        let mut response = ResponseBuilder::new().description(*meaning);
        if let Some(schema) = schema {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(*schema))).build();
            response = response.content("application/json", content);
        }
        operation = operation.response(*status, response);
    }
    operation
}

/// Arguments of the query, of the endpoints that are described whole.
fn arguments(endpoint: &Endpoint) -> &'static [(&'static str, &'static str)] {
    match endpoint.template {
        endpoints::ALL_ENTRIES => &[
            ("stale", "`true`: only entries whose project is neither owner nor lessee of the node any more"),
            ("limit", "Entries on a page, 1 to 1000"),
            ("marker", "The uuid of the last entry of the page before"),
        ],
        other => cluster::arguments(other),
    }
}

/// An answer of an endpoint.
struct Answer {
    status: &'static str,
    meaning: &'static str,
    schema: Option<&'static str>,
}

const fn done(status: &'static str, meaning: &'static str) -> Answer {
    Answer { status, meaning, schema: None }
}

const fn shows(status: &'static str, meaning: &'static str, schema: &'static str) -> Answer {
    Answer { status, meaning, schema: Some(schema) }
}

const BAD: Answer = shows("400", "A field that cannot be taken; the text names it", "Error");
const FORBIDDEN: Answer =
    shows("403", "Policy, or entries that the caller may not release; the text names every one", "Error");
const NO_NODE: Answer = shows("404", "No such node or entry, or an older version", "Error");
const DUPLICATE: Answer =
    shows("409", "The same type at the same scope from the same project is active already", "Error");
const LOCKED: Answer = shows("409", "Another service holds the node's reservation", "Error");
const ENTRY: &str = "MaintenanceEntry";

/// Body and answers of the endpoints of maintenance; the others are documented elsewhere.
fn described(endpoint: &Endpoint) -> (Option<&'static str>, &'static [Answer]) {
    static LIST: [Answer; 3] = [shows("200", "The entries", "MaintenanceEntries"), FORBIDDEN, NO_NODE];
    static ALL: [Answer; 3] = [shows("200", "A page of entries", "PlacedMaintenanceEntries"), BAD, FORBIDDEN];
    static ADD: [Answer; 5] = [shows("201", "The entry", ENTRY), BAD, FORBIDDEN, NO_NODE, DUPLICATE];
    static SET: [Answer; 5] = [done("202", "Done"), BAD, FORBIDDEN, NO_NODE, LOCKED];
    static CLEAR: [Answer; 5] =
        [done("202", "Done, below 1.116"), done("204", "Done, from 1.116 on"), FORBIDDEN, NO_NODE, LOCKED];
    static SHOW: [Answer; 3] = [shows("200", "The entry", ENTRY), FORBIDDEN, NO_NODE];
    static RELEASE: [Answer; 4] = [done("204", "Done"), FORBIDDEN, NO_NODE, LOCKED];
    static ELSEWHERE: [Answer; 1] = [done("default", "As the Bare Metal API documents it")];
    match (endpoint.template, endpoint.method) {
        (endpoints::ALL_ENTRIES, _) => (None, &ALL),
        (endpoints::MAINTENANCE, "GET") => (None, &LIST),
        (endpoints::MAINTENANCE, "POST") => (Some("NewMaintenanceEntry"), &ADD),
        (endpoints::MAINTENANCE, "PUT") => (Some("MaintenanceReason"), &SET),
        (endpoints::MAINTENANCE, _) => (None, &CLEAR),
        (endpoints::MAINTENANCE_ENTRY, "GET") => (None, &SHOW),
        (endpoints::MAINTENANCE_ENTRY, _) => (None, &RELEASE),
        (template, _) => cluster::described(template).unwrap_or((None, &ELSEWHERE)),
    }
}

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
