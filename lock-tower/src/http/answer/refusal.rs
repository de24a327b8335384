//! [`Refusal`]: why the layer does not run a request, and what the client may learn of it.
//!
//! A refusal never contains the key, the owner id or the token: they may contain names, addresses and
//! secrets. The operator finds them in the log.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use lock_runtime::error::{BusyReason, StoreErrorKind};
use lock_runtime::observe::NO_POLICY;
use lock_runtime::policy::BusyStatus;
use lock_runtime::{Lease, LockError};

use crate::http::error::KeyError;

/// How long a store outage is expected to last: longer than a reconnect, shorter than a failover.
const STORE_OUTAGE: Duration = Duration::from_secs(2);

/// Why the layer did not run a request, or cut it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Another holder has the lock, and the layer does not wait.
    Busy,
    /// The request waited, and the lock is still held.
    Timeout,
    /// The request's own deadline passed before it had the lock.
    Deadline,
    /// Too many requests wait for the lock already.
    Overloaded,
    /// The store cannot be reached or fails, or the client is shut down.
    Unavailable,
    /// The request is missing a value that the lock key needs.
    KeyMissing,
    /// A value that the lock key needs is malformed, or the key is too long.
    KeyInvalid,
    /// The client left before its request's body was complete, while the request waited.
    BodyIncomplete,
    /// The hold was lost before the handler was done.
    Lost,
    /// There is no client, no such policy, or the layer is in the wrong place.
    Misconfigured,
}

impl RefusalKind {
    /// Returns the name in lower case, as in the last segment of a problem's `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "lock-busy",
            Self::Timeout => "lock-timeout",
            Self::Deadline => "lock-deadline",
            Self::Overloaded => "lock-overloaded",
            Self::Unavailable => "lock-unavailable",
            Self::KeyMissing => "lock-key-missing",
            Self::KeyInvalid => "lock-key-invalid",
            Self::BodyIncomplete => "lock-body-incomplete",
            Self::Lost => "lock-lost",
            Self::Misconfigured => "lock-misconfigured",
        }
    }

    /// Returns one sentence for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Busy => "Another request holds this resource",
            Self::Timeout => "Other requests held this resource for too long",
            Self::Deadline => "The request's deadline passed before this resource was free",
            Self::Overloaded => "Too many requests wait for this resource",
            Self::Unavailable => "Locks are not available at the moment",
            Self::KeyMissing => "The request is missing a value that the lock key needs",
            Self::KeyInvalid => "The request names no valid resource",
            Self::BodyIncomplete => "The request's body ended before it was complete",
            Self::Lost => "The request lost its hold on the resource before it was done",
            Self::Misconfigured => "The server cannot lock this resource",
        }
    }

    fn status(self, busy: BusyStatus) -> StatusCode {
        let busy_status = StatusCode::from_u16(busy.code()).unwrap_or(StatusCode::CONFLICT);
        // With 429 the key names the caller, so a caller whose wait ran out also asks too often.
        let names_caller = busy == BusyStatus::TooManyRequests;
        match self {
            Self::Busy => busy_status,
            Self::Timeout | Self::Overloaded if names_caller => busy_status,
            Self::Timeout | Self::Deadline | Self::Overloaded | Self::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::KeyMissing | Self::KeyInvalid | Self::BodyIncomplete => StatusCode::BAD_REQUEST,
            // Proxies retry a 503, and the handler may have run.
            Self::Lost | Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::Timeout | Self::Deadline | Self::Overloaded | Self::Unavailable
        )
    }

    fn of(error: &LockError) -> Self {
        match error {
            LockError::Busy { reason: BusyReason::Held, .. } => Self::Busy,
            LockError::Busy { .. } => Self::Overloaded,
            LockError::Timeout { .. } => Self::Timeout,
            LockError::Store(_) | LockError::NotReplicated { .. } | LockError::Closed => {
                Self::Unavailable
            }
            LockError::InvalidKey { .. } => Self::KeyInvalid,
            LockError::Lost { .. } => Self::Lost,
            _ => Self::Misconfigured,
        }
    }
}

/// A request that the layer refuses: the input of a [`RefusalResponder`](crate::http::RefusalResponder).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    status: StatusCode,
    retry_after: Option<Duration>,
    detail: Option<String>,
    grpc: bool,
}

impl Refusal {
    /// Returns why the request is refused.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// Returns the status for the answer, with the layer's
    /// [`busy`](crate::http::HttpLockLayerBuilder::busy) status for a busy lock.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns after how long the client may retry: whole seconds, at least one, with random jitter. `None`
    /// if a retry of the same request cannot succeed.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns what is wrong with the request, if the request is at fault.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// True if the handler has not run, so that the client can send the same request again, whatever its
    /// method. False after a loss: how far the handler came is unknown.
    #[must_use]
    pub fn is_unexecuted(&self) -> bool {
        self.kind != RefusalKind::Lost
    }

    /// True if the client speaks gRPC and understands no other answer.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }
}

/// The properties of a request on which a refusal depends, besides its reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalContext<'a> {
    pub(crate) busy: BusyStatus,
    pub(crate) lease: Option<Lease>,
    pub(crate) times: &'a HoldTimes,
    /// True if the request's own deadline bounds the wait.
    pub(crate) deadline: bool,
    pub(crate) grpc: bool,
    pub(crate) log: LogFields<'a>,
}

/// The fields of the lock in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogFields<'a> {
    /// `None` while the request has no key.
    pub(crate) name: Option<&'a str>,
    pub(crate) policy: &'a str,
    /// Where the layer was made; `None` if a handler locks by itself.
    pub(crate) site: Option<&'static Location<'static>>,
}

impl Default for LogFields<'_> {
    fn default() -> Self {
        Self { name: None, policy: NO_POLICY, site: None }
    }
}

/// Logs an event about a request, with the fields of its lock.
macro_rules! log_request {
    ($level:ident, $log:expr, $($rest:tt)+) => {
        tracing::$level!(
            lock.name = ?$log.name.unwrap_or_default(),
            lock.policy = ?$log.policy,
            lock.site = $log.site.map(tracing::field::display),
            $($rest)+
        )
    };
}

impl RefusalContext<'_> {
    /// Logs and returns the refusal of a request whose lock was not acquired, or was lost.
    pub(crate) fn lock_error(self, error: &LockError) -> Refusal {
        let kind = match RefusalKind::of(error) {
            RefusalKind::Timeout if self.deadline => RefusalKind::Deadline,
            kind => kind,
        };
        log(kind, self.log, error);
        let expected = match (error, self.lease, error.holder_remaining()) {
            (LockError::Store(_) | LockError::NotReplicated { .. } | LockError::Closed, ..) => {
                STORE_OUTAGE
            }
            // With a watchdog the remaining lease is always almost the whole lease.
            (_, Some(Lease::Fixed(_)), Some(left)) => left,
            _ => self.times.mean(),
        };
        self.refusal(kind, None, expected)
    }

    /// Logs and returns the refusal of a request that has no key.
    pub(crate) fn key_error(self, error: &KeyError) -> Refusal {
        let kind = match error {
            KeyError::Invalid(error) => return self.lock_error(error),
            KeyError::Missing(_) => RefusalKind::KeyMissing,
            KeyError::Malformed { .. } => RefusalKind::KeyInvalid,
            KeyError::Misplaced(_) => {
                let error = error as &dyn std::error::Error;
                log_request!(error, self.log, error, "request refused");
                return self.refusal(RefusalKind::Misconfigured, None, Duration::ZERO);
            }
        };
        let cause = error as &dyn std::error::Error;
        log_request!(debug, self.log, error = cause, "request refused");
        self.refusal(kind, Some(error.to_string()), Duration::ZERO)
    }

    /// Logs and returns the refusal of a request whose client left before the body was complete.
    pub(crate) fn body_error(self, error: &(dyn std::error::Error + 'static)) -> Refusal {
        let what = "request dropped: its client left while the request waited for the lock";
        log_request!(debug, self.log, error, "{what}");
        self.refusal(RefusalKind::BodyIncomplete, None, Duration::ZERO)
    }

    fn refusal(self, kind: RefusalKind, detail: Option<String>, expected: Duration) -> Refusal {
        let retry_after = kind.is_retryable().then(|| Duration::from_secs(retry_after(expected)));
        let (status, grpc) = (kind.status(self.busy), self.grpc);
        Refusal { kind, status, retry_after, detail, grpc }
    }
}

fn log(kind: RefusalKind, log: LogFields<'_>, error: &LockError) {
    use RefusalKind as Kind;

    // The error's key includes the namespace.
    let log = LogFields { name: error.key().or(log.name), ..log };
    let cause = error as &dyn std::error::Error;
    match kind {
        Kind::Busy | Kind::Timeout | Kind::Deadline | Kind::KeyInvalid => {
            log_request!(debug, log, error = cause, "request refused");
        }
        _ if kind == Kind::Misconfigured || needs_an_operator(error) => {
            let what = "request refused: the lock cannot be acquired";
            log_request!(error, log, error = cause, "{what}");
        }
        Kind::Lost => log_request!(warn, log, error = cause, "request cut off"),
        _ => log_request!(warn, log, error = cause, "request refused"),
    }
}

/// True if the store fails in a way that only an operator can mend.
fn needs_an_operator(error: &LockError) -> bool {
    let LockError::Store(error) = error else { return false };
    matches!(
        error.kind(),
        StoreErrorKind::OutOfMemory
            | StoreErrorKind::Denied
            | StoreErrorKind::Config
            | StoreErrorKind::Protocol
    )
}

/// The longest `Retry-After`. A holder may release long before its lease ends.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A running mean of how long the requests of a layer hold their locks.
#[derive(Debug, Default)]
pub(crate) struct HoldTimes {
    /// In nanoseconds; zero before the first hold.
    mean: AtomicU64,
}

impl HoldTimes {
    pub(crate) fn record(&self, held: Duration) {
        let held = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX).max(1);
        let step = |mean: u64| match mean {
            0 => held,
            // An eighth of the way, so that one request changes the mean little.
            _ => mean - mean / 8 + held / 8,
        };
        // Of two concurrent calls, one may be lost, which a mean tolerates.
        self.mean.store(step(self.mean.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Returns the mean; zero before the first hold.
    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean.load(Ordering::Relaxed))
    }
}

/// Returns whole seconds, at least one, with up to a quarter of random jitter, so that refused clients do
/// not retry at the same time.
pub(crate) fn retry_after(expected: Duration) -> u64 {
    let spread = expected.min(MAX_RETRY_AFTER).mul_f64(1.0 + 0.25 * fastrand::f64());
    let rounded_up = spread.as_secs() + u64::from(spread.subsec_nanos() > 0);
    rounded_up.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_slowly() {
        let times = HoldTimes::default();
        assert_eq!(times.mean(), Duration::ZERO);
        times.record(Duration::from_secs(8));
        assert_eq!(times.mean(), Duration::from_secs(8));
        times.record(Duration::from_secs(16));
        assert_eq!(times.mean(), Duration::from_secs(9));
        (0..100).for_each(|_| times.record(Duration::from_millis(10)));
        assert!(times.mean() < Duration::from_millis(11), "{:?}", times.mean());
    }

    #[test]
    fn retry_after_is_whole_seconds_with_jitter() {
        let advice = |expected| (0..200).map(move |_| retry_after(expected)).collect::<Vec<_>>();
        assert!(advice(Duration::ZERO).iter().all(|secs| *secs == 1));
        assert!(advice(Duration::from_millis(800)).iter().all(|secs| *secs == 1));
        let spread = advice(Duration::from_secs(20));
        assert!(spread.iter().all(|secs| (20..=25).contains(secs)), "{spread:?}");
        assert!(spread.iter().any(|secs| *secs != spread[0]), "{spread:?}");
        assert!(advice(Duration::MAX).iter().all(|secs| (60..=75).contains(secs)));
    }
}
