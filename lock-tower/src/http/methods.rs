//! [`Methods`]: which requests a layer locks.

use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// The methods that only read.
pub(crate) const READING: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// Stands for each method that no route names.
pub(crate) const UNNAMED: &str = "";

/// Which requests a layer locks, by their method, in capitals. GET includes HEAD, which routers answer with
/// GET's handler.
///
/// In a file a list, `"all"`, or `"all but GET, OPTIONS"`. By default all but those that only read lock: an unknown method
/// may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Methods {
    pub(crate) names: Vec<String>,
    /// True if these lock; false if all others do.
    pub(crate) listed: bool,
}

impl Methods {
    pub(crate) fn these(names: impl IntoIterator<Item: ToString>) -> Self {
        Self { listed: true, ..Self::all_but(names) }
    }

    pub(crate) fn all_but(names: impl IntoIterator<Item: ToString>) -> Self {
        let names = names.into_iter().map(|name| name.to_string()).collect();
        Self { names, listed: false }
    }

    /// Returns true if requests with that method lock.
    pub(crate) fn contains(&self, method: &str) -> bool {
        let named = |name: &String| name == method || (name == "GET" && method == "HEAD");
        self.names.iter().any(named) == self.listed
    }
}

impl<'de> Deserialize<'de> for Methods {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Methods;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"methods: a list such as ["POST"], "all", or "all but GET, OPTIONS""#)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Methods, E> {
                match text.trim().strip_prefix("all but ") {
                    Some(names) => Ok(Methods::all_but(names.split(',').map(str::trim))),
                    None if text.trim() == "all" => Ok(Methods::all_but([""; 0])),
                    None => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Methods, A::Error> {
                let names = Vec::<String>::deserialize(SeqAccessDeserializer::new(names))?;
                Ok(Methods::these(names))
            }
        }
        from.deserialize_any(Words)
    }
}
