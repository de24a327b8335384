//! [`HeldLock`] as an extractor of axum.

use axum::extract::{FromRequestParts, MatchedPath, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::held::HeldLock;

/// The answer of a handler that takes a [`HeldLock`] and has no lock.
const NO_LOCK: &str = "this handler takes a `HeldLock`, but no lock is held: wrap the route in a \
     `LockLayer` that locks the request's method; if its policy is not enforced, take an `Option<HeldLock>`";

/// The answer to a request whose handler takes a [`HeldLock`] and has no lock: 500.
///
/// # Examples
///
/// ```
/// use axum::response::IntoResponse;
/// use lock_tower::{HeldLock, HeldLockRejection};
///
/// async fn pay(held: Result<HeldLock, HeldLockRejection>) -> Result<String, HeldLockRejection> {
///     Ok(format!("written with fence {}", held?.token()))
/// }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error("{NO_LOCK}")]
pub struct HeldLockRejection(());

impl IntoResponse for HeldLockRejection {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, NO_LOCK).into_response()
    }
}

/// Extracts the lock of the innermost layer around the handler, as [`HeldLock::current`] returns it.
///
/// Answers with 500 if there is none, because the layer is missing or does not lock the request. It never
/// extracts an outer layer's lock instead.
///
/// If a layer's policy is not enforced (`enforce = false`), the layer may run the handler without the lock, and
/// this extractor would then refuse the request. Until the policy is enforced, take an `Option<HeldLock>`, which
/// is `None` then.
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
/// let layer = LockLayer::http().key("order:{path.id:u64}").build()?;
/// let app: Router = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
impl<S: Sync> FromRequestParts<S> for HeldLock {
    type Rejection = HeldLockRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Self::current().ok_or_else(|| {
            // The router's pattern shows the operator where to look, and nothing of the request.
            let route = parts.extensions.get().map_or("none", MatchedPath::as_str);
            tracing::error!(route, "{NO_LOCK}");
            HeldLockRejection(())
        })
    }
}

/// As the extractor of `HeldLock`, for a handler that also runs without a lock: `None` if the layer does not lock
/// the request, or if it did not get the lock and its policy is not enforced.
///
/// # Examples
///
/// ```
/// use axum::{Router, routing::post};
/// use lock_tower::{HeldLock, LockLayer};
///
/// async fn pay(held: Option<HeldLock>) -> String {
///     match held {
///         Some(held) => format!("written with fence {}", held.token()),
///         None => "written as before there was a lock".to_owned(),
///     }
/// }
///
/// let layer = LockLayer::http().key("order:{path.id:u64}").build()?;
/// let app: Router = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
impl<S: Sync> OptionalFromRequestParts<S> for HeldLock {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(Self::current())
    }
}
