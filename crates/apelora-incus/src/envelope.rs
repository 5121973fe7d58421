//! The form of every answer (section 1 of the contract).

use apelora_http::Answer;
use apelora_http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Problem, Refusal, shown};
use crate::operation::OperationId;
use crate::strict::Object;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: String,
    operation: String,
    error_code: u64,
    error: String,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// What an answer is.
pub(crate) enum Content<T> {
    /// `sync`: the answer itself.
    Sync(T),
    /// `async`: it is going on.
    Async(OperationId),
}

/// Reads an answer. With `any_status` the HTTP status is not looked at.
pub(crate) fn read<T: DeserializeOwned>(answer: &Answer, any_status: bool) -> Result<Content<T>, Problem> {
    let status = answer.status;
    if (300..400).contains(&status) {
        return Err(Problem::Redirect(status));
    }
    is_json(answer)?;
    let Object(envelope) = parse::<Object<Envelope<'_>>>(&answer.body, "")?;
    match envelope.kind.as_str() {
        "error" => Err(refused(envelope)),
        "sync" | "async" if !any_status && !(200..300).contains(&status) => {
            Err(wrong("status", format!("{status} does not go with an answer of type {}", envelope.kind)))
        }
        "sync" => parse(envelope.metadata.get().as_bytes(), "metadata").map(Content::Sync),
        "async" => OperationId::parse(&envelope.operation)
            .map(Content::Async)
            .ok_or_else(|| wrong("operation", format!("`{}` is no operation", shown(&envelope.operation)))),
        other => Err(wrong("type", format!("`{}` is not sync, async or error", shown(other)))),
    }
}

fn refused(envelope: Envelope<'_>) -> Problem {
    let Envelope { error_code: code, error, .. } = envelope;
    if code < 400 {
        return wrong("error_code", format!("{code} is the code of no error"));
    }
    Problem::Refused { kind: Refusal::of(code, &error), code, text: shown(&error) }
}

/// Incus says on every answer that it is JSON. What does not is the page of something else, perhaps with JSON in it
/// that was never meant as an answer.
fn is_json(answer: &Answer) -> Result<(), Problem> {
    let kind = answer.headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let essence = kind.as_deref().and_then(|kind| kind.split(';').next()).map(str::trim);
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        other => Err(wrong(
            "content-type",
            format!("{} with status {} is not JSON", shown(other.unwrap_or("nothing")), answer.status),
        )),
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], inside: &str) -> Result<T, Problem> {
    let body = || if inside.is_empty() { "body".to_owned() } else { inside.to_owned() };
    let text = std::str::from_utf8(json).map_err(|why| wrong(&body(), why.to_string()))?;
    let mut from = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut from).map_err(|why| {
        let path = why.path().to_string();
        // A question mark stands for what the parser had no name for.
        let path = path.trim_end_matches('?').trim_end_matches('.');
        let field = match inside {
            _ if path.is_empty() => body(),
            "" => path.to_owned(),
            inside if path.starts_with('[') => format!("{inside}{path}"),
            inside => format!("{inside}.{path}"),
        };
        wrong(&field, without_place(&why.into_inner()))
    })?;
    from.end().map_err(|why| wrong(&body(), without_place(&why)))?;
    Ok(value)
}

/// The parser's word without line and column, which mean nothing to who does not see the text.
fn without_place(why: &serde_json::Error) -> String {
    let text = why.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}

pub(crate) fn wrong(field: &str, why: impl AsRef<str>) -> Problem {
    Problem::NotUnderstood { field: shown(field), why: shown(why.as_ref()) }
}
