//! Makes refusals of errors, and logs them.

use std::error::Error;
use std::panic::Location;
use std::time::Duration;

use http::StatusCode;
use lock_runtime::error::StoreErrorKind;
use lock_runtime::observe::NO_POLICY;
use lock_runtime::{Lease, LockError};

use crate::http::answer::kind::RefusalKind;
use crate::http::answer::response::LockResponse;
use crate::http::error::KeyError;

/// How long a store outage is expected to last: longer than a reconnect, shorter than a failover.
const STORE_OUTAGE: Duration = Duration::from_secs(2);

/// The longest `Retry-After`. A holder may release long before its lease ends.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The properties of a request on which a refusal depends, besides its reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalContext<'a> {
    /// The status for a busy lock.
    pub(crate) busy: StatusCode,
    pub(crate) lease: Option<Lease>,
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

/// Logs an event about a request, with the fields of its lock.
macro_rules! log_request {
    ($level:ident, $log:expr, $error:expr, $text:expr) => {
        tracing::$level!(
            lock.name = ?$log.name.unwrap_or_default(),
            lock.policy = ?$log.policy,
            lock.site = $log.site.map(tracing::field::display),
            error = $error as &(dyn Error + 'static),
            "{}", $text
        )
    };
}

impl RefusalContext<'_> {
    /// The context of a handler that locks by itself.
    pub(crate) fn of_handler() -> Self {
        let log = LogFields { name: None, policy: NO_POLICY, site: None };
        Self { busy: StatusCode::CONFLICT, lease: None, deadline: false, grpc: false, log }
    }

    /// Logs and returns the refusal of a request whose lock was not acquired, or was lost.
    pub(crate) fn lock_error(self, error: &LockError) -> LockResponse {
        let kind = match RefusalKind::of(error) {
            RefusalKind::Timeout if self.deadline => RefusalKind::Deadline,
            kind => kind,
        };
        log(kind, self.log, error);
        let expected = match (kind, self.lease, error.holder_remaining()) {
            (RefusalKind::Unavailable, ..) => STORE_OUTAGE,
            // With a watchdog the remaining lease is always almost the whole lease.
            (_, Some(Lease::Fixed(_)), Some(left)) => left,
            _ => Duration::ZERO,
        };
        self.refusal(kind, None, expected)
    }

    /// Returns the refusal of a request that has no key, and logs it unless `known`: then an operator has been told.
    pub(crate) fn key_error(self, error: &KeyError, known: bool) -> LockResponse {
        let kind = match error {
            KeyError::Invalid(error) => return self.lock_error(error),
            KeyError::Missing(_) => RefusalKind::KeyMissing,
            KeyError::Malformed { .. } => RefusalKind::KeyInvalid,
            KeyError::Misplaced(_) => {
                if !known {
                    log_request!(error, self.log, error, "requests are refused");
                }
                return self.refusal(RefusalKind::Misconfigured, None, Duration::ZERO);
            }
        };
        log_request!(debug, self.log, error, "request refused");
        self.refusal(kind, Some(error.to_string()), Duration::ZERO)
    }

    /// Logs and returns the refusal of a request whose client left before the body was complete.
    pub(crate) fn body_error(self, error: &(dyn Error + 'static)) -> LockResponse {
        let what = "request dropped: its client left while the request waited for the lock";
        log_request!(debug, self.log, error, what);
        self.refusal(RefusalKind::BodyIncomplete, None, Duration::ZERO)
    }

    fn refusal(
        self,
        kind: RefusalKind,
        detail: Option<String>,
        expected: Duration,
    ) -> LockResponse {
        LockResponse {
            kind,
            status: kind.status(self.busy),
            retry_after: kind.is_retryable().then(|| retry_after(expected)),
            detail,
            unexecuted: kind != RefusalKind::Lost,
            grpc: self.grpc,
        }
    }
}

fn log(kind: RefusalKind, log: LogFields<'_>, error: &LockError) {
    use RefusalKind as Kind;

    // The error's key includes the namespace.
    let log = LogFields { name: error.key().or(log.name), ..log };
    match kind {
        Kind::Busy | Kind::Timeout | Kind::Deadline | Kind::KeyInvalid => {
            log_request!(debug, log, error, "request refused");
        }
        _ if kind == Kind::Misconfigured || needs_an_operator(error) => {
            log_request!(error, log, error, "request refused: the lock cannot be acquired");
        }
        Kind::Lost => log_request!(warn, log, error, "request cut off"),
        _ => log_request!(warn, log, error, "request refused"),
    }
}

/// True if the store fails in a way that only an operator can fix.
fn needs_an_operator(error: &LockError) -> bool {
    use StoreErrorKind as Kind;

    let LockError::Store(error) = error else { return false };
    matches!(error.kind(), Kind::OutOfMemory | Kind::Denied | Kind::Config | Kind::Protocol)
}

/// Returns whole seconds, at least one, with up to a quarter of random jitter, so that refused clients do
/// not retry at the same time.
fn retry_after(expected: Duration) -> Duration {
    let spread = expected.min(MAX_RETRY_AFTER).mul_f64(1.0 + 0.25 * fastrand::f64());
    let rounded_up = spread.as_secs() + u64::from(spread.subsec_nanos() > 0);
    Duration::from_secs(rounded_up.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_whole_seconds_with_jitter() {
        let advice = |expected| (0..200).map(move |_| retry_after(expected)).collect::<Vec<_>>();
        let secs = Duration::from_secs;
        assert!(advice(Duration::ZERO).iter().all(|after| *after == secs(1)));
        assert!(advice(Duration::from_millis(800)).iter().all(|after| *after == secs(1)));
        let spread = advice(secs(20));
        assert!(spread.iter().all(|after| (secs(20)..=secs(25)).contains(after)), "{spread:?}");
        assert!(spread.iter().any(|after| *after != spread[0]), "{spread:?}");
        let longest = advice(Duration::MAX);
        assert!(longest.iter().all(|after| (secs(60)..=secs(75)).contains(after)));
    }
}
