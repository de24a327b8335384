//! Makes the lock key of a request.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, Method};
use lock_runtime::key::LockKeyBuilder;
use lock_runtime::{KeyPart, LockError, LockKey};
use percent_encoding::percent_decode_str;

use crate::http::error::KeyError;
use crate::http::plan::invalid;
use crate::http::routes::Route;
use crate::http::template::{Piece, Place, Template};

/// Makes the lock keys of requests, where a template cannot.
pub(crate) type KeyFn = dyn Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static;

/// Where the keys of a layer come from.
#[derive(Clone)]
pub(crate) enum KeySource {
    Template { template: Template, route: Option<Arc<Route>>, extensions: ExtensionParts },
    Function(Arc<KeyFn>),
}

/// Adds a request extension to a key, if the request has it.
type ExtensionPart = dyn Fn(&Extensions, LockKeyBuilder) -> Option<LockKeyBuilder> + Send + Sync;

/// The request extensions that templates may name.
#[derive(Clone, Default)]
pub(crate) struct ExtensionParts(Vec<(String, Arc<ExtensionPart>)>);

impl ExtensionParts {
    /// Adds the extension of type `T`; it replaces an earlier one of that name.
    pub(crate) fn add<T: KeyPart + Send + Sync + 'static>(&mut self, name: String) {
        self.0.retain(|(known, _)| *known != name);
        let part =
            |extensions: &Extensions, key: LockKeyBuilder| Some(key.part(extensions.get::<T>()?));
        self.0.push((name, Arc::new(part)));
    }

    fn get(&self, name: &str) -> Option<&ExtensionPart> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, part)| &**part)
    }

    pub(crate) fn check(&self, template: &Template) -> Result<(), LockError> {
        let Some(name) = template.extensions().find(|name| self.get(name).is_none()) else {
            return Ok(());
        };
        let known: Vec<_> = self.0.iter().map(|(name, _)| format!("`{{ext.{name}}}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(invalid(format!(
            "`{{ext.{name}}}` is an extension whose type the layer does not know; name it with \
             `extension::<Type>({name:?})`, it knows {known}"
        )))
    }
}

impl KeySource {
    /// Returns the key, or `None` if the request needs no lock: the function says so, or the key needs a route and no
    /// route of the router has matched the request.
    pub(crate) fn key(
        &self,
        parts: &mut Parts,
        method: &Method,
    ) -> Result<Option<LockKey>, KeyError> {
        let (template, route, extensions) = match self {
            Self::Function(function) => return function(parts),
            Self::Template { template, route, extensions } => (template, route, extensions),
        };
        let mut key = LockKey::builder();
        for piece in template.pieces() {
            key = match piece {
                Piece::Text(text) => key.text(text),
                Piece::Method => key.part(method.as_str()),
                Piece::Route => match route_text(route.as_deref(), parts)? {
                    Some(text) => key.part(text),
                    None => return Ok(None),
                },
                Piece::Value(place, name, value_type) => {
                    let Some(text) = value(*place, name, route.as_deref(), parts)? else {
                        return Ok(None);
                    };
                    match value_type {
                        None => key.part(&*text),
                        Some(typed) => (typed.add)(key, &text).ok_or_else(|| {
                            place.malformed(name, &format!("is no {}", typed.name))
                        })?,
                    }
                }
                Piece::Ext(name) => extensions
                    .get(name)
                    .and_then(|part| part(&parts.extensions, key))
                    .ok_or_else(|| KeyError::Missing(format!("extension `{name}`")))?,
            };
        }
        Ok(Some(key.build()?))
    }
}

impl Place {
    fn describe(self, name: &str) -> String {
        match self {
            Self::Path => format!("path parameter `{name}`"),
            Self::Query => format!("query parameter `{name}`"),
            Self::Header => format!("header `{name}`"),
        }
    }

    fn missing(self, name: &str) -> KeyError {
        KeyError::Missing(self.describe(name))
    }

    fn malformed(self, name: &str, problem: &str) -> KeyError {
        KeyError::Malformed { what: self.describe(name), problem: problem.to_owned() }
    }
}

/// Returns the pattern of the route, which is the same for all its requests; `None` if no route of the router has matched
/// the request.
fn route_text<'a>(route: Option<&'a Route>, parts: &'a Parts) -> Result<Option<&'a str>, KeyError> {
    match (route, matched_path(&parts.extensions)) {
        (Some(route), _) if route.matches(route.path_of(&parts.uri, &parts.extensions)) => {
            Ok(Some(&route.text))
        }
        (Some(_), _) => Err(KeyError::Missing("path of the route".to_owned())),
        (None, Some(matched)) => Ok(Some(matched)),
        (None, None) => unknown(parts, "has no pattern"),
    }
}

/// Returns a value of the request, decoded; `None` if no route of the router has matched the request.
fn value<'a>(
    place: Place,
    name: &str,
    route: Option<&Route>,
    parts: &'a mut Parts,
) -> Result<Option<Cow<'a, str>>, KeyError> {
    let malformed = |problem| place.malformed(name, problem);
    // Of several values, the handler might use another one.
    let only = |known: usize| match known {
        0 => Err(place.missing(name)),
        1 => Ok(()),
        _ => Err(malformed("is there more than once")),
    };
    let text = match (place, route) {
        (Place::Path, Some(route)) => {
            let path = route.path_of(&parts.uri, &parts.extensions);
            match route.find(path, name) {
                Ok(value) => Cow::Owned(value.ok_or_else(|| place.missing(name))?),
                Err(_) => return Err(malformed("is not UTF-8")),
            }
        }
        (Place::Path, None) => match router_value(parts, name)? {
            Some(value) => Cow::Owned(value),
            None => return unknown(parts, &format!("has no parameter `{name}`")),
        },
        (Place::Header, _) => {
            let values = parts.headers.get_all(name);
            only(values.iter().count())?;
            match values.iter().next().map(http::HeaderValue::to_str) {
                Some(Ok(value)) => Cow::Borrowed(value),
                _ => return Err(malformed("is not visible ASCII")),
            }
        }
        (Place::Query, _) => {
            let pairs = parts.uri.query().unwrap_or_default().split('&');
            let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let mut values =
                pairs.filter(|(key, _)| form_decode(key).is_some_and(|key| key == name));
            only(values.clone().count())?;
            match values.next().map(|(_, value)| form_decode(value)) {
                Some(Some(value)) => value,
                _ => return Err(malformed("is not UTF-8")),
            }
        }
    };
    if text.is_empty() && place != Place::Path {
        return Err(malformed("is empty"));
    }
    Ok(Some(text))
}

/// Decodes form text, in which `+` is a space; `None` if the result is not UTF-8.
fn form_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decode_str(text).decode_utf8().ok();
    }
    let text = text.replace('+', " ");
    Some(Cow::Owned(percent_decode_str(&text).decode_utf8().ok()?.into_owned()))
}

/// Returns a parameter that axum's router has stored in the request for its extractors.
#[cfg(feature = "axum-08")]
fn router_value(parts: &mut Parts, name: &str) -> Result<Option<String>, KeyError> {
    use axum::extract::rejection::RawPathParamsRejection;
    use axum::extract::{FromRequestParts as _, RawPathParams};
    use futures_util::FutureExt as _;

    // The extractor's signature is asynchronous, but it only reads an extension and is ready at once.
    match RawPathParams::from_request_parts(parts, &()).now_or_never() {
        // If nested routers use a name twice, the innermost router's value counts.
        Some(Ok(values)) => {
            let value = values.iter().filter(|(key, _)| *key == name).last();
            Ok(value.map(|(_, value)| value.to_owned()))
        }
        Some(Err(RawPathParamsRejection::InvalidUtf8InPathParam(_))) => {
            let problem = "is not UTF-8".to_owned();
            Err(KeyError::Malformed { what: "path".to_owned(), problem })
        }
        Some(Err(_)) | None => Ok(None),
    }
}

#[cfg(not(feature = "axum-08"))]
fn router_value(_: &mut Parts, _: &str) -> Result<Option<String>, KeyError> {
    // The builder refuses a template that needs a router.
    Ok(None)
}

/// What a request is whose router does not know a value: no route has matched it, which is the router's to answer, or
/// the layer is in the wrong place.
fn unknown<T>(parts: &Parts, problem: &str) -> Result<Option<T>, KeyError> {
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

#[cfg(feature = "axum-08")]
pub(crate) use self::by_axum::{full_path_of, is_unmatched, matched_path};

/// What axum's router has stored in a request.
#[cfg(feature = "axum-08")]
mod by_axum {
    use axum::extract::{MatchedPath, OriginalUri};
    use http::Extensions;

    /// Returns the path as the client sent it, which a nested router has stored.
    pub(crate) fn full_path_of(extensions: &Extensions) -> Option<&str> {
        extensions.get::<OriginalUri>().map(|uri| uri.0.path())
    }

    /// Returns the pattern of the route that the router has matched, with the prefixes of nested routers.
    pub(crate) fn matched_path(extensions: &Extensions) -> Option<&str> {
        let matched = extensions.get::<MatchedPath>()?.as_str();
        // So axum marks a nested service whose own router has not matched yet.
        (!matched.contains("{*__private__")).then_some(matched)
    }

    /// True if the request has gone through a router, and no route matched it.
    pub(crate) fn is_unmatched(extensions: &Extensions) -> bool {
        extensions.get::<MatchedPath>().is_none() && full_path_of(extensions).is_some()
    }
}

#[cfg(not(feature = "axum-08"))]
pub(crate) fn full_path_of(_: &Extensions) -> Option<&str> {
    None
}

#[cfg(not(feature = "axum-08"))]
pub(crate) fn matched_path(_: &Extensions) -> Option<&str> {
    None
}

#[cfg(not(feature = "axum-08"))]
fn is_unmatched(_: &Extensions) -> bool {
    false
}
