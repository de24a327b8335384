//! The errors of an order, and the answer to each.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_runtime::LockError;
use lock_tower::LockResponse;

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
        match self {
            Self::TooMuch { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, format!("{self}\n")).into_response()
            }
            // As the layers answer, and logged as they log.
            Self::Lock(error) => LockResponse::from(error).into_response(),
            // The card may have been charged. 409 would say that nothing happened, and 503 would make
            // proxies repeat the request; an operator has to check.
            Self::Stale | Self::Database(_) | Self::Thread(_) => {
                tracing::error!(error = &self as &dyn std::error::Error, "the order failed");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
