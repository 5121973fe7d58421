//! From the text of a setting to its value, with the one line that refuses it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use super::table::Setting;
use super::{OneLine, Resolved};

impl Resolved {
    /// A refusal of a setting's value: what is wrong with it, and the remedy.
    pub(crate) fn refuse(&self, setting: &Setting, problem: &str, remedy: &str) -> OneLine {
        OneLine::new(format_args!("{}: {problem}; {remedy}", self.label(setting)))
    }

    /// The text of a setting that has a built-in value or must be given.
    pub(crate) fn text(&self, setting: &Setting) -> Result<&str, OneLine> {
        match self.get(setting).map(|v| v.text.as_str()) {
            None => Err(OneLine::new(format_args!(
                "{setting}: not set; set {} or --{}",
                setting.env(),
                setting.flag()
            ))),
            Some("") => Err(self.refuse(setting, "is empty", "give a value or leave it out")),
            Some(text) => Ok(text),
        }
    }

    /// The text of a setting that may be left out.
    pub(crate) fn optional(&self, setting: &Setting) -> Result<Option<&str>, OneLine> {
        if self.get(setting).is_none() { Ok(None) } else { self.text(setting).map(Some) }
    }

    /// The items of a list with commas between; none when the setting is left out.
    pub(crate) fn list(&self, setting: &Setting) -> Result<Vec<String>, OneLine> {
        let Some(text) = self.optional(setting)? else { return Ok(Vec::new()) };
        let items: Vec<String> = text.split(',').map(|item| item.trim().to_owned()).collect();
        if items.iter().any(String::is_empty) {
            return Err(self.refuse(
                setting,
                &format!("'{text}' has an empty item"),
                "put one comma between two items and none at the end",
            ));
        }
        if let Some(twice) =
            items.iter().enumerate().find_map(|(i, item)| items[..i].contains(item).then_some(item))
        {
            return Err(self.refuse(setting, &format!("'{twice}' is given twice"), "name each once"));
        }
        Ok(items)
    }

    pub(crate) fn number(&self, setting: &Setting, range: RangeInclusive<u32>) -> Result<u32, OneLine> {
        let text = self.text(setting)?;
        text.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| {
            self.refuse(
                setting,
                &format!("'{text}' is out of range"),
                &format!("give a whole number from {} to {}", range.start(), range.end()),
            )
        })
    }

    pub(crate) fn choice<T: Copy>(&self, setting: &Setting, choices: &[(&str, T)]) -> Result<T, OneLine> {
        let text = self.text(setting)?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words = choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
            self.refuse(setting, &format!("'{text}' is not known"), &format!("give {words}"))
        })
    }

    /// A switch.
    pub(crate) fn flag(&self, setting: &Setting) -> Result<bool, OneLine> {
        self.choice(setting, &[("0", false), ("1", true)])
    }

    pub(crate) fn address(&self, setting: &Setting) -> Result<SocketAddr, OneLine> {
        let text = self.text(setting)?;
        text.parse().map_err(|_| {
            self.refuse(
                setting,
                &format!("'{text}' is not an address and a port"),
                "give ADDRESS:PORT with a numeric address, such as 127.0.0.1:6385 or [::1]:6385",
            )
        })
    }
}
