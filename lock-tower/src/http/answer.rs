//! What a request that is refused is answered: [`RefusalResponder`] and [`RefusalContext`].

use std::error::Error;
use std::panic::Location;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use lock_runtime::error::StoreErrorKind;
use lock_runtime::observe::NO_POLICY;
use lock_runtime::{Lease, LockError};

use crate::held::HoldTimes;
use crate::http::error::KeyError;
use crate::http::grpc;
use crate::http::refusal_kind::RefusalKind;
use crate::http::response::LockResponse;

impl LockResponse {
    /// Returns the response: problem details, or trailers only for a gRPC client.
    #[must_use]
    pub fn into_http(self) -> Response<Bytes> {
        if self.grpc { grpc::respond(&self) } else { self.problem() }
    }
}

/// Answers as a layer whose client's lock failed with this error, and logs the error.
impl From<LockError> for LockResponse {
    fn from(error: LockError) -> Self {
        Self::from(&error)
    }
}

impl From<&LockError> for LockResponse {
    fn from(error: &LockError) -> Self {
        Self { unexecuted: false, ..RefusalContext::default().lock_error(error) }
    }
}

#[cfg(feature = "axum-08")]
impl axum::response::IntoResponse for LockResponse {
    fn into_response(self) -> axum::response::Response {
        self.into_http().map(axum::body::Body::from)
    }
}

/// Makes the answer to a request that the layer refuses.
///
/// Closures implement it. Return [`LockResponse::into_http`] for the refusals that you do not answer yourself, and
/// mark your own answers as not cacheable. The layer copies the head of each request that it locks if it has a
/// responder.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use http::Response;
/// use http::header::ACCEPT;
/// use http::request::Parts;
/// use lock_tower::LockLayer;
/// use lock_tower::http::LockResponse;
///
/// let layer = LockLayer::http().key("nightly").responder(|refusal: LockResponse, request: &Parts| {
///     if !request.headers.get(ACCEPT).is_some_and(|accept| accept == "text/html") {
///         return refusal.into_http();
///     }
///     let mut response = Response::new(Bytes::from_static(b"<h1>One moment, please</h1>"));
///     *response.status_mut() = refusal.status();
///     response
/// }).build()?;
/// # let _ = layer;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
pub trait RefusalResponder: Send + Sync + 'static {
    /// Returns the answer to `request`, which the layer refuses.
    fn respond(&self, refusal: LockResponse, request: &Parts) -> Response<Bytes>;
}

impl<F> RefusalResponder for F
where
    F: Fn(LockResponse, &Parts) -> Response<Bytes> + Send + Sync + 'static,
{
    fn respond(&self, refusal: LockResponse, request: &Parts) -> Response<Bytes> {
        self(refusal, request)
    }
}

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
    /// How long requests of the same plan hold their locks; `None` if a handler locks by itself.
    pub(crate) times: Option<&'a HoldTimes>,
    /// True if the request's own deadline bounds the wait.
    pub(crate) deadline: bool,
    pub(crate) grpc: bool,
    /// The name of the lock; `None` while the request has no key.
    pub(crate) name: Option<&'a str>,
    pub(crate) policy: &'a str,
    /// Where the layer was made; `None` if a handler locks by itself.
    pub(crate) site: Option<&'static Location<'static>>,
}

impl Default for RefusalContext<'_> {
    /// The context of a handler that locks by itself.
    fn default() -> Self {
        let busy = StatusCode::CONFLICT;
        let (lease, deadline, grpc) = (None, false, false);
        let (times, name, site) = (None, None, None);
        Self { busy, lease, times, deadline, grpc, name, policy: NO_POLICY, site }
    }
}

/// Logs an event about a request, with the fields of its lock: those of a context.
macro_rules! log_request {
    ($level:ident, $context:expr, $error:expr, $text:expr) => {
        tracing::$level!(
            lock.name = ?$context.name.unwrap_or_default(),
            lock.policy = ?$context.policy,
            lock.site = $context.site.map(tracing::field::display),
            error = $error as &(dyn Error + 'static),
            "{}", $text
        )
    };
}

impl RefusalContext<'_> {
    /// Logs and returns the refusal of a request whose lock was not acquired, or was lost.
    pub(crate) fn lock_error(self, error: &LockError) -> LockResponse {
        let kind = match RefusalKind::of(error) {
            RefusalKind::Timeout if self.deadline => RefusalKind::Deadline,
            kind => kind,
        };
        self.log(kind, error);
        let expected = match (kind, self.lease, error.holder_remaining()) {
            (RefusalKind::Unavailable, ..) => STORE_OUTAGE,
            // With a watchdog the remaining lease is always almost the whole lease.
            (_, Some(Lease::Fixed(_)), Some(left)) => left,
            _ => self.times.map_or(Duration::ZERO, HoldTimes::mean),
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
                    log_request!(error, self, error, "requests are refused");
                }
                return self.refusal(RefusalKind::Misconfigured, None, Duration::ZERO);
            }
        };
        log_request!(debug, self, error, "request refused");
        self.refusal(kind, Some(error.to_string()), Duration::ZERO)
    }

    /// Logs and returns the refusal of a request whose client left before the body was complete.
    pub(crate) fn body_error(self, error: &(dyn Error + 'static)) -> LockResponse {
        let what = "request dropped: its client left while the request waited for the lock";
        log_request!(debug, self, error, what);
        self.refusal(RefusalKind::BodyIncomplete, None, Duration::ZERO)
    }

    fn refusal(
        self,
        kind: RefusalKind,
        detail: Option<String>,
        expected: Duration,
    ) -> LockResponse {
        let status = kind.status(self.busy);
        let is_retryable =
            ![StatusCode::BAD_REQUEST, StatusCode::INTERNAL_SERVER_ERROR].contains(&status);
        LockResponse {
            kind,
            status,
            retry_after: is_retryable.then(|| retry_after(expected)),
            detail,
            unexecuted: kind != RefusalKind::Lost,
            grpc: self.grpc,
        }
    }

    fn log(self, kind: RefusalKind, error: &LockError) {
        use RefusalKind as Kind;

        // The error's key includes the namespace.
        let log = RefusalContext { name: error.key().or(self.name), ..self };
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
