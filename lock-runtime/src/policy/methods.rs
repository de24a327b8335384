//! [`Methods`]: which requests a layer locks, by their method.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// Which requests a layer locks, by their method, in capitals. With GET goes HEAD, which routers have GET's
/// handler answer.
///
/// In a file a list, `"all"`, or `"all but GET, OPTIONS"`. The default is all but GET, HEAD, OPTIONS and TRACE,
/// which only read: an unknown method may write, and locks.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{HttpPolicy, Methods};
///
/// let http: HttpPolicy = toml::from_str("methods = 'all but GET'")?;
/// let methods = http.methods.unwrap_or_default();
/// assert!(methods.contains("PROPFIND") && !methods.contains("HEAD"));
/// assert!(!Methods::default().contains("TRACE"));
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Methods {
    /// These.
    These(Vec<String>),
    /// Every method.
    All,
    /// Every method but these.
    AllBut(Vec<String>),
}

impl Default for Methods {
    fn default() -> Self {
        Self::AllBut(["GET", "HEAD", "OPTIONS", "TRACE"].map(str::to_owned).into())
    }
}

impl Methods {
    /// True if requests of that method lock.
    #[must_use]
    pub fn contains(&self, method: &str) -> bool {
        let named = |names: &[String]| {
            names.iter().any(|name| name == method || (name == "GET" && method == "HEAD"))
        };
        match self {
            Self::These(names) => named(names),
            Self::All => true,
            Self::AllBut(names) => !named(names),
        }
    }

    /// The methods that are named, be it to lock them or not to.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::These(names) | Self::AllBut(names) => names,
            Self::All => &[],
        }
    }

    /// Reads `all` or `all but A, B`.
    fn read(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::All);
        }
        let names = text.strip_prefix("all but ")?;
        Some(Self::AllBut(names.split(',').map(|name| name.trim().to_owned()).collect()))
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
                let read = Methods::read(text.trim());
                read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Methods, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(names)).map(Methods::These)
            }
        }
        from.deserialize_any(Words)
    }
}
