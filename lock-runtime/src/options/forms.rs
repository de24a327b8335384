//! Options as text, as configurations write them.

use std::time::Duration;

use super::values::RestartGuard;
use super::{Lease, LockKind, OnLost, OnReleaseLost, Wait, duration_text};

pub(crate) const ON_LOST: [(&str, OnLost); 2] =
    [("cancel", OnLost::Cancel), ("finish", OnLost::Finish)];

pub(crate) const ON_RELEASE_LOST: [(&str, OnReleaseLost); 2] =
    [("log", OnReleaseLost::Log), ("error", OnReleaseLost::Error)];

/// Returns the duration that the text writes; `0` alone has no unit.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let has_unit = text.contains(|c: char| c.is_ascii_alphabetic());
    humantime::parse_duration(text).ok().filter(|_| has_unit)
}

pub(crate) fn read_guard(text: &str) -> Option<RestartGuard> {
    if text == "none" { Some(RestartGuard::Off) } else { span(text).map(RestartGuard::For) }
}

pub(crate) fn guard_text(guard: &RestartGuard) -> String {
    match guard {
        RestartGuard::Off => "none".to_owned(),
        RestartGuard::For(time) => duration_text(*time),
    }
}

pub(crate) fn read_wait(text: &str) -> Option<Wait> {
    match text {
        "none" => Some(Wait::None),
        "forever" => Some(Wait::Forever),
        text => span(text).map(Wait::UpTo),
    }
}

pub(crate) fn wait_text(wait: Wait) -> String {
    match wait {
        Wait::None => "none".to_owned(),
        Wait::UpTo(time) => duration_text(time),
        Wait::Forever => "forever".to_owned(),
    }
}

pub(crate) fn read_lease(text: &str) -> Option<Lease> {
    match text.strip_prefix("watchdog") {
        Some("") => Some(Lease::default()),
        Some(rest) if rest.starts_with(' ') => span(rest.trim_start()).map(Lease::Watchdog),
        Some(_) => None,
        None => span(text).map(Lease::Fixed),
    }
}

/// Returns the text form of a lease.
pub(crate) fn lease_text(lease: Lease) -> String {
    match lease {
        Lease::Watchdog(lease) => format!("watchdog {}", duration_text(lease)),
        Lease::Fixed(lease) => duration_text(lease),
    }
}

pub(crate) fn read_kind(text: &str) -> Option<LockKind> {
    let words = [LockKind::Mutex, LockKind::Fair, LockKind::Read, LockKind::Write];
    words.into_iter().find(|kind| kind.to_string() == text).or_else(|| {
        let limit = text.strip_prefix("semaphore(")?.strip_suffix(')')?;
        limit.trim().parse().ok().filter(|limit| *limit > 0).map(LockKind::Semaphore)
    })
}

/// Returns the value of the word.
pub(crate) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

/// Returns the word of the value.
pub(crate) fn written<T: PartialEq>(value: &T, words: &[(&str, T)]) -> String {
    let word = words.iter().find(|(_, known)| known == value);
    word.map(|(word, _)| (*word).to_owned()).unwrap_or_default()
}
