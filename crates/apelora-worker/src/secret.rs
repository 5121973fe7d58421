//! Where BMC passwords come from: a source that is asked at the moment of use, by the name that the BMC map has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use apelora_fencing::map::SecretName;
use secrecy::SecretString;
use zeroize::{Zeroize as _, Zeroizing};

/// What every name of a secret begins with; the map accepts no other.
pub const SECRET_PREFIX: &str = "APELORA_BMC_SECRET_";

/// More than this is no password but a mistake, in bytes.
const MOST: usize = 4096;

/// Gives secrets out by name. Whoever asks uses the answer at once and keeps it no longer than its conversation.
pub trait SecretSource: Send + Sync {
    /// The secret of this name.
    ///
    /// # Errors
    /// It is missing, empty or unusable. The error never contains a value.
    fn reveal(&self, name: &SecretName) -> Result<SecretString, SecretError>;
}

/// A secret cannot be used. Its name is public, its value is not here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}, which the BMC map names, {problem}: {}", .problem.remedy())]
pub struct SecretError {
    /// The name of the variable.
    pub name: String,
    /// What is wrong with it.
    pub problem: SecretProblem,
}

/// What is wrong with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretProblem {
    /// There is none of this name.
    Missing,
    /// It has no characters, and an empty password is never tried.
    Empty,
    /// It is not UTF-8, or has a NUL byte.
    NotText,
    /// It is longer than 4096 bytes.
    TooLong,
}

impl SecretProblem {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Missing => "set it in the worker's environment and restart the worker",
            Self::Empty => "set it to the account's password and restart the worker",
            Self::NotText => "set it to text in UTF-8 and restart the worker",
            Self::TooLong => "set it to the account's password alone and restart the worker",
        }
    }
}

impl fmt::Display for SecretProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is not set",
            Self::Empty => "is empty",
            Self::NotText => "is not text in UTF-8",
            Self::TooLong => "is longer than 4096 bytes",
        })
    }
}

type Lookup = Box<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// The worker's environment. Names that do not begin with [`SECRET_PREFIX`] do not exist for it.
pub struct EnvironmentSecrets(Source);

enum Source {
    Pairs(BTreeMap<String, Result<SecretString, SecretProblem>>),
    Lookup(Lookup),
}

impl EnvironmentSecrets {
    /// A source with these variables; those that are no BMC secrets are left out. What is kept is zeroed at the end.
    pub fn new<N: Into<OsString>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let pairs = pairs.into_iter().filter_map(|(name, value)| {
            let name = name.into().into_string().ok().filter(|name| name.starts_with(SECRET_PREFIX))?;
            Some((name, usable(value.into())))
        });
        Self(Source::Pairs(pairs.collect()))
    }

    /// A source that keeps nothing and asks `lookup` each time: what a process does whose environment may be read.
    pub fn looked_up(lookup: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static) -> Self {
        Self(Source::Lookup(Box::new(lookup)))
    }
}

impl SecretSource for EnvironmentSecrets {
    fn reveal(&self, name: &SecretName) -> Result<SecretString, SecretError> {
        let asked = name.as_str();
        let found = match &self.0 {
            _ if !asked.starts_with(SECRET_PREFIX) => None,
            Source::Pairs(pairs) => pairs.get(asked).cloned(),
            Source::Lookup(lookup) => lookup(asked).map(usable),
        };
        found
            .unwrap_or(Err(SecretProblem::Missing))
            .map_err(|problem| SecretError { name: asked.to_owned(), problem })
    }
}

impl fmt::Debug for EnvironmentSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvironmentSecrets(..)")
    }
}

fn usable(value: OsString) -> Result<SecretString, SecretProblem> {
    match value.into_string() {
        Err(value) => {
            value.into_encoded_bytes().zeroize();
            Err(SecretProblem::NotText)
        }
        Ok(text) => {
            let text = Zeroizing::new(text);
            match text.len() {
                0 => Err(SecretProblem::Empty),
                _ if text.contains('\0') => Err(SecretProblem::NotText),
                1..=MOST => Ok(SecretString::from(text.as_str())),
                _ => Err(SecretProblem::TooLong),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use apelora_fencing::map::{Access, BmcMap};
    use secrecy::ExposeSecret as _;

    use super::*;

    const VALUE: &str = "hunter2-marker";

    /// A name as the map gives it: there is no other way to one.
    fn name(text: &str) -> SecretName {
        let map = format!(
            r#"{{"members": {{"s1": {{"provider": "redfish", "address": "10.0.0.1", "user": "a", "secret": "{text}",
            "uuid": "5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27"}}}}}}"#
        );
        let map = BmcMap::parse(map.as_bytes(), &[]).unwrap();
        match &map.get(&"s1".into()).unwrap().access {
            Access::Redfish { secret, .. } => secret.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn both(pairs: Vec<(&'static str, OsString)>) -> [EnvironmentSecrets; 2] {
        let lookup = pairs.clone();
        let lookup =
            move |asked: &str| lookup.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.clone());
        [EnvironmentSecrets::new(pairs), EnvironmentSecrets::looked_up(lookup)]
    }

    #[test]
    fn a_secret_is_given_by_its_name() {
        for source in both(vec![("APELORA_BMC_SECRET_S1", VALUE.into()), ("PATH", "/bin".into())]) {
            let secret = source.reveal(&name("APELORA_BMC_SECRET_S1")).unwrap();
            assert_eq!(secret.expose_secret(), VALUE);
            assert!(!format!("{source:?} {secret:?}").contains(VALUE));
        }
    }

    #[test]
    fn what_cannot_be_used_is_named_and_not_shown() {
        let long = VALUE.repeat(1 + MOST / VALUE.len());
        let mut binary = VALUE.as_bytes().to_vec();
        binary.push(0xff);
        let values: Vec<(&str, OsString)> = vec![
            ("APELORA_BMC_SECRET_EMPTY", "".into()),
            ("APELORA_BMC_SECRET_LONG", long.into()),
            ("APELORA_BMC_SECRET_BINARY", OsString::from_vec(binary)),
            ("APELORA_BMC_SECRET_NUL", format!("{VALUE}\0").into()),
        ];
        let cases = [
            ("MISSING", SecretProblem::Missing, "is not set: set it in the worker's environment"),
            ("EMPTY", SecretProblem::Empty, "is empty: set it to the account's password"),
            ("LONG", SecretProblem::TooLong, "longer than 4096"),
            ("BINARY", SecretProblem::NotText, "UTF-8"),
            ("NUL", SecretProblem::NotText, "UTF-8"),
        ];
        for source in both(values) {
            for (tail, problem, text) in cases {
                let asked = format!("{SECRET_PREFIX}{tail}");
                let error = source.reveal(&name(&asked)).unwrap_err();
                assert_eq!((&error.name, error.problem), (&asked, problem));
                let said = format!("{error} {error:?}");
                assert!(said.contains(text) && said.contains("the BMC map names"), "{said}");
                assert!(!said.contains(VALUE), "{said}");
            }
        }
    }
}
