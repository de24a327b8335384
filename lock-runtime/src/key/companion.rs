//! The keys and channels that belong to a lock's name, and the names that are reserved for them.
// S-2.

pub(crate) use lock_syntax::name::{
    DUE_READERS, FAIR_QUEUE, FAIR_TIMEOUTS, FENCE_COUNTER, LATCH_CHANNEL, MUTEX_CHANNEL, PERMITS,
    READERS, SEMAPHORE_CHANNEL, SIDES_CHANNEL, WRITERS,
};
use lock_syntax::name::{Reserved, reserved};

use super::LockKey;

impl LockKey {
    /// Returns the companion key `prefix:{name}`, in the same cluster slot as the name itself.
    // S-2.
    pub(crate) fn companion(&self, prefix: &str) -> String {
        let (open, close) = self.braces();
        [prefix, ":", open, &self.0, close].concat()
    }

    /// Returns two companion keys in one piece, and where the second begins.
    pub(crate) fn two_companions(&self, first: &str, second: &str) -> (Box<str>, usize) {
        let (open, close) = self.braces();
        let both = [first, ":", open, &self.0, close, second, ":", open, &self.0, close].concat();
        let end = first.len() + ":".len() + open.len() + self.0.len() + close.len();
        (both.into(), end)
    }

    /// Makes the name a hash tag, unless it contains one.
    fn braces(&self) -> (&'static str, &'static str) {
        if self.0.contains('{') { ("", "") } else { ("{", "}") }
    }

    /// Returns the name as a prefix of companions that follow Redisson's other pattern, `{name}:…`.
    pub(crate) fn hash_tag(&self) -> String {
        if self.0.contains('{') { self.0.to_string() } else { ["{", &self.0, "}"].concat() }
    }

    /// Returns the channel on which a mutex release is published.
    pub(crate) fn mutex_channel(&self) -> String {
        self.companion(MUTEX_CHANNEL)
    }

    /// Returns the key of the fencing counter.
    pub(crate) fn fence_counter(&self) -> String {
        self.companion(FENCE_COUNTER)
    }

    /// Returns the key of the permits in use of a semaphore of this name.
    pub(crate) fn permits(&self) -> String {
        [&self.hash_tag(), PERMITS].concat()
    }

    /// Returns the channel of a latch of this name, in Redisson's format: with braces, even if the name has
    /// some.
    pub(crate) fn latch_channel(&self) -> String {
        format!("{LATCH_CHANNEL}__{{{self}}}")
    }
}

/// Refuses a name that is reserved for the keys of other locks. The attribute refuses the same names at compile
/// time.
pub(super) fn check(name: &str) -> Result<(), String> {
    Err(match reserved(name) {
        None => return Ok(()),
        Some(Reserved::Beginning(found)) => format!(
            "it begins with `{found}`, which is reserved for the keys of other locks; put text or a \
             namespace in front of it"
        ),
        Some(Reserved::Ending(found)) => format!(
            "it ends with `{found}` behind a hash tag, which is reserved for the keys of other locks; \
             choose another ending"
        ),
    })
}
