//! From a request to the name of its lock.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use lock_runtime::{LockError, LockKey, LockKeyBuilder};

use super::route::{self, Route};
use super::template::{Piece, Template};

/// Why no key could be made of a request.
///
/// What these carry is shown to the client; keep what the request says out of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Something that the key is made of is not in the request: "header `x-tenant`". Answered with
    /// 400, or passed without a lock under [`OnMissing::Skip`].
    #[error("the request has no {0}")]
    Missing(String),
    /// It is there and cannot be used. Answered with 400.
    #[error("the request's {what} {problem}")]
    Malformed {
        /// What it is: "header `x-tenant`".
        what: String,
        /// What is wrong: "is empty".
        problem: String,
    },
    /// The layer is in a place where it cannot know what it was told to use. Answered with 500, and
    /// logged: no client can do anything about it.
    #[error("the lock layer cannot work here: {0}")]
    Misplaced(String),
    /// No lock has such a name. Answered with 400, without what is wrong with it.
    #[error("the request makes no valid lock key")]
    Invalid(#[from] LockError),
}

/// What happens to a request that lacks what its key is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is answered with 400. The safe choice.
    #[default]
    Reject,
    /// It runs without a lock.
    Skip,
}

/// Where keys come from.
#[derive(Clone)]
pub(super) enum KeySource {
    Template { template: Template, route: Option<Route> },
    Function(Arc<KeyFn>),
}

/// A closure of the application's.
pub(super) type KeyFn = dyn Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync;

impl KeySource {
    pub(super) fn key(
        &self,
        parts: &mut Parts,
        on_missing: OnMissing,
    ) -> Result<Option<LockKey>, KeyError> {
        let key = match self {
            Self::Template { template, route } => fill(template, route.as_ref(), parts).map(Some),
            Self::Function(function) => function(parts),
        };
        match key {
            Err(KeyError::Missing(_)) if on_missing == OnMissing::Skip => Ok(None),
            key => key,
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template { template, .. } => template.fmt(f),
            Self::Function(_) => f.write_str("closure"),
        }
    }
}

fn fill(
    template: &Template,
    route: Option<&Route>,
    parts: &mut Parts,
) -> Result<LockKey, KeyError> {
    let path = match route {
        Some(route) => PathValues::Route(route),
        None if template.path_parameters().next().is_some() => PathValues::of_router(parts)?,
        None => PathValues::None,
    };
    let add = |key: LockKeyBuilder, piece: &Piece| {
        Ok::<_, KeyError>(match piece {
            Piece::Text(text) => key.text(text),
            Piece::Method => key.part(parts.method.as_str()),
            Piece::Path(name) => path.add(key, parts, name)?,
            Piece::Header(name) => key.part(header(parts, name)?),
        })
    };
    Ok(template.pieces().iter().try_fold(LockKey::builder(), add)?.build()?)
}

/// The one value of a header: a handler may see another one of several than we do.
fn header<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a str, KeyError> {
    let malformed = |problem: &str| KeyError::Malformed {
        what: format!("header `{name}`"),
        problem: problem.to_owned(),
    };
    let mut values = parts.headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Err(KeyError::Missing(format!("header `{name}`")));
    };
    if values.next().is_some() {
        return Err(malformed("is there more than once"));
    }
    match value.to_str() {
        Ok("") => Err(malformed("is empty")),
        Ok(value) => Ok(value),
        Err(_) => Err(malformed("is not visible ASCII")),
    }
}

/// Where path parameters are looked up.
enum PathValues<'a> {
    /// The template has none.
    None,
    /// The layer was told the route.
    Route(&'a Route),
    /// The router that called us took the path apart.
    #[cfg(feature = "axum")]
    Router(axum::extract::RawPathParams),
}

impl PathValues<'_> {
    /// Asks axum, which leaves what it found in the request for its extractors.
    #[cfg(feature = "axum")]
    fn of_router(parts: &mut Parts) -> Result<Self, KeyError> {
        use std::future::Future as _;
        use std::task::{Context, Poll, Waker};

        use axum::extract::rejection::RawPathParamsRejection;
        use axum::extract::{FromRequestParts as _, RawPathParams};

        // An extractor is asynchronous by its signature; this one only reads an extension.
        let extracted = std::pin::pin!(RawPathParams::from_request_parts(parts, &()))
            .poll(&mut Context::from_waker(Waker::noop()));
        match extracted {
            Poll::Ready(Ok(values)) => Ok(Self::Router(values)),
            Poll::Ready(Err(RawPathParamsRejection::InvalidUtf8InPathParam(_))) => {
                Err(malformed_path("path"))
            }
            Poll::Ready(Err(_)) | Poll::Pending => Err(KeyError::Misplaced(
                "no router has matched a path yet; add it with `Router::route_layer`".to_owned(),
            )),
        }
    }

    #[cfg(not(feature = "axum"))]
    fn of_router(_: &mut Parts) -> Result<Self, KeyError> {
        // The builder has asked for a route.
        Ok(Self::None)
    }

    fn add(
        &self,
        key: LockKeyBuilder,
        parts: &Parts,
        name: &str,
    ) -> Result<LockKeyBuilder, KeyError> {
        match self {
            Self::Route(route) => {
                let value = route
                    .find(parts.uri.path(), name)
                    .ok_or_else(|| KeyError::Missing(format!("path parameter `{name}`")))?;
                let value = route::decode(value)
                    .ok_or_else(|| malformed_path(&format!("path parameter `{name}`")))?;
                Ok(key.part(&*value))
            }
            #[cfg(feature = "axum")]
            Self::Router(values) => {
                // Of nested routers that use one name twice, the innermost has the last word.
                let value = values.iter().filter(|(key, _)| *key == name).last();
                let (_, value) = value.ok_or_else(|| no_such_parameter(name))?;
                Ok(key.part(value))
            }
            Self::None => Err(no_such_parameter(name)),
        }
    }
}

fn no_such_parameter(name: &str) -> KeyError {
    KeyError::Misplaced(format!("the route has no parameter `{name}`"))
}

fn malformed_path(what: &str) -> KeyError {
    KeyError::Malformed { what: what.to_owned(), problem: "is not UTF-8".to_owned() }
}
