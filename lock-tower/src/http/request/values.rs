//! Values of a request for its lock key.

use std::borrow::Cow;

use http::HeaderName;
use http::request::Parts;
use lock_runtime::key::LockKeyBuilder;
use percent_encoding::percent_decode_str;

use crate::http::config::value_type::ValueType;
use crate::http::error::KeyError;
use crate::http::request::route::decode;

pub(crate) fn malformed(what: String, problem: &str) -> KeyError {
    KeyError::Malformed { what, problem: problem.to_owned() }
}

/// Adds a value to the key as its type writes it.
pub(crate) fn add(
    key: LockKeyBuilder,
    value: ValueType,
    text: &str,
    what: impl FnOnce() -> String,
) -> Result<LockKeyBuilder, KeyError> {
    value
        .add(key, text)
        .ok_or_else(|| malformed(what(), &format!("is no {}", value.name().unwrap_or("text"))))
}

pub(crate) fn of_header(name: &HeaderName) -> String {
    format!("header `{name}`")
}

pub(crate) fn of_query(name: &str) -> String {
    format!("query parameter `{name}`")
}

/// Returns the only value of a header. Of several values, the handler might use another one.
pub(crate) fn header<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a str, KeyError> {
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
pub(crate) fn query<'a>(parts: &'a Parts, name: &str) -> Result<Cow<'a, str>, KeyError> {
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
