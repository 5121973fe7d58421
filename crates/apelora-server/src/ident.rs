//! How a node is named in a path: by uuid or by logical name.
//!
//! Source: tests/data/ironic/README.md section 2.

use crate::Microversion;

/// Words of the path grammar that no node may be called.
pub(crate) const RESERVED: [&str; 6] =
    ["maintenance", "management", "states", "vendor_passthru", "detail", "validate"];

/// From this version on nodes have names.
const NAMES_SINCE: Microversion = Microversion::new(5);
/// From this version on a name is any text of unreserved characters instead of a host name.
const FREE_NAMES_SINCE: Microversion = Microversion::new(10);
const NAME_MAX: usize = 255;

/// A uuid in any spelling that the reference takes for one, as it stands in the database: lower case with dashes.
/// Spellings without dashes, in braces or as a URN are of that syntax too, but name nothing.
pub(crate) fn canonical_uuid(text: &str) -> Option<String> {
    let ok = text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        });
    ok.then(|| text.to_ascii_lowercase())
}

/// Whether the reference takes the text for a uuid: 32 hexadecimal digits, once dashes, braces and a URN's prefix are
/// gone.
pub(crate) fn is_uuid_like(text: &str) -> bool {
    let bare = text.replace("urn:", "").replace("uuid:", "");
    let bare = bare.trim_matches(['{', '}']).replace('-', "");
    bare.len() == 32 && bare.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether nodes may be called so at this version.
pub(crate) fn is_valid_name(name: &str, version: Microversion) -> bool {
    !is_uuid_like(name) && if version < FREE_NAMES_SINCE { is_host_name(name) } else { is_unreserved(name) }
}

/// Whether nodes have names at this version.
pub(crate) fn names_exist(version: Microversion) -> bool {
    version >= NAMES_SINCE
}

/// Whether the text may stand as an ident in a path at all.
pub(crate) fn is_path_ident(ident: &str) -> bool {
    is_uuid_like(ident) || is_unreserved(ident)
}

/// RFC 3986 section 2.3, at most 255 characters.
fn is_unreserved(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
}

/// RFC 1123 section 2.1: labels of letters, digits and inner dashes.
fn is_host_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.trim_end_matches('.').split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let uuid = "00000001-0000-4000-8000-0000000000AB";
        assert_eq!(canonical_uuid(uuid).as_deref(), Some("00000001-0000-4000-8000-0000000000ab"));
        for text in ["00000001000040008000000000000001", "{00000001-0000-4000-8000-000000000001}", "", "x"] {
            assert_eq!(canonical_uuid(text), None);
        }
        for text in [uuid, "00000001000040008000000000000001", "{00000001-0000-4000-8000-000000000001}"] {
            assert!(is_uuid_like(text) && is_path_ident(text), "{text}");
        }
        assert!(!is_uuid_like("0000000100004000800000000000000g"));
    }

    #[test]
    fn names() {
        let (old, new) = (Microversion::new(9), Microversion::new(10));
        for name in ["n1", "x.y", "a-b", "0"] {
            assert!(is_valid_name(name, old) && is_valid_name(name, new), "{name}");
        }
        for name in ["q_1", "-x", "x~"] {
            assert!(!is_valid_name(name, old) && is_valid_name(name, new), "{name}");
        }
        for name in ["", "a b", "a/b", "\u{e9}", "00000009-0000-4000-8000-000000000009", &"a".repeat(256)] {
            assert!(!is_valid_name(name, old) && !is_valid_name(name, new), "{name}");
        }
        assert!(is_valid_name(&"a".repeat(255), new));
    }
}
