//! [`RefusalResponder`]: how a refusal looks to the client.

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use crate::http::answer::response::LockResponse;

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
