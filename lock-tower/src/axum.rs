//! [`HeldLock`] as an extractor of axum.

use std::future::{Ready, ready};

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::StatusCode;
use http::request::Parts;

use crate::held::HeldLock;

/// What a handler answers that takes a [`HeldLock`] and has no lock.
pub(crate) const NO_LOCK: &str = "this handler takes a `HeldLock` and no lock is held: put a \
     `LockLayer` around the route, and the request's method on its list";

/// The lock of the layer around the handler. Answers with 500 where there is none, because the layer is
/// missing, or the request is one that it does not lock.
///
/// # Examples
///
/// ```
/// use axum::{Router, routing::post};
/// use lock_tower::{HeldLock, LockLayer};
///
/// async fn pay(held: HeldLock) -> String {
///     format!("written with fence {}", held.token())
/// }
///
/// let layer = LockLayer::http().key("order:{path.id}").build()?;
/// let app: Router = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
/// # Ok::<_, lock_tower::http::BuildError>(())
/// ```
impl<S: Sync> FromRequestParts<S> for HeldLock {
    type Rejection = (StatusCode, &'static str);

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, Self::Rejection>> + Send {
        ready(found(parts).ok_or_else(|| {
            tracing::error!("{NO_LOCK}");
            (StatusCode::INTERNAL_SERVER_ERROR, NO_LOCK)
        }))
    }
}

/// The same where the handler also runs without.
impl<S: Sync> OptionalFromRequestParts<S> for HeldLock {
    type Rejection = std::convert::Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Option<Self>, Self::Rejection>> + Send {
        let found: Ready<_> = ready(Ok(found(parts)));
        found
    }
}

/// The layer may be around another task.
fn found(parts: &Parts) -> Option<HeldLock> {
    parts.extensions.get().cloned().or_else(HeldLock::current)
}
