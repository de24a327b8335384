//! Errors: one [`LockError`] for callers to match, and one opaque [`StoreError`] that it may hold.
//!
//! One type serves every operation because the bodies of annotated functions need a single
//! `From<LockError>`. Messages are lower-case fragments that never repeat their `source()`.
// S-32.

mod reasons;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::reasons::{BusyReason, LocalHolder, LossCause};
use crate::store::kind::HoldKind;

/// Why a lock could not be acquired, kept or released.
///
/// Being busy is an error only where the caller required the lock: `try_lock` returns `Ok(None)` instead.
///
/// # Examples
///
/// ```
/// use lock_runtime::LockError;
///
/// fn status(error: &LockError) -> u16 {
///     match error {
///         LockError::Busy { .. } => 409,
///         e if e.is_retryable() => 503,
///         _ => 500,
///     }
/// }
/// # assert_eq!(status(&LockError::Closed), 500);
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The wait ran out while another holder had the lock.
    #[error(
        "lock {key:?} is still held after waiting {:?}{}{}",
        rounded(*waited),
        aside(*holder_remaining, |left| format!("its holder's lease has {:?} left", rounded(left))),
        local_holder.as_ref().map(|holder| format!("; {holder}")).unwrap_or_default()
    )]
    #[non_exhaustive]
    Timeout {
        /// The lock's full name.
        key: String,
        /// How long this call waited.
        waited: Duration,
        /// What was left of the holder's lease when the store was last asked. `None` if it has no end, or if no
        /// holder blocked the call but a waiter that goes first.
        holder_remaining: Option<Duration>,
        /// The hold of this process's own that has the lock, if one has.
        local_holder: Option<Box<LocalHolder>>,
    },
    /// The lock is held and the call does not wait, or too many tasks already wait.
    // S-18.
    #[error("lock {key:?} is busy: {reason}")]
    #[non_exhaustive]
    Busy {
        /// The lock's full name.
        key: String,
        /// Which of the two it was.
        reason: BusyReason,
        /// What is left of the holder's lease, if the store was asked, a holder blocks the call, and the lease
        /// has an end.
        holder_remaining: Option<Duration>,
    },
    /// A wait for a count-down latch ended before the latch was open.
    #[error(
        "latch {key:?} is still closed after waiting {:?}{}",
        rounded(*waited),
        aside(*count, |count| format!("its count is {count}"))
    )]
    #[non_exhaustive]
    LatchClosed {
        /// The latch's full name.
        key: String,
        /// How long this call waited; zero if it does not wait.
        waited: Duration,
        /// The remaining count when the store was last asked.
        count: Option<u64>,
    },
    /// The hold is lost: its lease ended, or the store reports that another holder owns the key. The body's
    /// actions after its last check may be unprotected; fencing detects that.
    // S-12.
    #[error("the hold on lock {key:?} was lost: {cause}")]
    #[non_exhaustive]
    Lost {
        /// The lock's full name.
        key: String,
        /// How the loss was noticed.
        cause: LossCause,
    },
    /// The hold does not exclude others, so nothing can be fenced with it; nothing was sent.
    // S-37.
    #[error("{problem}")]
    #[non_exhaustive]
    NotExclusive {
        /// The lock's full name.
        key: String,
        /// What it is and what to do.
        problem: String,
    },
    /// The call would wait for itself. Through one client of a server, a mutex re-enters instead.
    #[error("taking lock {key:?} here would wait for ourselves: {detail}")]
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock's full name.
        key: String,
        /// Which holds exclude each other.
        detail: &'static str,
    },
    /// The name is not a valid lock name; nothing was sent.
    // S-1, S-2, S-3.
    #[error("invalid lock key {key:?}: {problem}")]
    #[non_exhaustive]
    InvalidKey {
        /// The offending name, shortened.
        key: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// The options contradict each other or cannot work; nothing was sent.
    // S-10.
    #[error("invalid lock options: {0}")]
    InvalidOptions(String),
    /// The key holds other data than a lock of this kind; nothing was changed.
    #[error(
        "key {key:?} {}: {found}; use another name or a namespace",
        asked.as_ref().map_or("already holds something else".to_owned(), |asked| format!("cannot be a {asked}"))
    )]
    #[non_exhaustive]
    KeyCollision {
        /// The lock's full name.
        key: String,
        /// What is in the key, in words: "the key holds a fair mutex", "the key holds a string, as `SET NX` leaves".
        found: String,
        /// The kind of lock that was asked for, if a lock was.
        asked: Option<String>,
    },
    /// The lock was granted but not acknowledged by enough replicas, and was released. For clients that ask for
    /// replicas.
    #[error(
        "lock {key:?} reached {acked} of {wanted} replicas in {timeout:?} and was released; check that the \
         replicas follow their master, or allow them more time"
    )]
    #[non_exhaustive]
    NotReplicated {
        /// The lock's full name.
        key: String,
        /// Replicas that acknowledged in time.
        acked: usize,
        /// Replicas that were required.
        wanted: usize,
        /// How long they had to acknowledge.
        timeout: Duration,
    },
    /// An annotated function found no client.
    #[error(
        "no lock client for {site}: call `client.install()` at start-up, wrap the call in \
         `client.scope(…)`, or name one with `client = …`"
    )]
    #[non_exhaustive]
    NoClient {
        /// The annotated function.
        site: String,
    },
    /// There is no policy with that name.
    #[error("no lock policy {policy:?}: {detail}")]
    #[non_exhaustive]
    UnknownPolicy {
        /// The requested name.
        policy: String,
        /// The names that exist, or that there is no configuration.
        detail: String,
    },
    /// The client was shut down.
    #[error("the lock client is shut down")]
    Closed,
    /// The call was polled outside a Tokio runtime, as on a thread of the program's own.
    #[error(
        "no Tokio runtime on this thread, which locks need for their timers and connections: call this \
         from a task, or enter a runtime first, with `Handle::enter` or `Handle::block_on`"
    )]
    NoRuntime,
    /// A blocking call was made in an async task, where it would stop the other tasks of the thread.
    #[cfg(feature = "blocking")]
    #[error(
        "a blocking lock call in an async task would stop the other tasks of its thread: await the async \
         method there, or move the call to `tokio::task::spawn_blocking`"
    )]
    InAsyncTask,
    /// The store failed. The message and the [`source`](StdError::source) are those of the [`StoreError`], so
    /// match on this variant to get the `StoreError` itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LockError {
    /// Returns a [`Timeout`](Self::Timeout) error for code whose own deadline for a lock has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use {lock_runtime::LockError, std::time::Duration};
    /// let error = LockError::timed_out("order:42", Duration::from_micros(1_501_610));
    /// assert_eq!(error.to_string(), "lock \"order:42\" is still held after waiting 1.501s");
    /// ```
    pub fn timed_out(key: impl Into<String>, waited: Duration) -> Self {
        Self::Timeout { key: key.into(), waited, holder_remaining: None, local_holder: None }
    }

    /// Returns true if the wait ended.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::LatchClosed { waited, .. } => !waited.is_zero(),
            _ => false,
        }
    }

    /// Returns true if the call did not wait and another holder has the lock, or too many tasks already wait:
    /// [`Busy`](Self::Busy); for a count-down latch, if it is closed. A wait that ended is a
    /// [timeout](Self::is_timeout).
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Busy { .. } => true,
            Self::LatchClosed { waited, .. } => waited.is_zero(),
            _ => false,
        }
    }

    /// True if another holder has the lock, whether the call waited or not.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_busy() || self.is_timeout()
    }

    /// Returns true if a hold was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns true if the same call may succeed later without a change.
    ///
    /// A lost hold does not count as retryable: the body may have run in part. Of a command under a hold, whose outcome can be unknown,
    /// repeat only one that may run twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::Busy { .. }
            | Self::LatchClosed { .. }
            | Self::NotReplicated { .. } => true,
            Self::Store(error) => error.kind().is_transient(),
            _ => false,
        }
    }

    /// Returns what was left of the holder's lease when the store was last asked, if it was.
    #[must_use]
    pub fn holder_remaining(&self) -> Option<Duration> {
        match self {
            Self::Timeout { holder_remaining, .. } | Self::Busy { holder_remaining, .. } => {
                *holder_remaining
            }
            _ => None,
        }
    }

    /// Returns the lock's name, if the error is about one lock.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Timeout { key, .. }
            | Self::Busy { key, .. }
            | Self::LatchClosed { key, .. }
            | Self::Lost { key, .. }
            | Self::NotExclusive { key, .. }
            | Self::WouldDeadlock { key, .. }
            | Self::InvalidKey { key, .. }
            | Self::KeyCollision { key, .. }
            | Self::NotReplicated { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// Fails outside of a runtime, where timers and connections would panic.
pub(crate) fn check_runtime() -> Result<tokio::runtime::Id, LockError> {
    let current = tokio::runtime::Handle::try_current();
    current.map(|runtime| runtime.id()).map_err(|_| LockError::NoRuntime)
}

impl From<Infallible> for LockError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Formats a known value in brackets for the end of a message; empty if the value is unknown.
fn aside<T>(value: Option<T>, known: impl FnOnce(T) -> String) -> String {
    value.map(|value| format!(" ({})", known(value))).unwrap_or_default()
}

/// To the millisecond, if it is longer than one.
pub(crate) fn rounded(time: Duration) -> Duration {
    match u64::try_from(time.as_millis()) {
        Ok(millis) if millis > 0 => Duration::from_millis(millis),
        _ => time,
    }
}

/// A failure of the store, classified by how a caller can react.
///
/// Opaque on purpose: the Redis client library is not part of this crate's API. The cause is in [`source`](StdError::source).
/// `Debug` writes the kind, the message and all causes in one line, for a `main` that returns the error.
///
/// # Examples
///
/// ```
/// use lock_runtime::LockError;
/// use lock_runtime::error::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Unavailable, "the server cannot be reached");
/// let error = LockError::from(error);
/// assert_eq!(error.to_string(), "the server cannot be reached");
/// assert_eq!(format!("{error:?}"), "Store(Unavailable: the server cannot be reached)");
/// ```
// S-33.
#[derive(Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What a [`StoreError`] means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// There was no connection; nothing was sent.
    Unavailable,
    /// The command was sent and its reply never came: it may or may not have run.
    OutcomeUnknown,
    /// The server answered that it cannot serve the request now (BUSY, LOADING, READONLY, …).
    NotReady,
    /// The server is out of memory and refuses to grant locks; renewal and release still work.
    OutOfMemory,
    /// Wrong password, no authentication, missing permission, or no client certificate that the
    /// server trusts.
    Denied,
    /// The key holds a value of another type or another kind of lock.
    WrongType,
    /// The server refused a command of the caller's own, or it is too long to be sent; nothing ran.
    Command,
    /// The address or a setting is wrong, or the server's certificate is not trusted.
    Config,
    /// The server sent an answer that this version does not understand.
    Protocol,
}

impl StoreErrorKind {
    /// Returns true if waiting and asking again can help.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unavailable | Self::OutcomeUnknown | Self::NotReady)
    }

    /// True if the request may have run all the same.
    pub(crate) fn may_have_run(self) -> bool {
        matches!(self, Self::OutcomeUnknown | Self::Denied | Self::Protocol)
    }
}

impl StoreError {
    /// Creates an error of a kind and a message, one clear sentence fragment.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: Arc::from(message.into()), source: None }
    }

    /// Adds the cause.
    pub(crate) fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the error of a request about the lock `key`, which wanted a lock of the kind `asked` if it wanted one.
    pub(crate) fn about(self, key: &impl ToString, asked: Option<HoldKind>) -> LockError {
        match self.kind {
            StoreErrorKind::WrongType => LockError::KeyCollision {
                key: key.to_string(),
                found: self.to_string(),
                asked: asked.map(|kind| kind.to_string()),
            },
            _ => LockError::Store(self),
        }
    }

    /// Returns the same failure with another kind.
    #[cfg(feature = "redis")]
    pub(crate) fn of_kind(self, kind: StoreErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for StoreError {
    // A `main` that returns the error prints this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)?;
        let mut causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
