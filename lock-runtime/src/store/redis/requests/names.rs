//! The names in use on one server: SCAN finds keys, their form gives the names, and a script checks what they contain.
//!
//! A lock is a hash at its own name. Permits of semaphores and waiters with a place are sorted sets at companion keys.
//! So two passes over the keys find all, one for each type, and the server passes over a user's other data by itself.
// S-35.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::{Cmd, Value};

use crate::error::StoreError;
use crate::key::LockKey;
use crate::key::companion::{DUE_READERS, FAIR_TIMEOUTS, PERMITS, READERS, WRITERS};
use crate::store::redis::scripts::{IS_LOCK, Publish, ScriptCall};
use crate::store::redis::server::errors::is_forbidden_key;

/// How many keys one SCAN visits: some 50 µs of the server's time.
const VISITED: usize = 256;

/// How many keys are checked at once. The server runs what it has received from one connection without a pause for
/// others, some 5 µs for each.
const AT_ONCE: usize = 64;

/// Sorted sets of waiters with a place.
const PLACES: [&str; 4] = [FAIR_TIMEOUTS, WRITERS, READERS, DUE_READERS];

/// Where a server's listing goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pass: Pass,
    cursor: u64,
}

/// The type of the keys that a pass visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Hashes,
    SortedSets,
}

/// A key that may belong to a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: String,
    /// The names that it may belong to: a companion has the braces that its name may be without.
    pub(crate) names: Vec<LockKey>,
}

impl Place {
    pub(crate) const START: Self = Self { pass: Pass::Hashes, cursor: 0 };

    /// The request for the next keys. A companion contains the name, so the prefix can be anywhere in the key.
    pub(crate) fn scan(self, prefix: &str) -> Cmd {
        let mut scan = redis::cmd("SCAN");
        scan.arg(self.cursor);
        if !prefix.is_empty() {
            scan.arg("MATCH").arg(format!("*{}*", escaped(prefix)));
        }
        scan.arg("COUNT").arg(VISITED).arg("TYPE").arg(match self.pass {
            Pass::Hashes => "hash",
            Pass::SortedSets => "zset",
        });
        scan
    }

    /// The place behind the answer, and the keys of it that may belong to locks whose names begin with the prefix.
    /// `None` if it is no answer to SCAN.
    pub(crate) fn scanned(
        self,
        answer: &Value,
        prefix: &str,
    ) -> Option<(Option<Self>, Vec<Candidate>)> {
        let Value::Array(parts) = answer else { return None };
        let [cursor, Value::Array(keys)] = &parts[..] else { return None };
        let cursor = text(cursor)?.parse().ok()?;
        let next = match (self.pass, cursor) {
            (Pass::Hashes, 0) => Some(Self { pass: Pass::SortedSets, cursor: 0 }),
            (Pass::SortedSets, 0) => None,
            _ => Some(Self { cursor, ..self }),
        };
        // Keys that are no text are no locks.
        let candidates = keys.iter().filter_map(text).filter_map(|key| self.pass.candidate(key));
        let candidates = candidates.filter(|candidate| {
            candidate.names.iter().any(|name| name.as_str().starts_with(prefix))
        });
        Some((next, candidates.collect()))
    }
}

impl Pass {
    fn candidate(self, key: &str) -> Option<Candidate> {
        let names = match self {
            Self::Hashes => vec![LockKey::new(key).ok()?],
            Self::SortedSets => names_of(tag_of(key)?),
        };
        Some(Candidate { key: key.to_owned(), names })
    }
}

impl Candidate {
    /// The call that says whether the key belongs to a lock.
    pub(crate) fn check(&self, publish: Publish) -> ScriptCall {
        IS_LOCK.call(publish, 1, |call| {
            call.arg(&self.key);
        })
    }
}

/// Where the keys are that candidates name.
pub(crate) trait Keys: Sync {
    /// True if the key belongs to a lock.
    fn is_lock(
        &self,
        candidate: &Candidate,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// True if there is something at that name.
    fn exists(&self, name: &LockKey) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// The names of locks that begin with the prefix, each once.
pub(crate) async fn in_use(
    candidates: Vec<Candidate>,
    prefix: &str,
    keys: &impl Keys,
) -> Result<Vec<LockKey>, StoreError> {
    let checks = candidates.into_iter().map(|candidate| checked(candidate, keys));
    let found: Vec<_> = stream::iter(checks).buffer_unordered(AT_ONCE).try_collect().await?;
    let mut names: Vec<_> = found.into_iter().flatten().collect();
    names.retain(|name| name.as_str().starts_with(prefix));
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The names that a candidate belongs to.
async fn checked(candidate: Candidate, keys: &impl Keys) -> Result<Vec<LockKey>, StoreError> {
    match keys.is_lock(&candidate).await {
        Ok(true) => {}
        Ok(false) => return Ok(Vec::new()),
        // The user may scan the names of other users' keys, but not read the keys.
        Err(error) if is_forbidden_key(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let mut names = candidate.names;
    if names.len() > 1 {
        // Two locks may share the companion. Either may be free of holders, but then not both exist.
        let mut existing = Vec::with_capacity(names.len());
        for name in &names {
            if keys.exists(name).await? {
                existing.push(name.clone());
            }
        }
        match existing.is_empty() {
            true => names.truncate(1),
            false => names = existing,
        }
    }
    Ok(names)
}

/// The part of a companion key that stands for the name.
fn tag_of(key: &str) -> Option<&str> {
    let place = PLACES.iter().find_map(|prefix| key.strip_prefix(prefix)?.strip_prefix(':'));
    place.or_else(|| key.strip_suffix(PERMITS))
}

/// The names that a companion may belong to. `{name}` stands for `name`, and for itself.
fn names_of(tag: &str) -> Vec<LockKey> {
    if !tag.contains('{') {
        return Vec::new();
    }
    let inside = tag.strip_prefix('{').and_then(|tag| tag.strip_suffix('}'));
    let plain = inside.filter(|name| !name.contains(['{', '}']));
    plain.into_iter().chain([tag]).filter_map(|name| LockKey::new(name).ok()).collect()
}

/// The text as a glob that matches only it.
fn escaped(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pass: Pass, key: &str) -> Vec<String> {
        let candidate = pass.candidate(key);
        let names = candidate.into_iter().flat_map(|candidate| candidate.names);
        names.map(|name| name.as_str().to_owned()).collect()
    }

    #[test]
    fn a_companion_gives_the_names_that_it_may_belong_to() {
        for (key, expected) in [
            ("redisson_lock_timeout:{a}", &["a", "{a}"][..]),
            ("redisson_rwlock_writers:x{a}", &["x{a}"]),
            ("redisson_rwlock_readers:{a}:{b}", &["{a}:{b}"]),
            ("{order:7}:timeout", &["order:7", "{order:7}"]),
            ("order:{7}:timeout", &["order:{7}"]),
            ("order:7:timeout", &[]),
            ("redisson_lock_timeout:a", &[]),
            ("redisson_sc:{a}", &[]),
        ] {
            assert_eq!(names(Pass::SortedSets, key), expected, "{key}");
        }
        assert_eq!(names(Pass::Hashes, "order:7"), ["order:7"]);
        assert_eq!(names(Pass::Hashes, "redisson_lock_token:{a}"), [""; 0]);
        assert_eq!(names(Pass::Hashes, "a\nb"), [""; 0]);
    }

    #[test]
    fn a_prefix_is_no_glob() {
        assert_eq!(escaped(r"a*b?[c]\d"), r"a\*b\?\[c\]\\d");
        let words = Place::START.scan("a*");
        let words = String::from_utf8(words.get_packed_command()).unwrap();
        assert!(words.contains("*a\\**"), "{words}");
    }

    #[test]
    fn only_an_answer_to_scan_is_one() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let answer = |cursor: &str, keys: &[&str]| {
            Value::Array(vec![
                bulk(cursor),
                Value::Array(keys.iter().map(|key| bulk(key)).collect()),
            ])
        };
        let (next, found) = Place::START.scanned(&answer("7", &["a:1", "b"]), "a").unwrap();
        assert_eq!(next, Some(Place { pass: Pass::Hashes, cursor: 7 }));
        assert_eq!(found.len(), 1);
        let (next, _) = Place::START.scanned(&answer("0", &[]), "").unwrap();
        let (next, _) = next.unwrap().scanned(&answer("0", &[]), "").unwrap();
        assert_eq!(next, None);
        let whole = u64::MAX.to_string();
        assert!(Place::START.scanned(&answer(&whole, &[]), "").is_some());
        for other in [Value::Nil, bulk("0"), answer("-1", &[]), Value::Array(vec![bulk("0")])] {
            assert_eq!(Place::START.scanned(&other, ""), None, "{other:?}");
        }
    }
}
