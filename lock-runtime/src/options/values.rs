//! The values of options: kinds, waits, leases, and what happens when a hold is lost.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::DEFAULT_LEASE;

/// Kind of a lock as attributes, layers and policies name it.
///
/// # Examples
///
/// ```
/// use lock_runtime::LockKind;
/// use std::num::NonZeroU32;
///
/// let three = LockKind::Semaphore(NonZeroU32::new(3).unwrap());
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
    Semaphore(NonZeroU32),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Wait {
    /// Ask once; do not wait.
    Never,
    /// Wait this long, local queue and network included.
    UpTo(Duration),
    /// Wait until the lock is free. An unreachable store still ends the wait, after
    /// [`store_patience`](crate::LockClientBuilder::store_patience).
    #[default]
    Forever,
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
/// let job = LockOptions::builder().lease(Lease::Watchdog(Duration::from_secs(10))).build()?;
/// // Never renewed: the body is cut off after a minute.
/// let quick = LockOptions::builder().lease(Lease::Fixed(Duration::from_secs(60))).build()?;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// Renewed every third of this while the hold lives. A longer lease survives longer outages of the store; a
    /// shorter one frees a dead process's locks sooner.
    Watchdog(Duration),
    /// Not renewed by itself; only [`extend`](crate::LockGuard::extend) moves its end. Each third of it the store is
    /// asked whether the lock was taken away, which moves nothing.
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
/// attributes and layers, which release by themselves.
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
    /// The minimum number of replicas.
    pub at_least: u32,
    /// How long they have to acknowledge.
    pub timeout: Duration,
}

impl Replicas {
    /// Requires at least that many replicas, within `timeout`.
    #[must_use]
    pub const fn new(at_least: u32, timeout: Duration) -> Self {
        Self { at_least, timeout }
    }
}

/// What a [`Quorum`](crate::quorum::Quorum) does about servers that restarted: `lock.restart_guard` of a configuration.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{LockConfig, RestartGuard};
/// use std::time::Duration;
///
/// let text = "[lock]\nquorum = ['redis://one', 'redis://two', 'redis://three']\nrestart_guard = '30s'";
/// let guard = LockConfig::from_toml(text)?.restart_guard();
/// assert_eq!(guard, Some(RestartGuard::For(Duration::from_secs(30))));
/// # Ok::<_, lock_runtime::policy::ConfigError>(())
/// ```
#[cfg_attr(not(feature = "policy"), allow(unreachable_pub, reason = "it is exported by `policy`"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A restarted server counts at once: see
    /// [`QuorumBuilder::without_restart_guard`](crate::quorum::QuorumBuilder::without_restart_guard).
    Off,
    /// A server counts once it has run for this long: see
    /// [`QuorumBuilder::restart_guard`](crate::quorum::QuorumBuilder::restart_guard).
    For(Duration),
}
