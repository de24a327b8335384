//! Lock names: which are valid, and which are reserved for the keys of other locks.
// S-1, S-2.

/// Longest lock name in bytes, namespace included.
pub const MAX_KEY_BYTES: usize = 512;

/// Why a text is no lock name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameProblem {
    /// It has no characters.
    Empty,
    /// It has this many bytes, more than [`MAX_KEY_BYTES`].
    TooLong(usize),
    /// It contains this control character.
    Control(char),
}

/// Checks a lock name, except for its braces: see [`braces_form_hash_tag`].
///
/// # Errors
///
/// The first [`NameProblem`].
pub fn check(name: &str) -> Result<(), NameProblem> {
    if name.is_empty() {
        return Err(NameProblem::Empty);
    }
    if name.len() > MAX_KEY_BYTES {
        return Err(NameProblem::TooLong(name.len()));
    }
    match name.chars().find(|c| c.is_control()) {
        Some(control) => Err(NameProblem::Control(control)),
        None => Ok(()),
    }
}

/// Returns true if the name has no braces, or a hash tag as Redis Cluster finds it: text between the first `{` and
/// the next `}`. Any other braces put the keys that belong to a lock into another slot than its name.
#[must_use]
pub fn braces_form_hash_tag(name: &str) -> bool {
    match name.split_once('{') {
        None => !name.contains('}'),
        Some((_, rest)) => rest.find('}').is_some_and(|end| end > 0),
    }
}

/// First part of a lock's fencing counter: `{prefix}:{name}`, like the other prefixes.
pub const FENCE_COUNTER: &str = "redisson_lock_token";
/// First part of a fair lock's queue.
pub const FAIR_QUEUE: &str = "redisson_lock_queue";
/// First part of the timeouts of that queue.
pub const FAIR_TIMEOUTS: &str = "redisson_lock_timeout";
/// First part of a mutex's channel.
pub const MUTEX_CHANNEL: &str = "redisson_lock__channel";
/// First part of the key in which Redisson remembers a release.
pub const UNLOCK_MEMORY: &str = "redisson_unlock_latch";
/// First part of the channel of a read/write lock.
pub const SIDES_CHANNEL: &str = "redisson_rwlock";
/// First part of the announced writers.
pub const WRITERS: &str = "redisson_rwlock_writers";
/// First part of the waiting readers.
pub const READERS: &str = "redisson_rwlock_readers";
/// First part of the readers whose turn is next.
pub const DUE_READERS: &str = "redisson_rwlock_due_readers";
/// First part of a semaphore's channel.
pub const SEMAPHORE_CHANNEL: &str = "redisson_sc";
/// First part of a latch's channel, `{prefix}__{name}`.
pub const LATCH_CHANNEL: &str = "redisson_countdownlatch__channel";

const PREFIXES: [&str; 11] = [
    FENCE_COUNTER,
    FAIR_QUEUE,
    FAIR_TIMEOUTS,
    MUTEX_CHANNEL,
    UNLOCK_MEMORY,
    SIDES_CHANNEL,
    WRITERS,
    READERS,
    DUE_READERS,
    SEMAPHORE_CHANNEL,
    LATCH_CHANNEL,
];

/// Last part of the permits of a semaphore, which begin with the name's hash tag.
pub const PERMITS: &str = ":timeout";

/// Last part of the timeout of a reader, likewise; its number follows.
const READER: &str = ":rwlock_timeout:";

/// The part of a name by which it may be the key of another lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// The reserved text at the beginning of the name.
    Beginning(String),
    /// The reserved text at the end of the name, after a hash tag.
    Ending(&'static str),
}

/// Returns the part of a name that is reserved for the keys of other locks: two locks would use one key.
///
/// # Examples
///
/// ```
/// use lock_syntax::name::{Reserved, reserved};
///
/// let beginning = Reserved::Beginning("redisson_lock_token:".to_owned());
/// assert_eq!(reserved("redisson_lock_token:{order:42}"), Some(beginning));
/// assert_eq!(reserved("{order}:timeout"), Some(Reserved::Ending(":timeout")));
/// assert_eq!(reserved("order:timeout"), None);
/// ```
#[must_use]
pub fn reserved(name: &str) -> Option<Reserved> {
    for prefix in PREFIXES {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        if rest.starts_with(':') {
            return Some(Reserved::Beginning([prefix, ":"].concat()));
        }
        if prefix == LATCH_CHANNEL && rest.starts_with("__{") {
            return Some(Reserved::Beginning([prefix, "__{"].concat()));
        }
    }
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_reader = || name.rsplit_once(READER).is_some_and(|(_, number)| is_number(number));
    match name.contains('{') {
        true if name.ends_with(PERMITS) => Some(Reserved::Ending(PERMITS)),
        true if is_reader() => Some(Reserved::Ending(READER)),
        _ => None,
    }
}
