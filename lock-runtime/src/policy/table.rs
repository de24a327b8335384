//! Tables, read more strictly than serde does: no list in place of a table, no duplicate name. And no message
//! repeats text in place of a table, which may be an address with a password.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::shown;

/// Implements `Deserialize` for a type that derives it with `remote = "Self"`.
macro_rules! table {
    ($type:ident, $expected:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                /// Calls the derived implementation.
                struct Derived($type);
                impl<'de> serde::Deserialize<'de> for Derived {
                    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                        $type::deserialize(from).map(Derived)
                    }
                }
                $crate::policy::table::read::<Derived, D>(from, $expected).map(|it| it.0)
            }
        }
    };
}
pub(super) use table;

/// Reads a table; an empty value, as in YAML, is an empty table.
pub(super) fn read<'de, T, D>(from: D, expected: &'static str) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_any(Table { expected, of: PhantomData })
}

struct Table<T> {
    expected: &'static str,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Table<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(table))
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        T::deserialize(MapDeserializer::new(std::iter::empty::<((), ())>()))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Err(text_in_place_of(self.expected))
    }
}

/// The error for text in place of a table or a list.
pub(super) fn text_in_place_of<E: Error>(expected: &str) -> E {
    E::custom(format_args!("invalid type: text, expected {expected}"))
}

/// Reads the list of routes.
pub(super) fn routes<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_any(Routes(PhantomData))
}

const ROUTES: &str = "a list of routes; write [[lock.routes]] above each route";

struct Routes<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Routes<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ROUTES)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Vec<T>, E> {
        Err(text_in_place_of(ROUTES))
    }
}

/// Reads tables by name, each name once.
pub(super) fn by_name<'de, T, D>(from: D) -> Result<BTreeMap<String, T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Names<T>(BTreeMap<String, T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Names<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_map(OnceEach(PhantomData)).map(Names)
        }
    }
    read::<Names<T>, D>(from, "tables by name").map(|names| names.0)
}

struct OnceEach<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnceEach<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tables by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut tables: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some((name, table)) = tables.next_entry::<String, T>()? {
            if found.contains_key(&name) {
                let message = format_args!("{:?} is given twice; take one out", shown(&name));
                return Err(A::Error::custom(message));
            }
            found.insert(name, table);
        }
        Ok(found)
    }
}
