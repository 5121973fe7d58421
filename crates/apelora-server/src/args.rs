//! Arguments of a request: query, form and JSON members, merged and typed as the reference does.
//!
//! Source: tests/data/ironic/README.md sections 1.5, 3.5, 4.1.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::{ident, python};

/// Arguments by name, in the order in which they came. One that came twice is a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Args(Map<String, Value>);

impl Args {
    /// The arguments of a query, or of a form.
    pub(crate) fn parse(query: &str) -> Self {
        let mut args = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            args.add(name.into_owned(), Value::String(value.into_owned()));
        }
        args
    }

    /// Adds arguments; what is already there becomes a list.
    pub(crate) fn merge(&mut self, others: impl IntoIterator<Item = (String, Value)>) {
        for (name, value) in others {
            self.add(name, value);
        }
    }

    fn add(&mut self, name: String, value: Value) {
        match self.0.remove(&name) {
            None => self.0.insert(name, value),
            Some(Value::Array(mut values)) if values.len() > 1 => {
                values.push(value);
                self.0.insert(name, Value::Array(values))
            }
            Some(first) => self.0.insert(name, Value::Array(vec![first, value])),
        };
    }

    /// Refuses every argument that is not one of these.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        let unknown: Vec<_> = self.0.keys().map(String::as_str).filter(|k| !known.contains(k)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(ApiError::bad_request(format!("Unexpected arguments: {}", unknown.join(", "))))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|v| !v.is_null())
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => storable(name, text).map(Some),
            Some(other) => Err(expected("string", name, other)),
        }
    }

    /// A text, which must be there.
    pub(crate) fn mandatory_text(&self, name: &str) -> Result<&str, ApiError> {
        match self.0.get(name) {
            None => Err(ApiError::bad_request(format!("Missing mandatory parameter: {name}"))),
            Some(Value::String(text)) => storable(name, text),
            Some(other) => Err(expected("string", name, other)),
        }
    }

    /// A uuid in the form that the database has.
    pub(crate) fn uuid(&self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_str() {
            Some(text) if ident::is_uuid_like(text) => {
                Ok(Some(ident::canonical_uuid(text).unwrap_or_else(|| text.to_owned())))
            }
            _ => Err(expected("UUID", name, value)),
        }
    }

    /// A truth value.
    pub(crate) fn bool(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.get(name).map(|value| boolean(name, value)).transpose()
    }

    /// The length of a page: at least 1, and cut at `max` without a word.
    pub(crate) fn limit(&self, max: u32) -> Result<u32, ApiError> {
        let Some(value) = self.get("limit") else { return Ok(max) };
        let digits = match value {
            Value::String(text) => python::integer(text),
            _ => None,
        };
        let digits = digits.ok_or_else(|| expected("an integer", "limit", value))?;
        if digits.starts_with('-') || digits == "0" {
            return Err(ApiError::bad_request("Limit must be positive"));
        }
        Ok(digits.parse().unwrap_or(max).min(max))
    }

    /// A place in a list that is ordered by the numbers of its rows.
    pub(crate) fn seq(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let seq = text.parse().map_err(|_| expected("the seq of a row", name, &text.into()))?;
        Ok(Some(seq))
    }

    /// The address of the page behind the row of this number: these arguments with another marker.
    pub(crate) fn next(&self, base: &str, path: &str, last: i64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let texts = self.0.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
        for (name, value) in texts.filter(|(name, _)| *name != "marker") {
            query.append_pair(name, value);
        }
        format!("{base}{path}?{}", query.append_pair("marker", &last.to_string()).finish())
    }

    /// Names separated by commas, in lower case, each once; the argument may be repeated.
    pub(crate) fn names(&self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        let texts: Vec<&str> = match self.get(name) {
            None => return Ok(None),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(other) => return Err(expected("comma-separated list", name, other)),
        };
        let mut names: Vec<String> = Vec::new();
        for item in texts.iter().flat_map(|t| t.split(',')).map(|t| t.trim().to_lowercase()) {
            if !item.is_empty() && !names.contains(&item) {
                names.push(item);
            }
        }
        Ok(Some(names))
    }
}

/// The spellings of truth values.
const FALSE: [&str; 6] = ["0", "f", "false", "n", "no", "off"];
const TRUE: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];

/// A truth value, or one of the words for one, in any case.
pub(crate) fn boolean(name: &str, value: &Value) -> Result<bool, ApiError> {
    if let Value::Bool(value) = value {
        return Ok(*value);
    }
    let text = python::display(value);
    let word = text.trim().to_lowercase();
    match (TRUE.contains(&word.as_str()), FALSE.contains(&word.as_str())) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => {
            let words: Vec<_> = FALSE.iter().chain(&TRUE).map(|w| python::repr_text(w)).collect();
            Err(ApiError::bad_request(format!(
                "Invalid {name}: Unrecognized value {}, acceptable values are: {}",
                python::repr_text(&text),
                in_order(words).join(", ")
            )))
        }
    }
}

fn in_order(mut words: Vec<String>) -> Vec<String> {
    words.sort();
    words
}

/// The text, unless it is one that not every database can be asked for.
fn storable<'a>(name: &str, text: &'a str) -> Result<&'a str, ApiError> {
    if text.contains('\0') {
        return Err(ApiError::bad_request(format!(
            "The {name} must not contain the character U+0000. Remove it"
        )));
    }
    Ok(text)
}

/// 400: a value of another type.
pub(crate) fn expected(what: &str, name: &str, value: &Value) -> ApiError {
    ApiError::bad_request(format!("Expected {what} for {name}: {}", python::display(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text_of(error: ApiError) -> String {
        match error {
            ApiError::Resource(refusal) => refusal.text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn repeated_arguments_are_a_list() {
        let mut args = Args::parse("reason=viaquery");
        args.merge([("reason".to_owned(), json!("viabody"))]);
        assert_eq!(
            text_of(args.text("reason").unwrap_err()),
            "Expected string for reason: ['viaquery', 'viabody']"
        );
        assert_eq!(Args::parse("a=1&a=2&a=3").get("a"), Some(&json!(["1", "2", "3"])));
    }

    #[test]
    fn unknown_arguments() {
        assert_eq!(
            text_of(Args::parse("bogus=1&limit=2").only(&["limit"]).unwrap_err()),
            "Unexpected arguments: bogus"
        );
        assert!(Args::parse("limit=2").only(&["limit"]).is_ok());
    }

    #[test]
    fn booleans() {
        assert_eq!(Args::parse("maintenance=Yes").bool("maintenance"), Ok(Some(true)));
        assert_eq!(Args::parse("").bool("maintenance"), Ok(None));
        assert_eq!(
            text_of(Args::parse("maintenance=maybe").bool("maintenance").unwrap_err()),
            "Invalid maintenance: Unrecognized value 'maybe', acceptable values are: '0', '1', 'f', 'false', 'n', \
             'no', 'off', 'on', 't', 'true', 'y', 'yes'"
        );
        assert!(Args::parse("maintenance=").bool("maintenance").is_err());
    }

    #[test]
    fn limits() {
        for (query, limit) in
            [("", 1_000), ("limit=3", 3), ("limit=100000", 1_000), ("limit=99999999999999", 1_000)]
        {
            assert_eq!(Args::parse(query).limit(1_000), Ok(limit), "{query}");
        }
        for query in ["limit=0", "limit=-5"] {
            assert_eq!(text_of(Args::parse(query).limit(1_000).unwrap_err()), "Limit must be positive");
        }
        assert_eq!(text_of(Args::parse("limit=x").limit(9).unwrap_err()), "Expected an integer for limit: x");
    }

    #[test]
    fn names_and_uuids() {
        assert_eq!(
            Args::parse("fields=UUID,name&fields=name").names("fields"),
            Ok(Some(vec!["uuid".into(), "name".into()]))
        );
        assert_eq!(Args::parse("fields=").names("fields"), Ok(Some(vec![])));
        assert_eq!(
            text_of(Args::parse("marker=node1").uuid("marker").unwrap_err()),
            "Expected UUID for marker: node1"
        );
    }
}
