//! How serde reads and writes values that are text in a configuration: durations with units, words.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::{Map, RestartGuard};
use crate::options::forms::*;
use crate::options::{Lease, LockKind, OnLost, OnReleaseLost, Replicas, Wait, duration_text};

/// Reads text, and reports the expected form of text that it cannot read.
#[derive(Debug)]
pub struct Text<T> {
    /// Reads the text.
    pub read: fn(&str) -> Option<T>,
    /// The expected form.
    pub expected: &'static str,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text.trim()).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Modules for `serde(with = …)` on optional fields.
macro_rules! forms {
    ($($name:ident: $type:ty = $read:expr, $write:expr, $expected:literal;)*) => {$(
        pub(super) mod $name {
            use super::*;

            pub(in crate::policy) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                from.deserialize_any(Text { read: $read, expected: $expected }).map(Some)
            }

            pub(in crate::policy) fn serialize<S: Serializer>(
                value: &Option<$type>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                let write: fn(&$type) -> String = $write;
                value.as_ref().map(write).serialize(to)
            }
        }
    )*};
}

forms! {
    duration: Duration = span, |it| duration_text(*it), r#"a duration with its unit, such as "250ms" or "1m 30s""#;
    restart_guard: RestartGuard = read_guard, guard_text, r#"how long a restarted server does not count: "30s" or "none""#;
    wait: Wait = read_wait, |it| wait_text(*it), r#"how long to wait: "3s", "none" or "forever""#;
    lease: Lease = read_lease, |it| lease_text(*it), r#"a lease: "10s", "watchdog" or "watchdog 30s""#;
    kind: LockKind = read_kind, ToString::to_string, r#"a kind: "mutex", "fair", "read", "write" or "semaphore(3)""#;
    on_lost: OnLost = |text| word(text, &ON_LOST), |it| written(it, &ON_LOST), r#""cancel" or "finish""#;
    on_release_lost: OnReleaseLost = |text| word(text, &ON_RELEASE_LOST), |it| written(it, &ON_RELEASE_LOST), r#""log" or "error""#;
}

/// A whole number, in the way of serde.
pub(super) mod count {
    use serde::{Deserialize, Serialize};

    pub(in crate::policy) fn deserialize<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        T::deserialize(from)
    }

    pub(in crate::policy) fn serialize<S: serde::Serializer, T: Serialize>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }
}

/// `{ acks = 1, timeout = "200ms" }`
pub(super) mod replicas {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "{ acks = 1, timeout = \"200ms\" }")]
    struct Table {
        acks: u32,
        #[serde(with = "duration")]
        timeout: Option<Duration>,
    }

    pub(in crate::policy) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Replicas>, D::Error> {
        let Map(Table { acks, timeout }) = Map::deserialize(from)?;
        Ok(timeout.map(|timeout| Replicas::new(acks, timeout)))
    }

    pub(in crate::policy) fn serialize<S: Serializer>(
        value: &Option<Replicas>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let table = |it: &Replicas| Table { acks: it.acks, timeout: Some(it.timeout) };
        value.as_ref().map(table).serialize(to)
    }
}
