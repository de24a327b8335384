//! Tables, read more strictly than serde's derive does: no list in place of a table, and each name once.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::Policy;

/// A type that serde derives, and that only a table can be.
pub(crate) trait FromTable {
    /// What is expected, for errors.
    const EXPECTED: &'static str;
}

/// Reads a table: what serde derives would also read a list, by position.
pub(super) struct Map<T>(pub(super) T);

impl<'de, T: FromTable + Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MapOnly(PhantomData)).map(Self)
    }
}

struct MapOnly<T>(PhantomData<T>);

impl<'de, T: FromTable + Deserialize<'de>> Visitor<'de> for MapOnly<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a value that may be left empty, as tables in YAML are.
pub(super) fn nullable<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Reads a table that may be left empty.
pub(super) fn table<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromTable + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(from).map(|read| read.map(|Map(table)| table))
}

/// As [`table`]; an empty value is an empty table.
pub(super) fn table_or_empty<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromTable + Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    table(from).map(Option::unwrap_or_default)
}

/// Reads tables by name.
pub(super) fn by_name<'de, D>(from: D) -> Result<BTreeMap<String, Policy>, D::Error>
where
    D: Deserializer<'de>,
{
    nullable(from).map(|Named(policies)| policies)
}

#[derive(Default)]
struct Named(BTreeMap<String, Policy>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EachOnce).map(Self)
    }
}

struct EachOnce;

impl<'de> Visitor<'de> for EachOnce {
    type Value = BTreeMap<String, Policy>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut policies = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let policy = map.next_value_seed(One { is_known: policies.contains_key(&name) })?;
            policies.insert(name, policy);
        }
        Ok(policies)
    }
}

/// Reads a policy. A seed, so that the error of a name that is known has its path.
struct One {
    is_known: bool,
}

impl<'de> DeserializeSeed<'de> for One {
    type Value = Policy;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Policy, D::Error> {
        if self.is_known {
            return Err(D::Error::custom("is given twice; take one out"));
        }
        table_or_empty(from)
    }
}
