//! The values of options: kinds, waits, leases, and what happens when a hold is lost.

use std::fmt;
use std::time::Duration;

use super::{DEFAULT_LEASE, DEFAULT_WAIT};

/// Kind of a lock as attributes, layers and policies name it.
///
/// # Examples
///
/// ```
/// use lock_runtime::LockKind;
///
/// let three = LockKind::Semaphore(3);
/// assert_eq!(three.to_string(), "semaphore(3)");
/// assert_eq!(LockKind::default(), LockKind::Mutex);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LockKind {
    /// [`Mutex`](crate::Mutex)
    #[default]
    Mutex,
    /// [`FairMutex`](crate::FairMutex)
    Fair,
    /// The read side of an [`RwLock`](crate::RwLock).
    Read,
    /// The write side of an [`RwLock`](crate::RwLock).
    Write,
    /// One permit of a [`Semaphore`](crate::Semaphore) with this limit.
    Semaphore(u32),
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex => f.write_str("mutex"),
            Self::Fair => f.write_str("fair"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Semaphore(limit) => write!(f, "semaphore({limit})"),
        }
    }
}

/// How long an acquire may wait for the lock.
///
/// # Examples
///
/// ```
/// use lock_runtime::Wait;
/// use std::time::Duration;
///
/// assert_eq!(Wait::from(Duration::from_secs(2)), Wait::UpTo(Duration::from_secs(2)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Ask once; do not wait.
    None,
    /// Wait this long, local queue and network included.
    UpTo(Duration),
    /// Wait until the lock is free. An unreachable store still ends the wait, after
    /// [`store_patience`](crate::LockClientBuilder::store_patience).
    Forever,
}

/// Up to [`DEFAULT_WAIT`].
impl Default for Wait {
    fn default() -> Self {
        Self::UpTo(DEFAULT_WAIT)
    }
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        Self::UpTo(limit)
    }
}

/// How long the store keeps the lock for this client.
///
/// A holder stops before the store does: its deadline is the lease less 1 % and 2 ms, counted from before
/// the request was sent, because the two clocks may run at different speeds. A body under a lease of 2 s
/// that is not renewed is cut off after 1.978 s, one under 10 s after 9.898 s. Give a fixed lease that much
/// more than the work takes.
///
/// # Examples
///
/// ```
/// use lock_runtime::{Lease, LockOptions};
/// use std::time::Duration;
///
/// // Kept alive for as long as the guard lives; free 10 s after this process dies.
/// let job = LockOptions::new().lease(Lease::Watchdog(Duration::from_secs(10)));
/// // Never renewed: the body is cut off after a minute.
/// let quick = LockOptions::new().lease(Duration::from_secs(60));
/// assert_eq!(quick, LockOptions::new().lease(Lease::Fixed(Duration::from_secs(60))));
/// # drop(job);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// Renewed before a third of this has passed, while the hold lives. A longer lease survives longer outages of the store; a
    /// shorter one frees a dead process's locks sooner.
    Watchdog(Duration),
    /// Never renewed. [`extend`](crate::LockGuard::extend) moves its end, and so does a re-entry whose own lease, of either
    /// kind, is longer than what is left: once, to its lease from then on. Each third of it the store is asked whether the
    /// lock was taken away, which moves nothing.
    Fixed(Duration),
}

impl Lease {
    /// Returns how long the store keeps the key unless it is renewed.
    #[must_use]
    pub const fn duration(self) -> Duration {
        match self {
            Self::Watchdog(lease) | Self::Fixed(lease) => lease,
        }
    }
}

/// A fixed lease.
impl From<Duration> for Lease {
    fn from(lease: Duration) -> Self {
        Self::Fixed(lease)
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self::Watchdog(DEFAULT_LEASE)
    }
}

/// What happens to a protected body whose hold is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLost {
    /// Drop the body at once and report the loss. The safe choice.
    // S-13.
    #[default]
    Cancel,
    /// Let the body finish, then report the loss. For bodies that must not stop half way and whose
    /// writes are fenced.
    Finish,
}

/// What happens when a body has ended in time, but its release finds the hold gone: the body may have
/// overlapped with another holder.
///
/// A guard's [`release`](crate::LockGuard::release) always reports it to its caller; this option is for
/// `run`, attributes and layers, which release by themselves.
// S-13.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnReleaseLost {
    /// Keep the body's value and log a warning.
    #[default]
    Log,
    /// Report [`LockError::Lost`](crate::LockError::Lost) in place of the body's value.
    Error,
}

/// How many replicas must confirm a hold before it counts.
// S-31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replicas {
    /// The minimum number of replicas that acknowledge it.
    pub acks: u32,
    /// How long they have to acknowledge.
    pub timeout: Duration,
}

impl Replicas {
    /// Requires acknowledgements of at least that many replicas, within `timeout`.
    #[must_use]
    pub const fn new(acks: u32, timeout: Duration) -> Self {
        Self { acks, timeout }
    }
}

/// What a quorum does about servers that restarted: see
/// [`connect_quorum`](crate::LockClientBuilder::connect_quorum).
///
/// # Examples
///
/// ```
/// use lock_runtime::client::RestartGuard;
/// use std::time::Duration;
///
/// // The longest lease or `at_least` in use.
/// let guard = RestartGuard::For(Duration::from_secs(30));
/// # let _ = guard;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A restarted server counts at once. Two clients can then hold one lock if a server forgets its grants: choose this
    /// only where no restart loses a write, as with `appendonly yes` and `appendfsync always` on every server.
    Off,
    /// A server counts once it has run for this long: the longest lease or `at_least` in use. The holds that a server
    /// forgot in a restart have then ended before it counts again. No lock can be acquired for this long after a majority
    /// has restarted or was started for the first time.
    For(Duration),
}

#[cfg(any(feature = "redis", feature = "__internals"))]
impl RestartGuard {
    /// How long a server does not count, if so.
    pub(crate) fn duration(self) -> Option<Duration> {
        match self {
            Self::For(guard) => Some(guard),
            Self::Off => None,
        }
    }
}
