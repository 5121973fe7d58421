//! The file of users: `user:hash` lines, bcrypt only.
//!
//! Source: tests/data/policy/README.md section 6. The first line of a user counts, as in the reference.

use std::collections::HashMap;

use super::RESERVED_USERS;

/// Users and their hashes.
pub(crate) type Users = HashMap<String, String>;

/// The longest user name that fits `asserted_by`, in characters.
const USER_MAX: usize = 255;

/// Reads the text of the file.
///
/// # Errors
/// The number of the line, what is wrong with it, and the remedy; never the hash.
pub(crate) fn parse(text: &str) -> Result<Users, String> {
    let mut users = Users::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = i + 1;
        let Some((user, hash)) = line.split_once(':') else {
            return Err(format!("line {at} has no colon: write user:hash"));
        };
        if user.is_empty() || user.chars().count() > USER_MAX || user.chars().any(char::is_control) {
            return Err(format!("line {at}: a user name has 1 to {USER_MAX} printable characters"));
        }
        if RESERVED_USERS.iter().any(|reserved| reserved.eq_ignore_ascii_case(user)) {
            return Err(format!("line {at}: the service itself acts as '{user}', choose another name"));
        }
        if !is_bcrypt(hash) {
            return Err(format!(
                "line {at}: the hash of user '{}' is not bcrypt ($2y$, $2a$ or $2b$): make it with htpasswd -B",
                user.escape_debug()
            ));
        }
        users.entry(user.to_owned()).or_insert_with(|| hash.to_owned());
    }
    if users.is_empty() {
        return Err("the file has no users: add one with htpasswd -B".to_owned());
    }
    Ok(users)
}

fn is_bcrypt(hash: &str) -> bool {
    ["$2y$", "$2a$", "$2b$"].iter().any(|prefix| hash.starts_with(prefix))
        && hash.parse::<bcrypt::HashParts>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$04$kdKYI7VGFOlGTbqeMzwvVuRGNQ/k8RDmOX.zR5ISvNVn7X.Xn8tta";

    #[test]
    fn users() {
        let users =
            parse(&format!("# people\n\nadmin:{HASH}\n b:{HASH} \nadmin:{}\n", HASH.replace("$2y$", "$2b$")))
                .unwrap();
        assert_eq!(users.len(), 2);
        assert_eq!(users["admin"], HASH);
    }

    #[test]
    fn errors_name_the_line_and_no_hash() {
        for (text, part) in [
            (format!("a:{HASH}\nb"), "line 2 has no colon"),
            (format!("a:{HASH}\n\nb:{{SHA}}secret"), "line 3: the hash of user 'b' is not bcrypt"),
            ("a:$2y$04$short".to_owned(), "line 1: the hash"),
            (format!("a:{}", HASH.replace("$2y$", "$2x$")), "line 1: the hash"),
            (format!("conductor:{HASH}"), "the service itself acts as 'conductor'"),
            (format!("Migration:{HASH}"), "the service itself acts as"),
            (format!("noauth:{HASH}"), "the service itself acts as"),
            (format!(":{HASH}"), "line 1: a user name"),
            (format!("{}:{HASH}", "a".repeat(256)), "line 1: a user name"),
            ("".to_owned(), "the file has no users"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("kdKYI7") && !error.contains("secret"), "{error}");
        }
    }
}
