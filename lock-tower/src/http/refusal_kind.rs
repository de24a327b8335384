//! [`RefusalKind`]: why a request is refused, and the status for it.

use http::StatusCode;
use lock_runtime::LockError;
use lock_runtime::error::BusyReason;

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

    /// Returns the status, with `busy` for a lock that is busy.
    pub(crate) fn status(self, busy: StatusCode) -> StatusCode {
        // With 429 the key names the caller, so a caller whose wait ran out also asks too often.
        let names_caller = busy == StatusCode::TOO_MANY_REQUESTS;
        match self {
            Self::Busy => busy,
            Self::Timeout | Self::Overloaded if names_caller => busy,
            Self::Timeout | Self::Deadline | Self::Overloaded | Self::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::KeyMissing | Self::KeyInvalid | Self::BodyIncomplete => StatusCode::BAD_REQUEST,
            // Proxies retry a 503, and the handler may have run.
            Self::Lost | Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn of(error: &LockError) -> Self {
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
