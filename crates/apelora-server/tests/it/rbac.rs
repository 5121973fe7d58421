//! The recorded answers of the reference service to 26 personas, asked of the running server.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::cloud::{Cloud, data, recorded, varied};

const OWNER: &str = "70e5e25a-2ca2-4cb1-8ae8-7d8739cee205";
const LESSEE: &str = "f11853c7-fa9c-4db3-a477-c9d8e0dbbf13";
const OTHER: &str = "ae64129e-b188-4662-b014-4127f4366ee6";
/// The owner of the node that none of the personas has to do with.
const STRANGER: &str = "0b1c39c3f4e64f0ba5a1b9c4d7f0a911";
const MISSING: &str = "00000000-0000-4000-8000-00000000dead";
const NODES: [&str; 5] = ["unowned", "owned", "leased", "same", "other"];

/// Where this service answers otherwise on purpose: what is expected instead, and why.
fn overruled(row: &Value) -> Option<(u16, &'static str)> {
    let (method, path) = (row["method"].as_str()?, row["path"].as_str()?);
    let status = row["expected_status"].as_u64()?;
    if path == "/v1/conductors" {
        return Some((404, "there are no conductors here"));
    }
    match (status, method) {
        (500, _) if path == "/v1/drivers" || row["node"].is_null() => {
            Some((403, "a token of another scope is refused; the reference fails"))
        }
        (500, _) => Some((404, "a token of another scope sees no node; the reference fails")),
        (202, "PUT") if path.ends_with("/states/power") => Some((400, "this service switches no power")),
        (409, "PATCH") => Some((200, "there are no allocations here")),
        _ => None,
    }
}

/// What the recorded answer of the reference's Keystone would be for a row's caller.
fn body(row: &Value) -> Value {
    let roles: Vec<_> = row["roles"].as_array().unwrap().iter().map(|role| role.as_str().unwrap()).collect();
    let user = row["persona"].as_str().unwrap();
    if row["system_scope"] == "all" {
        return varied("system-admin", user, None, &roles);
    }
    if row["domain"].is_string() {
        return varied("domain-admin", user, None, &roles);
    }
    let Some(project) = row["project"].as_str() else { return recorded("unscoped") };
    let project = match project {
        "OWNER" => OWNER,
        "LESSEE" => LESSEE,
        _ => OTHER,
    };
    varied("owner-a-member", user, Some((project, row["project_name"].as_str().unwrap_or("none"))), &roles)
}

/// The nodes of the matrix, each with a record of history.
struct Fleet<'a> {
    cloud: &'a Cloud,
    operator: String,
    nodes: HashMap<&'static str, (String, String)>,
}

impl<'a> Fleet<'a> {
    async fn new(cloud: &'a Cloud) -> Self {
        let operator = cloud.persona("system-admin");
        let mut fleet = Self { cloud, operator, nodes: HashMap::new() };
        for name in NODES {
            fleet.make(name).await;
        }
        fleet
    }

    async fn make(&mut self, name: &'static str) {
        let (owner, lessee) = match name {
            "owned" => (Some(OWNER), None),
            "leased" => (Some(OWNER), Some(LESSEE)),
            "same" => (Some(OWNER), Some(OWNER)),
            "other" => (Some(STRANGER), None),
            _ => (None, None),
        };
        let uuid = self.cloud.node(&self.operator, name, owner, lessee).await;
        let path = format!("/v1/nodes/{uuid}");
        let flag = format!("{path}/maintenance");
        self.cloud.call(&self.operator, "PUT", &flag, None).await.expect(202);
        self.cloud.call(&self.operator, "DELETE", &flag, None).await.expect(204);
        let history =
            self.cloud.call(&self.operator, "GET", &format!("{path}/history"), None).await.expect(200);
        let record = history.json()["history"][0]["uuid"].as_str().unwrap().to_owned();
        self.nodes.insert(name, (uuid, record));
    }

    /// Puts a node back after a row has changed it.
    async fn again(&mut self, name: &'static str) {
        let path = format!("/v1/nodes/{}", self.nodes[name].0);
        let gone = self.cloud.call(&self.operator, "DELETE", &path, None).await;
        assert!([204, 404].contains(&gone.status), "{}", gone.body);
        self.make(name).await;
    }
}

/// The fields that are shown redacted.
fn redacted(node: &Value) -> Vec<String> {
    let is_redacted = |value: &Value| value.to_string().contains("edacted");
    let mut fields: Vec<_> =
        node.as_object().unwrap().iter().filter(|(_, v)| is_redacted(v)).map(|(k, _)| k.clone()).collect();
    fields.sort();
    fields
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// What is wrong with the answer to a row.
async fn judge(cloud: &Cloud, fleet: &Fleet<'_>, token: &str, row: &Value) -> (u16, Vec<String>) {
    let name = row["node"].as_str().unwrap_or("none");
    let (node, record) = match fleet.nodes.get(name) {
        Some((node, record)) => (node.as_str(), record.as_str()),
        None => (MISSING, MISSING),
    };
    let path = row["path"].as_str().unwrap().replace("{N}", node).replace("{H}", record);
    let body = Some(&row["body"]).filter(|body| !body.is_null());
    let power = json!({"target": "power on"});
    let body = if path.ends_with("/states/power") { Some(&power) } else { body };
    let method = row["method"].as_str().unwrap();
    let answer = cloud.at("1.115", &[("X-Auth-Token", token)], method, &path, body).await;
    let mut wrong = Vec::new();
    let recorded = u16::try_from(row["expected_status"].as_u64().unwrap()).unwrap();
    let overruled = overruled(row);
    let wanted = overruled.map_or(recorded, |(status, _)| status);
    if answer.status != wanted {
        wrong.push(format!("{} instead of {wanted}: {}", answer.status, answer.body));
    } else if let (None, Some(text), 400..) = (overruled, row["faultstring"].as_str(), answer.status) {
        let wanted = text.replace(&format!("{{{name}}}"), node);
        // Long texts were cut when they were recorded.
        let said = answer.fault();
        if wanted.strip_suffix('…').map_or(said != wanted, |begin| !said.starts_with(begin)) {
            wrong.push(format!("{:?} instead of {wanted:?}", answer.fault()));
        }
    }
    if answer.status == 200 && row["visible"].is_array() {
        let mut names: Vec<_> = answer.json()["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        if names != texts(&row["visible"]) {
            wrong.push(format!("sees {names:?} instead of {}", row["visible"]));
        }
    }
    match &row["redacted"] {
        Value::Array(_) if redacted(&answer.json()) != texts(&row["redacted"]) => {
            wrong.push(format!("{:?} are redacted instead of {}", redacted(&answer.json()), row["redacted"]));
        }
        Value::Object(nodes) => {
            for node in answer.json()["nodes"].as_array().unwrap() {
                let name = node["name"].as_str().unwrap();
                let Some(wanted) = nodes.get(name) else { continue };
                if redacted(node) != texts(wanted) {
                    wrong.push(format!("{:?} of {name} are redacted instead of {wanted}", redacted(node)));
                }
            }
        }
        _ => {}
    }
    (answer.status, wrong)
}

/// Runs the measured rows of one configuration.
async fn run(cloud: &Cloud, rows: &[&Value]) -> (usize, Vec<String>) {
    let mut fleet = Fleet::new(cloud).await;
    let mut tokens: HashMap<String, String> = HashMap::new();
    let mut failed = Vec::new();
    for row in rows {
        let persona = row["persona"].as_str().unwrap();
        let token = tokens.entry(persona.to_owned()).or_insert_with(|| cloud.know(body(row))).clone();
        let (status, wrong) = judge(cloud, &fleet, &token, row).await;
        failed.extend(wrong.iter().map(|wrong| format!("{wrong}: {row}")));
        let changed = row["method"] != "GET" && (200..300).contains(&status);
        if let Some(name) = NODES.iter().find(|name| changed && row["node"] == **name) {
            fleet.again(name).await;
        }
    }
    (rows.len(), failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contract_rbac_matrix() {
    let data = data("rbac-matrix.json");
    let mut by_config: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for row in data["rows"].as_array().unwrap().iter().filter(|row| row["source"] == "measured") {
        by_config.entry(row["config"].to_string()).or_default().push(row);
    }
    let runs = by_config.iter().map(|(config, rows)| async move {
        let older = config.contains("enforce_new_defaults");
        let elevated = config.contains("rbac_service_role_elevated_access");
        assert!(older || elevated || config == "null", "an unknown configuration: {config}");
        let cloud = Cloud::configured(
            |_| {},
            |server| {
                server.policy.settings.enforce_new_defaults = !older;
                server.policy.authority.project_admin_is_system = older;
                server.policy.authority.elevated_service_project = elevated.then(|| "service".to_owned());
            },
        )
        .await;
        let (rows, wrong) = run(&cloud, rows).await;
        println!("{rows} rows with {config}, {} differ", wrong.len());
        cloud.lab.stop().await;
        (rows, wrong)
    });
    let (ran, failed): (Vec<_>, Vec<_>) = futures_util::future::join_all(runs).await.into_iter().unzip();
    let (ran, failed) = (ran.into_iter().sum::<usize>(), failed.concat());
    let why: BTreeMap<_, usize> = by_config.values().flatten().filter_map(|row| overruled(row)).fold(
        BTreeMap::new(),
        |mut counts, (_, why)| {
            *counts.entry(why).or_default() += 1;
            counts
        },
    );
    println!("{ran} rows; otherwise on purpose: {why:?}");
    assert!(ran > 2_000, "only {ran} rows");
    assert!(failed.is_empty(), "{} of {ran} rows differ:\n{}", failed.len(), failed.join("\n"));
}
