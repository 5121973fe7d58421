//! The forms in which a secret could stand somewhere.

use std::collections::BTreeSet;

/// A secret in every form in which it could stand in a text; to be looked for without regard to case.
pub(crate) fn forms(secret: &str, user: &str) -> BTreeSet<String> {
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let quoted = serde_json::to_string(secret).unwrap();
    let mut forms: BTreeSet<String> = [
        secret.to_owned(),
        hex(secret),
        hex(secret)
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap())
            .collect::<Vec<_>>()
            .join(":"),
        hex(secret)
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap())
            .collect::<Vec<_>>()
            .join(" "),
        percent(secret),
        secret.escape_debug().to_string(),
        quoted.trim_matches('"').to_owned(),
        quoted.escape_debug().to_string().trim_matches(['"', '\\']).to_owned(),
        format!("{:?}", secret.as_bytes()).trim_matches(['[', ']']).to_owned(),
        secret.chars().rev().collect(),
    ]
    .into_iter()
    .collect();
    // Wherever it begins in what is encoded, and whatever comes after it.
    for before in ["", "x", "xx", &format!("{user}:")] {
        forms.insert(core_of_base64(before, secret));
    }
    forms
}

fn percent(text: &str) -> String {
    let byte =
        |b: u8| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") };
    text.bytes().map(byte).collect()
}

/// The part of the encoded text that depends on the secret alone.
fn core_of_base64(before: &str, secret: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let all = [before.as_bytes(), secret.as_bytes()].concat();
    let bit = |at: usize| all[at / 8] >> (7 - at % 8) & 1;
    let first = (before.len() * 8).div_ceil(6);
    let last = all.len() * 8 / 6;
    (first..last)
        .map(|letter| (0..6).fold(0, |value, at| value << 1 | bit(letter * 6 + at)))
        .map(|value| char::from(LETTERS[usize::from(value)]))
        .collect()
}

/// Where a text holds one of the secrets, with a little around it.
pub(crate) fn leaks(text: &str, secrets: &[(String, String)]) -> Vec<String> {
    let plain = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for (name, secret) in secrets {
        for form in forms(secret, "apelora") {
            let form = form.to_ascii_lowercase();
            // Base64 for addresses, too.
            for form in BTreeSet::from([form.replace('+', "-").replace('/', "_"), form]) {
                if let Some(at) = plain.find(&form) {
                    let from = text.floor_char_boundary(at.saturating_sub(200));
                    let to = text.ceil_char_boundary((at + form.len() + 100).min(text.len()));
                    found.push(format!("{name} as {form} in …{}…", &text[from..to]));
                }
            }
        }
    }
    found
}

#[test]
fn each_form_of_a_secret_is_found() {
    let secrets = [("S".to_owned(), "Zq7/+%\"s=Kd".to_owned())];
    for planted in [
        "the password is Zq7/+%\"s=Kd, is it not",
        "5a71372f2b2522733d4b64",
        "5A71372F2B2522733D4B64",
        "5A:71:37:2F:2B:25:22:73:3D:4B:64",
        "Authorization: Basic YXBlbG9yYTpacTcvKyUicz1LZA==",
        "WnE3LyslInM9S2Q",
        "/x?password=Zq7%2f%2b%25%22s%3dKd",
        r#"{"password": "Zq7/+%\"s=Kd"}"#,
        "[90, 113, 55, 47, 43, 37, 34, 115, 61, 75, 100]",
        "dK=s\"%+/7qZ",
    ] {
        assert!(!leaks(planted, &secrets).is_empty(), "{planted}");
    }
    assert_eq!(leaks("APELORA_BMC_SECRET_S1 is set", &secrets), Vec::<String>::new());
}
