//! The access rules of application credentials: which requests a token is for.
//!
//! Whoever tells Keystone that it enforces them (`OpenStack-Identity-Access-Rules: 1.0`) must do it; see the Identity API
//! v3, "Application credentials".

use serde::Deserialize;

/// One request that a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AccessRule {
    /// The type of the service, as in Keystone's catalog.
    pub service: String,
    /// The method, in capitals.
    pub method: String,
    /// The path, in which `*` and `{name}` stand for one or more characters without a slash and `**` for any characters.
    pub path: String,
}

impl AccessRule {
    /// Whether a request to `service` is this rule's. `path` is what stands on the request line, without the query:
    /// it is not decoded, so a path in another spelling than the rule's is refused.
    #[must_use]
    pub fn allows(&self, service: &str, method: &str, path: &str) -> bool {
        self.service == service && self.method == method && path_matches(&self.path, path)
    }
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    Literal(char),
    /// One or more characters without a slash.
    WithinSegment,
    /// Any number of any characters.
    Anything,
}

/// `None` for a pattern with a brace that has no partner: nothing matches it.
fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        pieces.push(match c {
            '{' => {
                let (name, after) = rest.as_str().split_once('}')?;
                if name.contains('{') {
                    return None;
                }
                rest = after.chars();
                Piece::WithinSegment
            }
            '}' => return None,
            '*' if rest.as_str().starts_with('*') => {
                rest.next();
                Piece::Anything
            }
            '*' => Piece::WithinSegment,
            other => Piece::Literal(other),
        });
    }
    Some(pieces)
}

/// Follows all ways through the pattern at once: the time is the product of both lengths, whatever the pattern.
fn path_matches(pattern: &str, path: &str) -> bool {
    let Some(pieces) = pieces(pattern) else { return false };
    // at[i]: the path so far is matched by the first i pieces.
    let mut at = vec![false; pieces.len() + 1];
    at[0] = true;
    skip_anything(&pieces, &mut at);
    for c in path.chars() {
        let mut next = vec![false; pieces.len() + 1];
        for (i, piece) in pieces.iter().enumerate() {
            let after = match piece {
                Piece::Literal(wanted) => at[i] && c == *wanted,
                Piece::WithinSegment => (at[i] || at[i + 1]) && c != '/',
                Piece::Anything => at[i] || at[i + 1],
            };
            next[i + 1] = after;
        }
        at = next;
        skip_anything(&pieces, &mut at);
    }
    at[pieces.len()]
}

fn skip_anything(pieces: &[Piece], at: &mut [bool]) {
    for (i, piece) in pieces.iter().enumerate() {
        if matches!(piece, Piece::Anything) && at[i] {
            at[i + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(method: &str, path: &str) -> AccessRule {
        AccessRule { service: "baremetal".into(), method: method.into(), path: path.into() }
    }

    #[test]
    fn paths_are_matched() {
        for (pattern, path, matches) in [
            ("/v1/nodes", "/v1/nodes", true),
            ("/v1/nodes", "/v1/nodes/", false),
            ("/v1/nodes", "/v1/nodes/a", false),
            ("/v1/nodes", "/v1/node", false),
            ("/v1/nodes", "/V1/nodes", false),
            ("/v1/nodes/*", "/v1/nodes/a", true),
            ("/v1/nodes/*", "/v1/nodes/", false),
            ("/v1/nodes/*", "/v1/nodes/a/maintenance", false),
            ("/v1/nodes/*/maintenance", "/v1/nodes/a/maintenance", true),
            ("/v1/nodes/*/maintenance", "/v1/nodes/a/b/maintenance", false),
            ("/v1/nodes/{node}/maintenance", "/v1/nodes/a-1.b/maintenance", true),
            ("/v1/nodes/{node}/maintenance", "/v1/nodes//maintenance", false),
            ("/v1/nodes/**", "/v1/nodes/", true),
            ("/v1/nodes/**", "/v1/nodes/a/maintenance/b", true),
            ("/v1/nodes/**", "/v1/nodes", false),
            ("/v1/**/maintenance", "/v1/nodes/a/maintenance", true),
            ("/v1/**/maintenance", "/v1/nodes/a/maintenance/b", false),
            ("**", "/anything/at/all", true),
            ("**", "", true),
            ("*", "/", false),
            ("/v1/node*", "/v1/nodes", true),
            ("/v1/node*", "/v1/node", false),
            // A dot is a dot.
            ("/v1.0/nodes", "/v1x0/nodes", false),
            // Three stars: anything, then at least one character of a segment.
            ("/v1/***", "/v1/a/b", true),
            ("/v1/***", "/v1/a/", false),
            // Another spelling of the same path is another path.
            ("/v1/nodes", "/v1/node%73", false),
            ("/v1/nodes/*", "/v1/nodes/a%2Fmaintenance", true),
            ("", "", true),
            ("", "/", false),
            // Braces without a partner.
            ("/v1/{node", "/v1/{node", false),
            ("/v1/node}", "/v1/node}", false),
            ("/v1/{a{b}}", "/v1/x", false),
        ] {
            assert_eq!(path_matches(pattern, path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn method_and_service_are_equal_or_it_is_another_request() {
        let get = rule("GET", "/v1/nodes");
        assert!(get.allows("baremetal", "GET", "/v1/nodes"));
        assert!(!get.allows("baremetal", "get", "/v1/nodes"));
        assert!(!get.allows("baremetal", "HEAD", "/v1/nodes"));
        assert!(!get.allows("compute", "GET", "/v1/nodes"));
        assert!(!get.allows("Baremetal", "GET", "/v1/nodes"));
    }

    #[test]
    fn a_hostile_pattern_costs_the_product_of_the_lengths() {
        let pattern = "**a".repeat(300);
        assert!(!path_matches(&pattern, &"a".repeat(299)));
        assert!(path_matches(&pattern, &"a".repeat(2_000)));
    }
}
