//! From a request to the name of its lock.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderName, Method};
use lock_runtime::key::LockKeyBuilder;
use lock_runtime::policy::OnMissingKey;
use lock_runtime::{KeyPart, LockError, LockKey};
use percent_encoding::percent_decode_str;

use crate::http::layer::builder::BuildError;
use crate::http::request::route::{self, Route};
use crate::http::request::template::{Piece, Template};

/// Why no key could be made of a request.
///
/// What these carry is shown to the client; keep what the request says out of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Something that the key is made of is not in the request: "header `x-tenant`". Answered with
    /// 400, or passed without a lock under [`OnMissingKey::Skip`](crate::http::OnMissingKey::Skip).
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

/// Makes keys of requests, where a template cannot say it. Closures are ones.
///
/// # Examples
///
/// ```
/// use http::request::Parts;
/// use lock_runtime::LockKey;
/// use lock_tower::LockLayer;
/// use lock_tower::http::{KeyError, KeyExtractor};
///
/// /// The account of a path such as `/accounts/7/…`.
/// #[derive(Debug)]
/// struct Account;
///
/// impl KeyExtractor for Account {
///     fn extract(&self, request: &Parts) -> Result<Option<LockKey>, KeyError> {
///         let mut segments = request.uri.path().split('/').skip(1);
///         let (Some("accounts"), Some(id)) = (segments.next(), segments.next()) else {
///             return Ok(None); // no account, no lock
///         };
///         Ok(Some(LockKey::builder().text("account:").part(id).build()?))
///     }
/// }
///
/// let layer = LockLayer::http().key_extractor(Account).build()?;
/// # let _ = layer;
/// # Ok::<_, lock_tower::http::BuildError>(())
/// ```
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key of a request; `None` lets it through without a lock.
    ///
    /// # Errors
    ///
    /// [`KeyError`], which says what the client is told.
    fn extract(&self, request: &Parts) -> Result<Option<LockKey>, KeyError>;
}

impl<F> KeyExtractor for F
where
    F: Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static,
{
    fn extract(&self, request: &Parts) -> Result<Option<LockKey>, KeyError> {
        self(request)
    }
}

/// Where keys come from.
#[derive(Clone)]
pub(crate) enum KeySource {
    Template { template: Template, route: Option<RouteOf>, extensions: Arc<ExtensionParts> },
    Extractor(Arc<dyn KeyExtractor>),
}

/// A route that the layer was told, and which path it is about.
#[derive(Debug, Clone)]
pub(crate) struct RouteOf {
    pub(crate) route: Arc<Route>,
    /// The path that the client asked for; else what the routers above have left of it.
    pub(crate) full: bool,
}

impl RouteOf {
    fn path<'p>(&self, parts: &'p Parts) -> &'p str {
        if self.full { full_path(parts) } else { parts.uri.path() }
    }
}

/// The path as the client sent it, where a router says so.
pub(crate) fn full_path(parts: &Parts) -> &str {
    full_path_of(&parts.extensions).unwrap_or_else(|| parts.uri.path())
}

#[cfg(feature = "axum")]
pub(crate) fn full_path_of(extensions: &Extensions) -> Option<&str> {
    extensions.get::<axum::extract::OriginalUri>().map(|uri| uri.0.path())
}

#[cfg(not(feature = "axum"))]
pub(crate) fn full_path_of(_: &Extensions) -> Option<&str> {
    None
}

/// The pattern of the route that axum's router has chosen, nested ones included.
#[cfg(feature = "axum")]
pub(crate) fn matched_path(extensions: &Extensions) -> Option<&str> {
    let matched = extensions.get::<axum::extract::MatchedPath>()?.as_str();
    // A nested service, whose own router has not had its say.
    (!matched.contains("{*__private__")).then_some(matched)
}

#[cfg(not(feature = "axum"))]
pub(crate) fn matched_path(_: &Extensions) -> Option<&str> {
    None
}

/// Adds a request extension to a key; gives the builder back unchanged if there is none.
type ExtensionPart =
    dyn Fn(&Extensions, LockKeyBuilder) -> Result<LockKeyBuilder, LockKeyBuilder> + Send + Sync;

/// The extensions that templates may name.
#[derive(Clone, Default)]
pub(crate) struct ExtensionParts(Vec<(String, Arc<ExtensionPart>)>);

impl ExtensionParts {
    pub(crate) fn add<T: KeyPart + Send + Sync + 'static>(&mut self, name: String) {
        self.0.push((
            name,
            Arc::new(|extensions, key| match extensions.get::<T>() {
                Some(value) => Ok(key.part(value)),
                None => Err(key),
            }),
        ));
    }

    fn get(&self, name: &str) -> Option<&ExtensionPart> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, part)| &**part)
    }

    pub(crate) fn check(&self, template: &Template) -> Result<(), BuildError> {
        let Some(name) = template.extensions().find(|name| self.get(name).is_none()) else {
            return Ok(());
        };
        let known: Vec<_> = self.0.iter().map(|(name, _)| format!("`{{ext.{name}}}`")).collect();
        let known = if known.is_empty() {
            "knows none".to_owned()
        } else {
            "knows ".to_owned() + &known.join(", ")
        };
        Err(BuildError::new(format!(
            "`{{ext.{name}}}` is an extension whose type the layer does not know; name it with \
             `extension::<Type>({name:?})`, it {known}"
        )))
    }
}

impl KeySource {
    /// The path parameters that a router has to know.
    pub(crate) fn router_parameters(&self) -> impl Iterator<Item = &str> {
        let template = match self {
            Self::Template { template, route: None, .. } => Some(template),
            Self::Template { .. } | Self::Extractor(_) => None,
        };
        template.into_iter().flat_map(Template::path_parameters)
    }

    pub(crate) fn key(
        &self,
        parts: &mut Parts,
        method: &Method,
        on_missing: OnMissingKey,
    ) -> Result<Option<LockKey>, KeyError> {
        let key = match self {
            Self::Template { template, route, extensions } => {
                fill(template, route.as_ref(), extensions, method, parts).map(Some)
            }
            Self::Extractor(extractor) => extractor.extract(parts),
        };
        match key {
            Err(KeyError::Missing(_)) if on_missing == OnMissingKey::Skip => Ok(None),
            key => key,
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template { template, .. } => template.fmt(f),
            Self::Extractor(_) => f.write_str("extractor"),
        }
    }
}

fn fill(
    template: &Template,
    route: Option<&RouteOf>,
    extensions: &ExtensionParts,
    method: &Method,
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
            Piece::Method => key.part(method.as_str()),
            Piece::Route => key.part(route_text(route, parts)?),
            Piece::Path(name) => path.add(key, parts, name)?,
            Piece::Query(name) => key.part(&*query(parts, name)?),
            Piece::Header(name) => key.part(header(parts, name)?),
            Piece::Ext(name) => {
                let missing = |_| KeyError::Missing(format!("extension `{name}`"));
                let part = extensions.get(name).ok_or_else(|| missing(()))?;
                part(&parts.extensions, key).map_err(|_| missing(()))?
            }
        })
    };
    Ok(template.pieces().iter().try_fold(LockKey::builder(), add)?.build()?)
}

/// The route as it is written: one for all its requests.
fn route_text<'a>(route: Option<&'a RouteOf>, parts: &'a Parts) -> Result<&'a str, KeyError> {
    match route {
        Some(warned) if warned.route.matches(warned.path(parts)) => Ok(warned.route.text()),
        Some(_) => Err(KeyError::Missing("path of the route".to_owned())),
        None => matched_path(&parts.extensions).ok_or_else(unrouted),
    }
}

fn unrouted() -> KeyError {
    KeyError::Misplaced(
        "no router has matched a path yet; add it with `Router::route_layer`".to_owned(),
    )
}

fn malformed(what: String, problem: &str) -> KeyError {
    KeyError::Malformed { what, problem: problem.to_owned() }
}

/// The one value of a header: a handler may see another one of several than we do.
fn header<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a str, KeyError> {
    let malformed = |problem| malformed(format!("header `{name}`"), problem);
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

/// The one value of a query parameter, decoded as forms are.
fn query<'a>(parts: &'a Parts, name: &str) -> Result<Cow<'a, str>, KeyError> {
    let malformed = |problem| malformed(format!("query parameter `{name}`"), problem);
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let mut values = pairs.filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (form_decode(key)? == name).then_some(value)
    });
    let Some(value) = values.next() else {
        return Err(KeyError::Missing(format!("query parameter `{name}`")));
    };
    if values.next().is_some() {
        return Err(malformed("is there more than once"));
    }
    match form_decode(value) {
        None => Err(malformed("is not UTF-8")),
        Some(value) if value.is_empty() => Err(malformed("is empty")),
        Some(value) => Ok(value),
    }
}

/// `+` is a blank there.
fn form_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decode_str(text).decode_utf8().ok();
    }
    let text = text.replace('+', " ");
    Some(Cow::Owned(percent_decode_str(&text).decode_utf8().ok()?.into_owned()))
}

/// Where path parameters are looked up.
enum PathValues<'a> {
    /// The template has none.
    None,
    /// The layer was told the route.
    Route(&'a RouteOf),
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
                Err(malformed("path".to_owned(), "is not UTF-8"))
            }
            Poll::Ready(Err(_)) | Poll::Pending => Err(unrouted()),
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
            Self::Route(warned) => {
                let what = || format!("path parameter `{name}`");
                let value = warned.route.find(warned.path(parts), name);
                let value = value.ok_or_else(|| KeyError::Missing(what()))?;
                let value =
                    route::decode(value).ok_or_else(|| malformed(what(), "is not UTF-8"))?;
                Ok(key.part(&*value))
            }
            #[cfg(feature = "axum")]
            Self::Router(values) => {
                // Of nested routers that use one name twice, the innermost has the last word.
                let value = values.iter().filter(|(key, _)| *key == name).last();
                let (_, value) = value.ok_or_else(|| no_such_parameter(parts, name))?;
                Ok(key.part(value))
            }
            Self::None => Err(no_such_parameter(parts, name)),
        }
    }
}

fn no_such_parameter(parts: &Parts, name: &str) -> KeyError {
    // The router's pattern: it tells where to look, and nothing of the request.
    let route = matched_path(&parts.extensions).unwrap_or("around the layer");
    KeyError::Misplaced(format!("the route {route} has no parameter `{name}`"))
}
