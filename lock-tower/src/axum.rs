//! [`HeldLock`] as an extractor of axum.

use std::future::{Ready, ready};

use axum::extract::{FromRequestParts, MatchedPath, OptionalFromRequestParts};
use http::StatusCode;
use http::request::Parts;

use crate::held::HeldLock;

/// What a handler answers that takes a [`HeldLock`] and has no lock.
pub(crate) const NO_LOCK: &str = "this handler takes a `HeldLock` and no lock is held: put a \
     `LockLayer` around the route, and the request's method on its list; where its policy is not \
     enforced, take an `Option<HeldLock>`";

/// The lock of the innermost layer around the handler, as [`HeldLock::current`]. Answers with 500 where
/// there is none, because the layer is missing, or the request is one that it does not lock: an outer
/// layer's lock never stands in for it.
///
/// Two layers and a task between them and the handler (`tower::buffer`) need care: in another task, only the
/// request's extension tells of a lock, and only an HTTP layer puts it there, if it is told to
/// ([`held_extension`](crate::HttpLockLayerBuilder::held_extension)). Behind a generic layer
/// ([`LockLayer::new`](crate::LockLayer::new)) this is then the lock of an HTTP layer around that one.
///
/// A layer whose policy is not enforced (`enforce` below 100) also runs the handler without the lock, and
/// this would be what refuses the request. Until the policy is enforced, take an `Option<HeldLock>`: it is
/// `None` then, and there is no fencing token.
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
            // The router's pattern: it tells where to look, and nothing of the request.
            let route = parts.extensions.get().map_or("none", MatchedPath::as_str);
            tracing::error!(route, "{NO_LOCK}");
            (StatusCode::INTERNAL_SERVER_ERROR, NO_LOCK)
        }))
    }
}

/// The same where the handler also runs without: it is `None` where the layer locks nothing, or where it
/// could not have the lock and its policy does not enforce it.
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
/// let layer = LockLayer::http().key("order:{path.id}").build()?;
/// let app: Router = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
/// # Ok::<_, lock_tower::http::BuildError>(())
/// ```
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

/// The innermost layer's hold. The extension is for a handler in another task than its layer's: where a
/// layer polls the handler, that extension may be an outer layer's.
fn found(parts: &Parts) -> Option<HeldLock> {
    HeldLock::current_or_else(|| parts.extensions.get().cloned())
}
