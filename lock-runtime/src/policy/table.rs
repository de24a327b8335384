//! Tables, read more strictly than serde's derive does: no list in place of a table, and each name once.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::Policy;
use super::error::shown;

/// A table that is read from a map: what serde derives would also read a list, by position.
pub(super) struct Map<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(MapsOnly(from)).map(Self)
    }
}

/// A deserializer, or the visitor of a struct, that accepts maps only.
struct MapsOnly<T>(T);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MapsOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(MapsOnly(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for MapsOnly<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(map)
    }
}

/// Reads a value that may be left empty, as tables in YAML are.
pub(super) fn nullable<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Reads a table that may be left empty.
pub(super) fn table<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(|read| read.map_or_else(T::default, |Map(table)| table))
}

/// Reads policies by name, each name once.
#[derive(Default)]
pub(super) struct Named(pub(super) BTreeMap<String, Policy>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Named {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((name, policy)) = map.next_entry::<String, Option<Map<Policy>>>()? {
            let policy = policy.map_or_else(Policy::default, |Map(policy)| policy);
            if self.0.insert(name.clone(), policy).is_some() {
                let name = shown(&name);
                return Err(A::Error::custom(format!("{name} is given twice; take one out")));
            }
        }
        Ok(self)
    }
}
