//! Path parameters for a lock key: of a known route, or of axum's router.

use std::sync::Arc;

use http::request::Parts;
use lock_runtime::key::LockKeyBuilder;

use crate::http::config::value_type::ValueType;
use crate::http::error::KeyError;
use crate::http::request::place::{full_path_of, is_unmatched, matched_path};
use crate::http::request::route::{Route, decode};
use crate::http::request::values::{add, malformed};

/// A route that the builder or the configuration names.
#[derive(Debug, Clone)]
pub(crate) struct KnownRoute {
    pub(crate) route: Arc<Route>,
    /// True if it matches the path that the client sent; false if it matches the path without the prefixes of
    /// nested routers.
    pub(crate) full: bool,
}

impl KnownRoute {
    pub(crate) fn path<'p>(&self, parts: &'p Parts) -> &'p str {
        let full = full_path_of(&parts.extensions).filter(|_| self.full);
        full.unwrap_or_else(|| parts.uri.path())
    }
}

/// Where the values of path parameters come from.
pub(crate) enum PathValues<'a> {
    Known(&'a KnownRoute),
    /// The values that axum's router has found.
    #[cfg(feature = "axum-08")]
    Router(axum::extract::RawPathParams),
    /// No router has matched a path, or the template has no path parameters.
    None,
}

impl PathValues<'_> {
    /// Reads the values that axum's router has stored in the request for its extractors.
    #[cfg(feature = "axum-08")]
    pub(crate) fn of_router(parts: &mut Parts) -> Result<Self, KeyError> {
        use std::future::Future as _;
        use std::task::{Context, Poll, Waker};

        use axum::extract::rejection::RawPathParamsRejection;
        use axum::extract::{FromRequestParts as _, RawPathParams};

        // The extractor's signature is asynchronous, but it only reads an extension and is ready at once.
        let extracted = std::pin::pin!(RawPathParams::from_request_parts(parts, &()))
            .poll(&mut Context::from_waker(Waker::noop()));
        match extracted {
            Poll::Ready(Ok(values)) => Ok(Self::Router(values)),
            Poll::Ready(Err(RawPathParamsRejection::InvalidUtf8InPathParam(_))) => {
                Err(malformed("path".to_owned(), "is not UTF-8"))
            }
            Poll::Ready(Err(_)) | Poll::Pending => Ok(Self::None),
        }
    }

    #[cfg(not(feature = "axum-08"))]
    pub(crate) fn of_router(_: &mut Parts) -> Result<Self, KeyError> {
        // The builder refuses a template that needs a router.
        Ok(Self::None)
    }

    /// Adds a parameter's value to the key; `None` if no route of a router has matched the request.
    pub(crate) fn add(
        &self,
        key: LockKeyBuilder,
        parts: &Parts,
        name: &str,
        value_type: ValueType,
    ) -> Result<Option<LockKeyBuilder>, KeyError> {
        let what = || format!("path parameter `{name}`");
        match self {
            Self::Known(known) => {
                let value = known.route.find(known.path(parts), name);
                let value = value.ok_or_else(|| KeyError::Missing(what()))?;
                let value = decode(&value).ok_or_else(|| malformed(what(), "is not UTF-8"))?;
                add(key, value_type, &value, what).map(Some)
            }
            #[cfg(feature = "axum-08")]
            Self::Router(values) => {
                // If nested routers use a name twice, the innermost router's value counts.
                match values.iter().filter(|(key, _)| *key == name).last() {
                    Some((_, value)) => add(key, value_type, value, what).map(Some),
                    None => unknown(parts, &format!("has no parameter `{name}`")),
                }
            }
            Self::None => unknown(parts, &format!("has no parameter `{name}`")),
        }
    }
}

/// What a request is whose router does not know a value: no route has matched it, which is the router's to answer, or
/// the layer is in the wrong place.
pub(crate) fn unknown<T>(parts: &Parts, problem: &str) -> Result<Option<T>, KeyError> {
    if is_unmatched(&parts.extensions) {
        return Ok(None);
    }
    // The router's pattern shows the operator where to look, and nothing of the request.
    Err(KeyError::Misplaced(match matched_path(&parts.extensions) {
        Some(route) => format!("the route {route} {problem}"),
        None => format!(
            "no router has matched the path yet, which therefore {problem}; add the layer with \
             `Router::route_layer`"
        ),
    }))
}
