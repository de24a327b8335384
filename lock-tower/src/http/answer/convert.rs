//! Lock errors as responses.

use bytes::Bytes;
use http::Response;
use lock_runtime::LockError;

use crate::http::answer::context::RefusalContext;
use crate::http::answer::response::LockResponse;
use crate::http::answer::{grpc, problem};

impl LockResponse {
    /// Returns the response: problem details, or trailers only for a gRPC client.
    #[must_use]
    pub fn into_http(self) -> Response<Bytes> {
        if self.grpc { grpc::respond(&self) } else { problem::respond(&self) }
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
        Self { unexecuted: false, ..RefusalContext::of_handler().lock_error(error) }
    }
}

#[cfg(feature = "axum-08")]
impl axum::response::IntoResponse for LockResponse {
    fn into_response(self) -> axum::response::Response {
        self.into_http().map(axum::body::Body::from)
    }
}
