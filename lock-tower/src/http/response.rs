//! [`LockResponse`]: the answer to a request that is refused.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::http::refusal_kind::RefusalKind;

/// The answer to a request that is refused: status, `Retry-After` and problem details (RFC 9457).
///
/// The layer answers with it, and so can a handler that locks by itself: a [`LockError`](lock_runtime::LockError) converts into it, with
/// `?` as well. With the feature `axum-08` it implements axum's `IntoResponse`. It never contains the key, the owner
/// id or the token; they are in the log.
///
/// # Examples
///
/// An annotated handler that answers as the layer does:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use axum::extract::Path;
/// use axum::http::StatusCode;
/// use axum::response::IntoResponse;
/// use lock_runtime::{LockClient, distributed_lock};
/// use lock_tower::LockResponse;
///
/// #[distributed_lock(key = "order:{id}", wait = none)]
/// async fn pay(Path(id): Path<u64>) -> Result<String, LockResponse> {
///     Ok(format!("paid {id}"))
/// }
///
/// let locks = LockClient::in_memory();
/// let _other = locks.mutex("order:42").lock().await?;
/// let refused = locks.scope(pay(Path(42))).await.into_response();
/// assert_eq!(refused.status(), StatusCode::CONFLICT);
/// assert_eq!(refused.headers()["retry-after"], "1");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a response does nothing until it is sent"]
pub struct LockResponse {
    pub(crate) kind: RefusalKind,
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) detail: Option<String>,
    pub(crate) unexecuted: bool,
    pub(crate) grpc: bool,
}

impl LockResponse {
    /// Returns why the request is refused.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// Returns the status, with the layer's [`busy`](crate::HttpLockLayerBuilder::busy) status for a busy lock.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns after how long the client may retry, in whole seconds. `None` if a retry of the same request
    /// cannot succeed.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns what is wrong with the request, if the request is at fault.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// True if the layer knows that the handler has not run, so that the client can send the same request again,
    /// whatever its method. False after a loss, and for an error of a handler that locks by itself: how far the
    /// handler came is unknown.
    #[must_use]
    pub fn is_unexecuted(&self) -> bool {
        self.unexecuted
    }

    /// True if the client speaks gRPC and understands no other answer.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// Returns the response with problem details (RFC 9457).
    pub(crate) fn problem(&self) -> Response<Bytes> {
        let (name, title) = (self.kind.name(), self.kind.title());
        let status = self.status.as_u16();
        let mut json =
            format!(r#"{{"type":"/problems/{name}","title":"{title}","status":{status}"#);
        if let Some(detail) = &self.detail {
            json.push_str(r#","detail":"#);
            push_json_string(&mut json, detail);
        }
        if self.unexecuted {
            json.push_str(r#","executed":false"#);
        }
        json.push('}');

        let mut response = Response::new(Bytes::from(json));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(retry_after) = self.retry_after {
            headers.insert(RETRY_AFTER, retry_after.as_secs().into());
        }
        response
    }
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
