//! Makes the lock key of a request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderName, Method};
use lock_runtime::key::LockKeyBuilder;
use lock_runtime::policy::{OnMissingKey, ValueType};
use lock_runtime::{KeyPart, LockKey};
use percent_encoding::percent_decode_str;

use crate::http::error::{BuildError, KeyError};
use crate::http::request::route::{Route, decode};
use crate::http::request::template::{Piece, Template};

/// Makes the lock keys of requests, where a template cannot. Closures implement it.
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
    /// Returns the key of a request; with `None` the request runs without a lock.
    ///
    /// # Errors
    ///
    /// [`KeyError`], which decides the answer to the client.
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

/// Where the keys of a layer come from.
#[derive(Clone)]
pub(crate) enum KeySource {
    Template { template: Template, route: Option<KnownRoute>, extensions: Arc<ExtensionParts> },
    Extractor(Arc<dyn KeyExtractor>),
}

/// A route that the builder or the configuration names.
#[derive(Debug, Clone)]
pub(crate) struct KnownRoute {
    pub(crate) route: Arc<Route>,
    /// True if it matches the path that the client sent; false if it matches the path without the prefixes of
    /// nested routers.
    pub(crate) full: bool,
}

impl KnownRoute {
    fn path<'p>(&self, parts: &'p Parts) -> &'p str {
        let full = full_path_of(&parts.extensions).filter(|_| self.full);
        full.unwrap_or_else(|| parts.uri.path())
    }
}

/// Returns the path as the client sent it, which a nested router of axum has stored.
#[cfg(feature = "axum")]
pub(crate) fn full_path_of(extensions: &Extensions) -> Option<&str> {
    extensions.get::<axum::extract::OriginalUri>().map(|uri| uri.0.path())
}

#[cfg(not(feature = "axum"))]
pub(crate) fn full_path_of(_: &Extensions) -> Option<&str> {
    None
}

/// Returns the pattern of the route that axum's router has matched, with the prefixes of nested routers.
#[cfg(feature = "axum")]
pub(crate) fn matched_path(extensions: &Extensions) -> Option<&str> {
    let matched = extensions.get::<axum::extract::MatchedPath>()?.as_str();
    // So axum marks a nested service whose own router has not matched yet.
    (!matched.contains("{*__private__")).then_some(matched)
}

#[cfg(not(feature = "axum"))]
pub(crate) fn matched_path(_: &Extensions) -> Option<&str> {
    None
}

/// Adds a request extension to a key; returns the builder unchanged as an error if there is none.
type ExtensionPart =
    dyn Fn(&Extensions, LockKeyBuilder) -> Result<LockKeyBuilder, LockKeyBuilder> + Send + Sync;

/// The request extensions that templates may name.
#[derive(Clone, Default)]
pub(crate) struct ExtensionParts(Vec<(String, Arc<ExtensionPart>)>);

impl ExtensionParts {
    /// Adds the extension of type `T`; it replaces an earlier one of that name.
    pub(crate) fn add<T: KeyPart + Send + Sync + 'static>(&mut self, name: String) {
        self.0.retain(|(known, _)| *known != name);
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
    /// Returns the path parameters whose values come from axum's router.
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
    route: Option<&KnownRoute>,
    extensions: &ExtensionParts,
    method: &Method,
    parts: &mut Parts,
) -> Result<LockKey, KeyError> {
    let path = match route {
        Some(route) => PathValues::Known(route),
        None if template.path_parameters().next().is_some() => PathValues::of_router(parts)?,
        None => PathValues::None,
    };
    let mut key = LockKey::builder();
    for piece in template.pieces() {
        key = match piece {
            Piece::Text(text) => key.text(text),
            Piece::Method => key.part(method.as_str()),
            Piece::Route => key.part(route_text(route, parts)?),
            Piece::Path(name, value) => path.add(key, parts, name, *value)?,
            Piece::Query(name, value) => add(key, *value, &query(parts, name)?, || of_query(name))?,
            Piece::Header(name, value) => {
                add(key, *value, header(parts, name)?, || of_header(name))?
            }
            Piece::Ext(name) => {
                let missing = |_| KeyError::Missing(format!("extension `{name}`"));
                let part = extensions.get(name).ok_or_else(|| missing(()))?;
                part(&parts.extensions, key).map_err(|_| missing(()))?
            }
        };
    }
    Ok(key.build()?)
}

/// Returns the pattern of the route, which is the same for all its requests.
fn route_text<'a>(route: Option<&'a KnownRoute>, parts: &'a Parts) -> Result<&'a str, KeyError> {
    match route {
        Some(known) if known.route.matches(known.path(parts)) => Ok(known.route.text()),
        Some(_) => Err(KeyError::Missing("path of the route".to_owned())),
        None => matched_path(&parts.extensions).ok_or_else(unrouted),
    }
}

fn unrouted() -> KeyError {
    KeyError::Misplaced(
        "no router has matched the path yet; add the layer with `Router::route_layer`".to_owned(),
    )
}

fn malformed(what: String, problem: &str) -> KeyError {
    KeyError::Malformed { what, problem: problem.to_owned() }
}

/// Adds a value to the key as its type writes it.
fn add(
    key: LockKeyBuilder,
    value: ValueType,
    text: &str,
    what: impl FnOnce() -> String,
) -> Result<LockKeyBuilder, KeyError> {
    value
        .add(key, text)
        .ok_or_else(|| malformed(what(), &format!("is no {}", value.name().unwrap_or("text"))))
}

fn of_header(name: &HeaderName) -> String {
    format!("header `{name}`")
}

fn of_query(name: &str) -> String {
    format!("query parameter `{name}`")
}

/// Returns the only value of a header. Of several values, the handler might use another one.
fn header<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a str, KeyError> {
    let malformed = |problem| malformed(of_header(name), problem);
    let mut values = parts.headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Err(KeyError::Missing(of_header(name)));
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

/// Returns the only value of a query parameter, decoded as in a form.
fn query<'a>(parts: &'a Parts, name: &str) -> Result<Cow<'a, str>, KeyError> {
    let malformed = |problem| malformed(of_query(name), problem);
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let mut values = pairs.filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (form_decode(key)? == name).then_some(value)
    });
    let Some(value) = values.next() else {
        return Err(KeyError::Missing(of_query(name)));
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

/// Decodes form text, in which `+` is a space; `None` if the result is not UTF-8.
fn form_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return decode(text);
    }
    let text = text.replace('+', " ");
    Some(Cow::Owned(percent_decode_str(&text).decode_utf8().ok()?.into_owned()))
}

/// Where the values of path parameters come from.
enum PathValues<'a> {
    /// The template has none.
    None,
    Known(&'a KnownRoute),
    /// The values that axum's router has found.
    #[cfg(feature = "axum")]
    Router(axum::extract::RawPathParams),
}

impl PathValues<'_> {
    /// Reads the values that axum's router has stored in the request for its extractors.
    #[cfg(feature = "axum")]
    fn of_router(parts: &mut Parts) -> Result<Self, KeyError> {
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
            Poll::Ready(Err(_)) | Poll::Pending => Err(unrouted()),
        }
    }

    #[cfg(not(feature = "axum"))]
    fn of_router(_: &mut Parts) -> Result<Self, KeyError> {
        // The builder refuses a template that needs a router.
        Ok(Self::None)
    }

    fn add(
        &self,
        key: LockKeyBuilder,
        parts: &Parts,
        name: &str,
        value_type: ValueType,
    ) -> Result<LockKeyBuilder, KeyError> {
        let what = || format!("path parameter `{name}`");
        match self {
            Self::Known(known) => {
                let value = known.route.find(known.path(parts), name);
                let value = value.ok_or_else(|| KeyError::Missing(what()))?;
                let value = decode(value).ok_or_else(|| malformed(what(), "is not UTF-8"))?;
                add(key, value_type, &value, what)
            }
            #[cfg(feature = "axum")]
            Self::Router(values) => {
                // If nested routers use a name twice, the innermost router's value counts.
                let value = values.iter().filter(|(key, _)| *key == name).last();
                let (_, value) = value.ok_or_else(|| no_such_parameter(parts, name))?;
                add(key, value_type, value, what)
            }
            Self::None => Err(no_such_parameter(parts, name)),
        }
    }
}

fn no_such_parameter(parts: &Parts, name: &str) -> KeyError {
    // The router's pattern shows the operator where to look, and nothing of the request.
    let route = matched_path(&parts.extensions).unwrap_or("around the layer");
    KeyError::Misplaced(format!("the route {route} has no parameter `{name}`"))
}
