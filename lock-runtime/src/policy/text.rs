//! The text forms of configuration values: durations with units, words, numbers in a range.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::RestartGuard;
use super::table;
use crate::options::{Lease, LockKind, OnLost, OnReleaseLost, Replicas, Wait, duration_text};

/// Reads text, and reports the expected form of text that it cannot read.
struct Text<T> {
    read: fn(&str) -> Option<T>,
    expected: &'static str,
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

/// Reads a whole number in the same way.
pub(super) struct Number<T> {
    pub(super) read: fn(u64) -> Option<T>,
    pub(super) expected: &'static str,
}

impl<T> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.read)(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

/// Functions for `deserialize_with` on optional fields.
macro_rules! optional {
    ($($name:ident: $type:ty = $visitor:ident($read:expr), $expected:literal;)*) => {$(
        pub(super) fn $name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<$type>, D::Error> {
            from.deserialize_any($visitor { read: $read, expected: $expected }).map(Some)
        }
    )*};
}

optional! {
    duration: Duration = Text(span), r#"a duration with its unit, such as "250ms" or "1m 30s""#;
    restart_guard: RestartGuard = Text(read_guard), r#"how long a restarted server does not count: "30s" or "none""#;
    limit: Duration = Text(read_limit), r#"a duration such as "5m", or "unlimited""#;
    wait: Wait = Text(read_wait), r#"how long to wait: "3s", "none" or "forever""#;
    lease: Lease = Text(read_lease), r#"a lease: "10s", "watchdog" or "watchdog 30s""#;
    kind: LockKind = Text(read_kind), r#"a kind: "mutex", "fair", "read", "write" or "semaphore(3)""#;
    on_lost: OnLost = Text(|text| word(text, [("cancel", OnLost::Cancel), ("finish", OnLost::Finish)])), r#""cancel" or "finish""#;
    on_release_lost: OnReleaseLost = Text(|text| word(text, [("log", OnReleaseLost::Log), ("error", OnReleaseLost::Error)])), r#""log" or "error""#;
    enforce: u8 = Number(percent), "a share in percent, from 0 to 100";
    count: usize = Number(|number| number.try_into().ok()), "a number of tasks, such as 100";
}

/// `{ at_least = 1, timeout = "200ms" }`
pub(super) fn replicas<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Replicas>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        #[serde(deserialize_with = "replica_count")]
        at_least: u32,
        #[serde(deserialize_with = "required_duration")]
        timeout: Duration,
    }
    let Table { at_least, timeout } = table::read(from, r#"{ at_least = 1, timeout = "200ms" }"#)?;
    Ok(Some(Replicas { at_least, timeout }))
}

fn replica_count<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let read = |number: u64| number.try_into().ok();
    from.deserialize_any(Number { read, expected: "a number of replicas, such as 1" })
}

fn required_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let expected = r#"a duration with its unit, such as "250ms" or "1m 30s""#;
    from.deserialize_any(Text { read: span, expected })
}

fn span(text: &str) -> Option<Duration> {
    // `0` alone has no unit.
    let has_unit = text.contains(|c: char| c.is_ascii_alphabetic());
    humantime::parse_duration(text).ok().filter(|_| has_unit)
}

fn read_guard(text: &str) -> Option<RestartGuard> {
    word(text, [("none", RestartGuard::Off)]).or_else(|| span(text).map(RestartGuard::For))
}

fn read_limit(text: &str) -> Option<Duration> {
    word(text, [("unlimited", Duration::MAX)]).or_else(|| span(text))
}

fn read_wait(text: &str) -> Option<Wait> {
    let word = word(text, [("none", Wait::Never), ("forever", Wait::Forever)]);
    word.or_else(|| span(text).map(Wait::UpTo))
}

fn read_lease(text: &str) -> Option<Lease> {
    match text.strip_prefix("watchdog") {
        Some("") => Some(Lease::default()),
        Some(rest) if rest.starts_with(' ') => span(rest.trim_start()).map(Lease::Watchdog),
        Some(_) => None,
        None => span(text).map(Lease::Fixed),
    }
}

fn read_kind(text: &str) -> Option<LockKind> {
    let words = [LockKind::Mutex, LockKind::Fair, LockKind::Read, LockKind::Write];
    words.into_iter().find(|kind| kind.to_string() == text).or_else(|| {
        let limit = text.strip_prefix("semaphore(")?.strip_suffix(')')?;
        limit.trim().parse::<NonZeroU32>().ok().map(LockKind::Semaphore)
    })
}

/// Returns the value of the word.
fn word<T: Copy, const N: usize>(text: &str, words: [(&str, T); N]) -> Option<T> {
    words.into_iter().find(|(word, _)| *word == text).map(|(_, value)| value)
}

fn percent(number: u64) -> Option<u8> {
    u8::try_from(number).ok().filter(|share| *share <= 100)
}

/// Returns the text form of a lease.
pub(super) fn lease_text(lease: Lease) -> String {
    match lease {
        Lease::Watchdog(lease) => format!("watchdog {}", duration_text(lease)),
        Lease::Fixed(lease) => duration_text(lease),
    }
}
