//! What is said about a lock where it is declared: its kind, and options any of which may be left out.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::LockError;
use crate::options::{Lease, LockOptions, OnLost, OnReleaseLost, Replicas, Wait};

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
    /// One permit of a [`Semaphore`](crate::Semaphore) that has so many.
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

/// What one place says about a lock: an attribute, a layer, a policy of a configuration.
///
/// A field that is `None` leaves the matter to whoever has the next word.
///
/// # Examples
///
/// ```
/// use lock_runtime::options::LockSettings;
/// use lock_runtime::{LockOptions, Wait};
/// use std::time::Duration;
///
/// let call = LockSettings { wait: Some(Wait::Never), ..LockSettings::default() };
/// let policy = LockSettings {
///     wait: Some(Wait::Forever),
///     max_hold: Some(Duration::from_secs(60)),
///     ..LockSettings::default()
/// };
/// let options = call.or(policy).apply_to(LockOptions::default())?;
/// assert_eq!(options.wait(), Wait::Never);
/// assert_eq!(options.max_hold(), Some(Duration::from_secs(60)));
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockSettings {
    /// What kind of lock it is.
    pub kind: Option<LockKind>,
    /// How long to wait for it.
    pub wait: Option<Wait>,
    /// How long the store keeps it.
    pub lease: Option<Lease>,
    /// What happens to the body when the hold is lost.
    pub on_lost: Option<OnLost>,
    /// What happens when the release finds the hold gone.
    pub on_release_lost: Option<OnReleaseLost>,
    /// For how long it is kept at least, however soon it is let go.
    pub at_least: Option<Duration>,
    /// After how long the watchdog stops renewing.
    pub max_hold: Option<Duration>,
    /// How many tasks of this client may wait for the key.
    pub max_waiters: Option<usize>,
    /// How many replicas have to know of a hold.
    pub replicas: Option<Replicas>,
}

impl LockSettings {
    /// These settings, and where they are silent those of `lower`.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        Self {
            kind: self.kind.or(lower.kind),
            wait: self.wait.or(lower.wait),
            lease: self.lease.or(lower.lease),
            on_lost: self.on_lost.or(lower.on_lost),
            on_release_lost: self.on_release_lost.or(lower.on_release_lost),
            at_least: self.at_least.or(lower.at_least),
            max_hold: self.max_hold.or(lower.max_hold),
            max_waiters: self.max_waiters.or(lower.max_waiters),
            replicas: self.replicas.or(lower.replicas),
        }
    }

    /// Writes what is said over `options` and checks the whole.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] as
    /// [`LockOptionsBuilder::build`](crate::options::LockOptionsBuilder::build).
    pub fn apply_to(self, options: LockOptions) -> Result<LockOptions, LockError> {
        let mut builder = options.to_builder();
        if let Some(wait) = self.wait {
            builder = builder.wait(wait);
        }
        if let Some(lease) = self.lease {
            builder = builder.lease(lease);
        }
        if let Some(on_lost) = self.on_lost {
            builder = builder.on_lost(on_lost);
        }
        if let Some(on_release_lost) = self.on_release_lost {
            builder = builder.on_release_lost(on_release_lost);
        }
        if let Some(at_least) = self.at_least {
            builder = builder.at_least(at_least);
        }
        if let Some(max_hold) = self.max_hold {
            builder = builder.max_hold(max_hold);
        }
        if let Some(max_waiters) = self.max_waiters {
            builder = builder.max_waiters(max_waiters);
        }
        if let Some(Replicas { at_least, timeout }) = self.replicas {
            builder = builder.replicas(at_least, timeout);
        }
        builder.build()
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
pub enum RestartGuard {
    /// A restarted server counts at once: see
    /// [`QuorumBuilder::without_restart_guard`](crate::quorum::QuorumBuilder::without_restart_guard).
    Off,
    /// A server counts once it has run for so long: see
    /// [`QuorumBuilder::restart_guard`](crate::quorum::QuorumBuilder::restart_guard).
    For(Duration),
}
