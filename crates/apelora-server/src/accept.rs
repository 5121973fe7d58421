//! What a client accepts, as far as it changes an answer.
//!
//! Every body is JSON, and a page of the audit trail also something else. A request for another type is refused (406), and the text of a router's error then comes as HTML
//! or plain text inside that JSON. Source: tests/data/ironic/README.md section 1.3.

use http::{HeaderMap, header::ACCEPT};

/// What the `Accept` headers of a request say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accept {
    text: String,
    ranges: Option<Vec<Range>>,
}

/// In which form the text of a router's error stands inside `error_message`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorText {
    Json,
    Html,
    Plain,
}

/// A media range and its weight in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    main: String,
    sub: String,
    weight: u16,
}

impl Accept {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values: Vec<_> =
            headers.get_all(ACCEPT).iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
        let text = values.join(", ");
        let ranges = parse(&text);
        Self { text, ranges }
    }

    /// Whether JSON may be sent. A missing header and one that cannot be read accept everything.
    pub(crate) fn json(&self) -> bool {
        self.weight("application", "json") > 0
    }

    /// How much the client wants this type, in thousandths; 0 is not at all.
    pub(crate) fn weight(&self, main: &str, sub: &str) -> u16 {
        self.ranges.as_ref().map_or(1_000, |ranges| weight(ranges, main, sub))
    }

    /// The header as it came.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn error_text(&self) -> ErrorText {
        if self.text.trim().is_empty() {
            return ErrorText::Json;
        }
        let Some(ranges) = &self.ranges else { return ErrorText::Html };
        let json = weight(ranges, "application", "json");
        // Only a client that asks for a text by name gets one; `*/*` is a program.
        let html = ranges.iter().filter(|r| r.main == "text" && (r.sub == "html" || r.sub == "*"));
        match html.map(|r| r.weight).max() {
            Some(html) if html > 0 && html >= json => ErrorText::Html,
            _ if json > 0 => ErrorText::Json,
            _ => ErrorText::Plain,
        }
    }
}

/// The weight that the most specific matching range gives to a type.
fn weight(ranges: &[Range], main: &str, sub: &str) -> u16 {
    let specific = |r: &&Range| (r.main != "*", r.sub != "*");
    ranges
        .iter()
        .filter(|r| (r.main == main || r.main == "*") && (r.sub == sub || r.sub == "*"))
        .max_by_key(specific)
        .map_or(0, |r| r.weight)
}

/// The media ranges of the header; `None` when there is none, or when one of them cannot be read.
fn parse(text: &str) -> Option<Vec<Range>> {
    let elements = text.split(',').map(str::trim).filter(|e| !e.is_empty());
    let ranges = elements.map(parse_range).collect::<Option<Vec<_>>>()?;
    (!ranges.is_empty()).then_some(ranges)
}

fn parse_range(element: &str) -> Option<Range> {
    let mut parts = element.split(';').map(str::trim);
    let (main, sub) = parts.next()?.split_once('/')?;
    let token = |t: &str| {
        !t.is_empty() && t.bytes().all(|b| b.is_ascii_graphic() && !b"/\"(),;<=>?@[\\]{}".contains(&b))
    };
    if !token(main) || !token(sub) || (main == "*" && sub != "*") {
        return None;
    }
    let mut weight = 1_000;
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("q") {
            let value: f32 = value.trim().parse().ok()?;
            if !(0.0..=1.0).contains(&value) {
                return None;
            }
            // Between 0 and 1000.
            weight = (value * 1_000.0).round() as u16;
        }
    }
    Some(Range { main: main.to_ascii_lowercase(), sub: sub.to_ascii_lowercase(), weight })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accept(text: &str) -> Accept {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(text).unwrap());
        Accept::of(&headers)
    }

    #[test]
    fn json_is_accepted_unless_ruled_out() {
        assert!(Accept::of(&HeaderMap::new()).json());
        for text in [
            "*/*",
            "application/json",
            "application/*",
            "garbage",
            "",
            "text/html, application/json",
            "a/b;q=x",
        ] {
            assert!(accept(text).json(), "{text}");
        }
        for text in [
            "text/html",
            "text/plain",
            "application/xml",
            "application/vnd.openstack.ironic.v1+json",
            "*/*;q=0",
        ] {
            assert!(!accept(text).json(), "{text}");
        }
    }

    #[test]
    fn the_form_of_error_texts() {
        for (text, form) in [
            ("", ErrorText::Json),
            ("*/*", ErrorText::Json),
            ("application/*", ErrorText::Json),
            ("garbage", ErrorText::Html),
            ("text/html", ErrorText::Html),
            ("text/html, application/json", ErrorText::Html),
            ("text/html;q=0.1, application/json", ErrorText::Json),
            ("text/plain", ErrorText::Plain),
            ("application/xml", ErrorText::Plain),
        ] {
            assert_eq!(accept(text).error_text(), form, "{text}");
        }
    }
}
