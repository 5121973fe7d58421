//! The audit trail, page by page. Source: the document at `/openapi.json`.

use apelora_http::Method;
use apelora_http::header::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::{Call, Query, decode};
use crate::cluster::lacks;
use crate::{Client, ClientError};

const LINK: HeaderName = HeaderName::from_static("link");
const PATH: &str = "/apelora/v1/audit";
/// Rows on the largest page.
const PAGE_MAX: u32 = 1_000;

/// Which rows; conditions that are given all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// About this cluster member.
    pub member: Option<String>,
    /// About this node, by uuid or by the name that it had.
    pub node: Option<String>,
    /// Of this action, such as `cluster.member.power_off`.
    pub action: Option<String>,
    /// Of this outcome: `success`, `failed` or `refused`.
    pub outcome: Option<String>,
    /// Done by this user.
    pub actor: Option<String>,
    /// Of this time or later: ISO 8601.
    pub from: Option<String>,
    /// Before this time.
    pub until: Option<String>,
    /// From the newest row to the oldest; the other way round otherwise.
    pub newest_first: bool,
}

/// How the server is to write a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditForm {
    /// One JSON object on each line.
    Lines,
    /// CSV with a line of headings.
    Csv,
}

/// A row of the trail.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct AuditRow {
    /// Its place in the trail.
    pub seq: i64,
    /// Its id.
    pub uuid: String,
    /// When, as the server writes it: ISO 8601 with offset.
    pub at: String,
    /// Who.
    pub user: String,
    /// That user's project.
    pub project: String,
    /// The rank with which that user acted.
    pub scope: String,
    /// The epoch of the worker that did it.
    pub epoch: Option<i64>,
    /// What was done.
    pub action: String,
    /// How it ended.
    pub outcome: String,
    /// Why, as a stable word.
    pub reason_code: Option<String>,
    /// The node's uuid.
    pub node_uuid: Option<String>,
    /// The node's name at that time.
    pub node_name: Option<String>,
    /// The cluster member.
    pub member: Option<String>,
    /// The hardware's own uuid.
    pub hardware_uuid: Option<String>,
    /// One sentence.
    pub summary: String,
    /// Everything about it.
    pub evidence: Option<Value>,
}

/// Where a page of the trail begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditPosition(Option<String>);

/// A page of rows, and where the next one begins, where more may follow.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditPage<T> {
    /// The rows.
    pub rows: T,
    /// The next page.
    pub next: Option<AuditPosition>,
}

impl Client {
    /// At most `limit` rows from a position on.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Lacks`] when the server does not show its trail.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        from: &AuditPosition,
        limit: Option<u32>,
    ) -> Result<AuditPage<Vec<AuditRow>>, ClientError> {
        #[derive(Deserialize)]
        struct Body {
            audit: Vec<AuditRow>,
            next: Option<String>,
        }
        let Body { audit, next } = decode(&self.page(filter, from, limit, None).await?)?;
        let last = audit.last().map(|row| row.seq.to_string()).filter(|_| next.is_some());
        let next = last.map(|last| AuditPosition(Some(last))).filter(|next| next != from);
        Ok(AuditPage { rows: audit, next })
    }

    /// The same as text, as the server writes it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn audit_text(
        &self,
        filter: &AuditFilter,
        form: AuditForm,
        from: &AuditPosition,
        limit: Option<u32>,
    ) -> Result<AuditPage<String>, ClientError> {
        let form = match form {
            AuditForm::Lines => "jsonl",
            AuditForm::Csv => "csv",
        };
        let answer = self.page(filter, from, limit, Some(form)).await?;
        let next = next_marker(&answer.headers).map(|marker| AuditPosition(Some(marker)));
        let rows = String::from_utf8(answer.body.to_vec())
            .map_err(|_| ClientError::Answer("text that is not UTF-8".to_owned()))?;
        Ok(AuditPage { rows, next: next.filter(|next| next != from) })
    }

    async fn page(
        &self,
        filter: &AuditFilter,
        from: &AuditPosition,
        limit: Option<u32>,
        form: Option<&str>,
    ) -> Result<apelora_http::Answer, ClientError> {
        let mut query = Query::default();
        let limit = limit.unwrap_or(PAGE_MAX).min(PAGE_MAX).to_string();
        for (name, value) in [
            ("member", filter.member.as_deref()),
            ("node", filter.node.as_deref()),
            ("action", filter.action.as_deref()),
            ("outcome", filter.outcome.as_deref()),
            ("actor", filter.actor.as_deref()),
            ("from", filter.from.as_deref()),
            ("until", filter.until.as_deref()),
            ("sort_dir", filter.newest_first.then_some("desc")),
            ("marker", from.0.as_deref()),
            ("limit", Some(limit.as_str())),
            ("format", form),
        ] {
            if let Some(value) = value {
                query.push(name, value);
            }
        }
        let call = Call::new(Method::Get, format!("{PATH}{}", query.text()));
        self.call(&call).await.map_err(|why| lacks(why, "an audit trail to be read"))
    }
}

/// The marker of the next page, out of the header that names it.
fn next_marker(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(LINK)?.to_str().ok()?;
    let address = link.strip_prefix('<')?.split_once(">; rel=\"next\"")?.0;
    let query = address.split_once('?')?.1;
    let marker = query.split('&').find_map(|part| part.strip_prefix("marker="))?;
    marker.bytes().all(|b| b.is_ascii_digit()).then(|| marker.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_in_its_header() {
        let of = |link: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LINK, link.parse().unwrap());
            next_marker(&headers)
        };
        assert_eq!(of("<http://h/apelora/v1/audit?limit=2&marker=17>; rel=\"next\""), Some("17".to_owned()));
        for other in [
            "<http://h/apelora/v1/audit?marker=17>; rel=\"prev\"",
            "<http://h/apelora/v1/audit?limit=2>; rel=\"next\"",
            "<http://h/x?marker=a%20b>; rel=\"next\"",
            "http://h/x?marker=1",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(next_marker(&HeaderMap::new()), None);
    }
}
