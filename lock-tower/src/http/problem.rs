//! What a client is told when the lock kept its request from running: problem details (RFC 9457).
//!
//! Never the key, the owner or the token, which may be made of names, addresses and secrets; those
//! are in the log, where the operator needs them.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use lock_runtime::{BusyReason, Lease, LockError, LockOptions, StoreErrorKind};

use super::body::LockBody;
use super::key::KeyError;
use super::retry::{HoldTimes, retry_after};

/// What to expect of a store that fails: longer than a reconnect, shorter than a fail-over.
const STORE_OUTAGE: Duration = Duration::from_secs(2);

/// One kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Busy,
    Timeout,
    Overloaded,
    Unavailable,
    KeyMissing,
    KeyInvalid,
    Lost,
    Misconfigured,
}

impl Kind {
    /// The status, the last segment of the `type`, and the title.
    fn text(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Busy => {
                (StatusCode::CONFLICT, "lock-busy", "Another request holds this resource")
            }
            Self::Timeout => (
                StatusCode::SERVICE_UNAVAILABLE,
                "lock-timeout",
                "Other requests held this resource for too long",
            ),
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                "lock-overloaded",
                "Too many requests wait for this resource",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "lock-unavailable",
                "Locks are not available at the moment",
            ),
            Self::KeyMissing => {
                (StatusCode::BAD_REQUEST, "lock-key-missing", "The request lacks what it locks")
            }
            Self::KeyInvalid => {
                (StatusCode::BAD_REQUEST, "lock-key-invalid", "The request names no valid resource")
            }
            Self::Lost => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "lock-lost",
                "The request lost its hold on the resource before it was done",
            ),
            Self::Misconfigured => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "lock-misconfigured",
                "The server cannot lock this resource",
            ),
        }
    }

    /// The answer to a failed lock, and the log's line about it.
    fn of(error: &LockError) -> Self {
        let kind = match error {
            LockError::Busy { reason: BusyReason::Held, .. } => Self::Busy,
            LockError::Busy { .. } => Self::Overloaded,
            LockError::Timeout { .. } => Self::Timeout,
            LockError::Store(_) | LockError::NotReplicated { .. } | LockError::Closed => {
                Self::Unavailable
            }
            LockError::InvalidKey { .. } => Self::KeyInvalid,
            LockError::Lost { .. } => Self::Lost,
            _ => Self::Misconfigured,
        };
        let cause = error as &dyn std::error::Error;
        match (kind, needs_an_operator(error)) {
            (Self::Busy | Self::Timeout | Self::KeyInvalid, _) => {
                tracing::debug!(error = cause, "request turned away");
            }
            (Self::Misconfigured, _) | (_, true) => {
                tracing::error!(error = cause, "request turned away: the lock cannot be taken");
            }
            (Self::Lost, _) => tracing::warn!(error = cause, "request cut off"),
            _ => tracing::warn!(error = cause, "request turned away"),
        }
        kind
    }
}

/// True if waiting does not help.
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

/// The answer to a request whose lock was not taken, or was lost.
pub(super) fn of_lock<B>(
    error: &LockError,
    options: Option<LockOptions>,
    times: &HoldTimes,
) -> Response<LockBody<B>> {
    let lease = options.map(|options| options.lease());
    let expected = match (error, lease) {
        (LockError::Timeout { holder_remaining: Some(left), .. }, Some(Lease::Fixed(_))) => *left,
        (LockError::Store(_) | LockError::NotReplicated { .. } | LockError::Closed, _) => {
            STORE_OUTAGE
        }
        _ => times.mean(),
    };
    answer(Kind::of(error), None, expected)
}

/// The answer to a request of which no key could be made.
pub(super) fn of_key<B>(error: &KeyError, times: &HoldTimes) -> Response<LockBody<B>> {
    let kind = match error {
        KeyError::Invalid(error) => return of_lock(error, None, times),
        KeyError::Missing(_) => Kind::KeyMissing,
        KeyError::Malformed { .. } => Kind::KeyInvalid,
        KeyError::Misplaced(_) => {
            tracing::error!(error = error as &dyn std::error::Error, "request turned away");
            return answer(Kind::Misconfigured, None, Duration::ZERO);
        }
    };
    tracing::debug!(error = error as &dyn std::error::Error, "request turned away");
    answer(kind, Some(error.to_string()), Duration::ZERO)
}

fn answer<B>(kind: Kind, detail: Option<String>, expected: Duration) -> Response<LockBody<B>> {
    let (status, name, title) = kind.text();
    let mut json = String::with_capacity(160);
    json.push_str(r#"{"type":"/problems/"#);
    json.push_str(name);
    json.push_str(r#"","title":""#);
    json.push_str(title);
    json.push_str(r#"","status":"#);
    json.push_str(status.as_str());
    if let Some(detail) = detail {
        json.push_str(r#","detail":"#);
        push_json_string(&mut json, &detail);
    }
    // After a loss nobody knows how far it came.
    if kind != Kind::Lost {
        json.push_str(r#","executed":false"#);
    }
    json.push('}');

    let mut response = Response::new(LockBody::problem(json));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if matches!(status, StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE) {
        headers.insert(RETRY_AFTER, retry_after(expected).into());
    }
    response
}

fn push_json_string(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let mut json = String::new();
        push_json_string(&mut json, "a \"b\" \\ \n ü");
        assert_eq!(json, r#""a \"b\" \\ \u000a ü""#);
    }
}
