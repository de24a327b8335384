//! Values of a request for its lock key.

use std::borrow::Cow;

use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::http::error::KeyError;
use crate::http::route::Route;
use crate::http::router::{is_unmatched, matched_path, router_value};
use crate::http::template::Place;

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

    pub(crate) fn malformed(self, name: &str, problem: &str) -> KeyError {
        KeyError::Malformed { what: self.describe(name), problem: problem.to_owned() }
    }
}

/// Returns the pattern of the route, which is the same for all its requests; `None` if no route of the router has matched
/// the request.
pub(crate) fn route_text<'a>(
    route: Option<&'a Route>,
    parts: &'a Parts,
) -> Result<Option<&'a str>, KeyError> {
    let matched = matched_path(&parts.extensions);
    match route {
        // The router has matched this very route. Its path may lack what an outer router has taken away.
        Some(route) if matched == Some(&route.text) => Ok(Some(&route.text)),
        Some(route) if route.matches(route.path_of(&parts.uri, &parts.extensions)) => {
            Ok(Some(&route.text))
        }
        Some(_) => Err(KeyError::Missing("path of the route".to_owned())),
        None if matched.is_some() => Ok(matched),
        None => unknown(parts, "has no pattern"),
    }
}

/// Returns a value of the request, decoded; `None` if no route of the router has matched the request.
pub(crate) fn value<'a>(
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
            let value = match route.find(path, name) {
                // An outer service has rewritten the path; the router has matched the one that it made.
                Ok(None) if matched_path(&parts.extensions) == Some(&route.text) => {
                    router_value(parts, name)?
                }
                Ok(value) => value,
                Err(_) => return Err(malformed("is not UTF-8")),
            };
            Cow::Owned(value.ok_or_else(|| place.missing(name))?)
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
