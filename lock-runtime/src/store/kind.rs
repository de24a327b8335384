//! Kinds of locks.

use std::fmt;

/// The kind of lock that a name is used as.
///
/// With the feature `survey` it is serialized as its name in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "survey", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "survey", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HoldKind {
    /// Exclusive and re-entrant; Redisson's `getLock` and `getFencedLock`.
    // S-25.
    Mutex,
    /// A mutex that serves waiters of all processes in the order in which they arrived; `getFairLock`.
    // S-26.
    Fair,
    /// The shared side of a read/write lock; `getReadWriteLock`.
    // S-27.
    Read,
    /// Its exclusive side.
    Write,
    /// One of a limited number of permits; `getPermitExpirableSemaphore`.
    // S-30.
    Semaphore,
    /// Several locks at once, all or none.
    // S-28.
    Multi,
    /// Not a lock but a count that tasks wait for; `getCountDownLatch`.
    // S-30.
    Latch,
}

impl HoldKind {
    /// True if a waiter has a place in the store that it must refresh and leave: in the queue of a
    /// fair lock, among the waiting writers and the waiting readers.
    // S-26, S-27.
    pub(crate) fn has_places(self) -> bool {
        matches!(self, Self::Fair | Self::Read | Self::Write)
    }

    /// True if a re-entry uses the hold around it. Permits are counted instead.
    // S-6.
    pub(crate) fn is_reentrant(self) -> bool {
        self != Self::Semaphore
    }
}

impl fmt::Display for HoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::Fair => "fair mutex",
            Self::Read => "read lock",
            Self::Write => "write lock",
            Self::Semaphore => "semaphore",
            Self::Multi => "multi lock",
            Self::Latch => "count-down latch",
        })
    }
}
