//! The keys and channels that belong to a lock's name, and the names that they leave to other locks.
// S-2.

use super::LockKey;

/// What the companions of every name begin with: ours, and those of Redisson's locks.
pub(crate) const FENCE_COUNTER: &str = "redisson_lock_token";
pub(crate) const FAIR_QUEUE: &str = "redisson_lock_queue";
pub(crate) const FAIR_TIMEOUTS: &str = "redisson_lock_timeout";
pub(crate) const MUTEX_CHANNEL: &str = "redisson_lock__channel";
pub(crate) const UNLOCK_MEMORY: &str = "redisson_unlock_latch";
pub(crate) const SIDES_CHANNEL: &str = "redisson_rwlock";
pub(crate) const WRITERS: &str = "redisson_rwlock_writers";
pub(crate) const READERS: &str = "redisson_rwlock_readers";
pub(crate) const DUE_READERS: &str = "redisson_rwlock_due_readers";
pub(crate) const SEMAPHORE_CHANNEL: &str = "redisson_sc";
pub(crate) const LATCH_CHANNEL: &str = "redisson_countdownlatch__channel";

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

/// What companions end with that begin with the name's hash tag: the permits of a semaphore.
const PERMITS: &str = ":timeout";

/// The same for the time-out of a reader; its number follows.
const READER: &str = ":rwlock_timeout:";

impl LockKey {
    /// The companion key `prefix:{name}`, in the same cluster slot as the name itself.
    // S-2.
    pub(crate) fn companion(&self, prefix: &str) -> String {
        let (open, close) = if self.0.contains('{') { ("", "") } else { ("{", "}") };
        [prefix, ":", open, &self.0, close].concat()
    }

    /// The name as a prefix of companions that follow Redisson's other pattern, `{name}:…`.
    pub(crate) fn hash_tag(&self) -> String {
        if self.0.contains('{') { self.0.to_string() } else { ["{", &self.0, "}"].concat() }
    }

    /// The channel on which a mutex release is published.
    pub(crate) fn mutex_channel(&self) -> String {
        self.companion(MUTEX_CHANNEL)
    }

    /// The fencing counter.
    pub(crate) fn fence_counter(&self) -> String {
        self.companion(FENCE_COUNTER)
    }

    /// Where the permits of a semaphore of this name are that are in use.
    pub(crate) fn permits(&self) -> String {
        [&self.hash_tag(), PERMITS].concat()
    }

    /// The channel of a latch of this name, in Redisson's format: with braces, whatever the name has.
    pub(crate) fn latch_channel(&self) -> String {
        format!("{LATCH_CHANNEL}__{{{self}}}")
    }
}

/// What is wrong with a name that may be the companion of another one: two locks would work on one key.
/// The attribute says the same when it is compiled.
pub(super) fn check(name: &str) -> Result<(), String> {
    for prefix in PREFIXES {
        let found = match name.strip_prefix(prefix) {
            Some(rest) if rest.starts_with(':') => [prefix, ":"].concat(),
            Some(rest) if prefix == LATCH_CHANNEL && rest.starts_with("__{") => {
                [prefix, "__{"].concat()
            }
            _ => continue,
        };
        return Err(format!(
            "it begins with `{found}`, which is reserved for the keys of other locks; put text or a \
             namespace in front of it"
        ));
    }
    let reader =
        name.rsplit_once(READER).is_some_and(|(_, n)| n.bytes().all(|b| b.is_ascii_digit()));
    let ending = match name.ends_with(PERMITS) {
        true => PERMITS,
        false if reader => READER,
        false => return Ok(()),
    };
    match name.contains('{') {
        false => Ok(()),
        true => Err(format!(
            "it ends with `{ending}` behind a hash tag, which is reserved for the keys of other locks; \
             choose another ending"
        )),
    }
}
