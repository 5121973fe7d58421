//! Who made a system. Shown to people, decides nothing.

use serde::Deserialize;

/// What `Manufacturer` begins with, in lower case, and the name that is shown. Only these are repeated: what a BMC writes
/// there is its own affair.
const KNOWN: [(&str, &str); 24] = [
    ("ami", "AMI"),
    ("asrock", "ASRock Rack"),
    ("asus", "ASUS"),
    ("cisco", "Cisco"),
    ("cray", "HPE Cray"),
    ("dell", "Dell"),
    ("foxconn", "Foxconn"),
    ("fujitsu", "Fujitsu"),
    ("fsas", "Fsas"),
    ("giga", "Gigabyte"),
    ("h3c", "H3C"),
    ("hewlett", "HPE"),
    ("hpe", "HPE"),
    ("huawei", "Huawei"),
    ("ibm", "IBM"),
    ("ieit", "IEIT"),
    ("inspur", "Inspur"),
    ("intel", "Intel"),
    ("lenovo", "Lenovo"),
    ("nvidia", "NVIDIA"),
    ("quanta", "Quanta"),
    ("super micro", "Supermicro"),
    ("supermicro", "Supermicro"),
    ("wiwynn", "Wiwynn"),
];

#[derive(Deserialize)]
struct Made {
    #[serde(rename = "Manufacturer")]
    by: Option<String>,
}

/// The maker in the body of a computer system. Whatever is odd about it is no maker, and no error.
pub(crate) fn of(body: &[u8]) -> Option<&'static str> {
    let by = serde_json::from_slice::<Made>(body).ok()?.by?.trim_start().to_ascii_lowercase();
    KNOWN.into_iter().find(|(begin, _)| by.starts_with(begin)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_makers_are_repeated() {
        for (body, expected) in [
            (r#"{"Manufacturer": "Dell Inc."}"#, Some("Dell")),
            (r#"{"Manufacturer": " HPE"}"#, Some("HPE")),
            (r#"{"Manufacturer": "SUPERMICRO"}"#, Some("Supermicro")),
            (r#"{"Manufacturer": "Cray Inc"}"#, Some("HPE Cray")),
            (r#"{"Manufacturer": "Basic YXBlbG9yYTpzZWNyZXQ="}"#, None),
            (r#"{"Manufacturer": ["Dell"]}"#, None),
            (r#"{"Manufacturer": "Dell", "Manufacturer": "HPE"}"#, None),
            (r#"{"Manufacturer": null}"#, None),
            ("{}", None),
            ("[", None),
        ] {
            assert_eq!(of(body.as_bytes()), expected, "{body}");
        }
    }
}
