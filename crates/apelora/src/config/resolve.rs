//! Which value of a setting wins, and where it came from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use apelora_fencing::status::SettingStatus;
use apelora_store::DatabaseUrl;

use super::table::{self, BMC_SECRET_PREFIX, CONFIG_FILE_ENV, ENV_PREFIX, SETTINGS, Setting};
use super::{Configuration, Flags, OneLine};

/// Where the configuration of a process is read from.
pub(crate) struct Sources<C> {
    /// `--config`; else `APELORA_CONFIG`; else there is no file.
    pub(crate) file: Option<PathBuf>,
    /// The environment, whole.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The flags that were given.
    pub(crate) flags: Flags<C>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Built in.
    Default,
    /// The TOML file of this path.
    File(PathBuf),
    /// The environment.
    Environment,
    /// The command line.
    Flag,
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// The value that won, for each setting that has one.
pub(crate) struct Resolved {
    values: BTreeMap<&'static str, Value>,
    bmc_secrets: Vec<String>,
}

/// What a process runs with and why, for its log.
pub(crate) struct Provenance {
    /// Setting, value as it may be shown, and where it came from: those that are not built in.
    pub(crate) chosen: Vec<(&'static str, String, String)>,
    /// Every setting of the process in the form in which the control plane shows it; an empty value is none.
    pub(crate) effective: Vec<SettingStatus>,
    /// Names of the BMC secrets in the environment.
    pub(crate) bmc_secrets: Vec<String>,
}

impl Resolved {
    pub(crate) fn from_sources<C: Configuration>(sources: &Sources<C>) -> Result<Self, OneLine> {
        let mut this = Self { values: BTreeMap::new(), bmc_secrets: Vec::new() };
        for setting in SETTINGS {
            if let Some(default) = setting.default {
                this.put(setting, default.to_owned(), Origin::Default);
            }
        }
        let mut from_environment = Vec::new();
        let mut file = None;
        for (name, value) in &sources.environment {
            let name = name.to_string_lossy();
            if !name.starts_with(ENV_PREFIX) {
                continue;
            }
            if name.starts_with(BMC_SECRET_PREFIX) {
                this.bmc_secrets.push(name.into_owned());
                continue;
            }
            let text = value.to_str().ok_or_else(|| {
                OneLine::new(format_args!(
                    "{name} (environment): not valid UTF-8; set it to plain text or unset it"
                ))
            })?;
            if name == CONFIG_FILE_ENV {
                file = Some(PathBuf::from(text));
                continue;
            }
            let setting = SETTINGS.iter().copied().find(|s| s.env() == name).ok_or_else(|| {
                let key = name[ENV_PREFIX.len()..].to_ascii_lowercase();
                let near = nearest(&key, Setting::env);
                OneLine::new(format_args!("{name} (environment): no such setting; {near}, or unset it"))
            })?;
            from_environment.push((setting, text.to_owned()));
        }
        if let Some(path) = sources.file.as_ref().or(file.as_ref()) {
            this.read_file(path)?;
        }
        for (setting, text) in from_environment {
            this.put(setting, text, Origin::Environment);
        }
        for (setting, text) in sources.flags.given() {
            this.put(setting, text.clone(), Origin::Flag);
        }
        Ok(this)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), OneLine> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| {
            OneLine::new(format_args!(
                "configuration file {shown}: {e}; give the path of a readable TOML file"
            ))
        })?;
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let line =
                e.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            OneLine::new(format_args!(
                "configuration file {shown}, line {line}: {}; correct the TOML",
                e.message()
            ))
        })?;
        for (key, value) in table {
            if is_bmc_secret(&key) {
                return Err(OneLine::new(format_args!(
                    "{key} ({shown}): the password of a BMC never stands in a file: only the worker reads it, from its \
                     environment, at the moment of use; remove it here, change the password, and set {} for `apelora worker`",
                    as_variable(&key)
                )));
            }
            let setting = table::find(&key).ok_or_else(|| {
                let near = nearest(&key, |s| s.name.to_owned());
                OneLine::new(format_args!("{key} ({shown}): no such setting; {near}, or remove it"))
            })?;
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(yes) => u8::from(yes).to_string(),
                other => {
                    return Err(OneLine::new(format_args!(
                        "{key} ({shown}): is {}; write a text, a whole number, or true or false",
                        match other.type_str() {
                            "array" => "a list",
                            "table" => "a table",
                            "float" => "a fraction",
                            _ => "a date",
                        }
                    )));
                }
            };
            self.put(setting, text, Origin::File(path.to_owned()));
        }
        Ok(())
    }

    fn put(&mut self, setting: &'static Setting, text: String, origin: Origin) {
        self.values.insert(setting.name, Value { text, origin });
    }

    /// The value of a setting, if it has one.
    pub(crate) fn get(&self, setting: &Setting) -> Option<&Value> {
        self.values.get(setting.name)
    }

    /// Whether somebody chose the value of a setting.
    pub(crate) fn is_chosen(&self, setting: &Setting) -> bool {
        self.get(setting).is_some_and(|value| value.origin != Origin::Default)
    }

    /// The name by which the person who set it knows a setting.
    pub(crate) fn label(&self, setting: &Setting) -> String {
        match self.get(setting).map(|v| &v.origin) {
            None | Some(Origin::Default) => format!("{setting} (built-in default)"),
            Some(Origin::File(path)) => format!("{setting} ({})", path.display()),
            Some(Origin::Environment) => format!("{} (environment)", setting.env()),
            Some(Origin::Flag) => format!("--{} (flag)", setting.flag()),
        }
    }

    pub(crate) fn into_provenance(self, settings: &[&'static Setting]) -> Provenance {
        let chosen = settings
            .iter()
            .filter_map(|setting| {
                let value = self.get(setting)?;
                match &value.origin {
                    Origin::Default => None,
                    origin => Some((setting.name, shown(setting, value), origin.to_string())),
                }
            })
            .collect();
        let mut effective: Vec<_> = settings.iter().map(|setting| self.effective(setting)).collect();
        // That a secret is there may be known; what it is may not.
        effective.extend(self.bmc_secrets.iter().map(|name| SettingStatus {
            name: name.clone(),
            value: HIDDEN.to_owned(),
            source: Origin::Environment.word().to_owned(),
        }));
        Provenance { chosen, effective, bmc_secrets: self.bmc_secrets }
    }

    fn effective(&self, setting: &Setting) -> SettingStatus {
        let value = self.get(setting);
        SettingStatus {
            name: setting.env(),
            value: value.map_or_else(String::new, |value| shown(setting, value)),
            source: value.map_or(&Origin::Default, |value| &value.origin).word().to_owned(),
        }
    }
}

impl Origin {
    /// The kind of source, in one word.
    const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(_) => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// A value as it may be shown.
fn shown(setting: &Setting, value: &Value) -> String {
    match setting {
        Setting { secret: true, .. } => HIDDEN.to_owned(),
        Setting { holds_password: true, .. } => without_password(&value.text),
        _ => value.text.clone(),
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("environment"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// What stands for a value that is not shown.
const HIDDEN: &str = "***";

/// A database URL as it may be shown.
fn without_password(url: &str) -> String {
    DatabaseUrl::parse(url).map_or_else(|_| HIDDEN.to_owned(), |url| url.to_string())
}

/// Whether a key of a file is meant to be the name of a BMC's secret, in whichever spelling.
fn is_bmc_secret(key: &str) -> bool {
    as_variable(key).starts_with(BMC_SECRET_PREFIX)
}

/// The variable that a key of a file would be.
fn as_variable(key: &str) -> String {
    let key = key.to_ascii_uppercase();
    if key.starts_with(ENV_PREFIX) { key } else { format!("{ENV_PREFIX}{key}") }
}

/// A hint at the setting whose key is nearest to an unknown one, by the name that its source uses.
fn nearest(key: &str, name: fn(&Setting) -> String) -> String {
    let rated = SETTINGS.iter().map(|s| (strsim::normalized_damerau_levenshtein(key, s.name), s));
    match rated.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((nearness, setting)) if nearness > 0.7 => format!("did you mean {}? Correct it", name(setting)),
        _ => "see docs/settings.md for the settings; correct it".to_owned(),
    }
}
