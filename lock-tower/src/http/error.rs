//! What an HTTP layer, its keys and its bodies fail with.

use std::fmt;

use lock_runtime::LockError;

/// Why a request has no lock key.
///
/// The client is shown what these carry, so leave out what the request contains.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The request is missing a value that the key needs: "header `x-tenant`". Answered with 400, or
    /// passed without a lock by
    /// [`skip_missing_key`](crate::HttpLockLayerBuilder::skip_missing_key).
    #[error("the request has no {0}")]
    Missing(String),
    /// The value is there and cannot be used. Answered with 400.
    #[error("the request's {what} {problem}")]
    Malformed {
        /// The value: "header `x-tenant`".
        what: String,
        /// The problem: "is empty".
        problem: String,
    },
    /// The layer is in a place where it cannot know a value that its settings need. Answered with 500, and
    /// logged: clients cannot fix it.
    #[error("the lock layer cannot work here: {0}")]
    Misplaced(String),
    /// No lock can have this key. Answered with 400; the answer does not say what is wrong with the key.
    #[error("the request makes no valid lock key")]
    Invalid(#[from] LockError),
}

/// Why a body ended early. A server that gets this error from a body breaks the connection or resets the
/// stream, so that no client takes a part of the body for the whole.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockBodyError<E> {
    /// The inner body's own error. It may be boxed and then is no `Error` itself, so
    /// [`source`](std::error::Error::source) does not return it: match on this variant.
    #[error("{0}")]
    Inner(E),
    /// The hold was lost while the body was sent.
    #[error("the lock was lost while the body was sent")]
    Lost(#[source] LockError),
    /// The body was not sent within
    /// [`max_body_hold`](crate::http::HttpLockLayerBuilder::max_body_hold) or
    /// [`max_hold`](crate::http::HttpLockLayerBuilder::max_hold), and the lock was released.
    #[error("the body was not sent within the time for which it may hold the lock")]
    TooLong,
    /// The lock's client was [shut down](lock_runtime::LockClient::shutdown), its grace is over, and the
    /// lock was released.
    #[error("the lock client was shut down while the body was sent")]
    ShutDown,
    /// The inner body panicked, and a wrapper around this body caught the panic and polls on.
    #[error("the body panicked while it was sent")]
    Panicked,
}

/// Returns the error of an invalid layer.
pub(crate) fn invalid(problem: impl fmt::Display) -> LockError {
    LockError::InvalidOptions(problem.to_string())
}

/// Returns an error in the words of [`invalid`].
pub(crate) fn in_words(error: LockError) -> String {
    match error {
        LockError::InvalidOptions(problem) => problem,
        error => error.to_string(),
    }
}
