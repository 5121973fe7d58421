//! Reading maps strictly: a key that is read may not be repeated, and nothing but text is text.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

/// A value that is written as an object. What serde derives would also take a list, by the order of its fields.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        from.deserialize_map(Map(PhantomData))
    }
}

/// A value that may be `null` but must be there: for `#[serde(deserialize_with)]`, which does not take absent as
/// `null`.
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// A list that Go writes as `null` when it is empty.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// A configuration map (text to text) of which only some keys are kept: it may hold secrets, and it may be large.
#[derive(Debug, Default)]
pub(crate) struct Picked {
    kept: BTreeMap<&'static str, String>,
    any: bool,
}

/// The keys that are kept of any configuration.
const KEPT: [&str; 7] = [
    "boot.autostart",
    "boot.autostart.priority",
    "cluster.evacuate",
    "cluster.healing_threshold",
    "cluster.offline_threshold",
    "limits.memory",
    "volatile.last_state.power",
];

impl Picked {
    /// The value of a kept key.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        self.kept.remove(key)
    }

    /// Whether the map had no key at all.
    pub(crate) fn is_empty(&self) -> bool {
        !self.any
    }
}

impl<'de> Deserialize<'de> for Picked {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Picked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Picked, A::Error> {
                let mut picked = Picked::default();
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    picked.any = true;
                    let Some(known) = KEPT.into_iter().find(|known| *known == key) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    if picked.kept.insert(known, map.next_value()?).is_some() {
                        return Err(A::Error::custom(format!("`{known}` is there twice")));
                    }
                }
                Ok(picked)
            }
        }
        from.deserialize_map(Map)
    }
}

/// A map in which no key may be repeated.
#[derive(Debug)]
pub(crate) struct Unique<T>(pub(crate) BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
            type Value = Unique<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<T>, A::Error> {
                let mut all = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if all.contains_key(&key) {
                        return Err(A::Error::custom(format!("`{key}` is there twice")));
                    }
                    all.insert(key, map.next_value()?);
                }
                Ok(Unique(all))
            }
        }
        from.deserialize_map(Map(PhantomData))
    }
}
