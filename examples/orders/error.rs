//! The errors of an order, and the answer to each.

use std::error::Error;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use lock_runtime::LockError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("only {paid} cents have been paid")]
    TooMuch { paid: u64 },
    #[error("the lock of the order failed")]
    Lock(#[from] LockError),
    /// A later holder of the lock has already read the balance.
    #[error("the database refused a write that came too late")]
    Stale,
    #[error("the balance could not be read or written")]
    Database(#[from] rusqlite::Error),
    #[error("the thread of a database call did not come back")]
    Thread(#[from] tokio::task::JoinError),
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        if let Self::TooMuch { .. } = self {
            return (StatusCode::UNPROCESSABLE_ENTITY, format!("{self}\n")).into_response();
        }
        // The chain of causes is for the log; it names keys.
        let mut line = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            line = format!("{line}: {error}");
            cause = error.source();
        }
        tracing::error!("{line}");
        match self {
            // Nothing was done yet.
            Self::Lock(error) if error.is_retryable() || matches!(error, LockError::Closed) => {
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response()
            }
            // The card may have been charged. 409 would say that nothing happened, and 503 would make
            // proxies repeat the request; an operator has to check.
            _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}
