//! Rules that `lock-macros` checks at compile time and `lock-runtime` at run time: lock names, key templates,
//! limits, and suggestions for misspelt words.
//!
//! Depend on `lock-runtime`, which re-exports what users need, and not on this crate. The callers write the
//! messages: each knows its readers.

pub mod name;
pub mod template;

use std::time::Duration;

/// Shortest lease that renewals and network delays fit into.
// S-10.
pub const MIN_LEASE: Duration = Duration::from_millis(100);

/// Longest lease: the fencing counter outlives any hold only within its own expiry.
// S-23.
pub const MAX_LEASE: Duration = Duration::from_secs(60 * 60 * 24);

/// Most locks of one multi lock: one command acquires, renews or releases all of them, and every other client
/// waits while the server runs it.
pub const MAX_MULTI_NAMES: usize = 128;

/// Returns the known word that `word` could be a slip of.
///
/// # Examples
///
/// ```
/// assert_eq!(lock_syntax::nearest("leese", ["key", "wait", "lease"]), Some("lease"));
/// assert_eq!(lock_syntax::nearest("kind", ["key", "wait", "lease"]), None);
/// assert_eq!(lock_syntax::nearest("", ["key"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 2.min(word.chars().count() / 2);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
