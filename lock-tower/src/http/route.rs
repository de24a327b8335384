//! [`Route`]: a path pattern such as `/orders/{id}/pay`, matched as axum's router matches it.

use std::borrow::Cow;
use std::str::Utf8Error;

use http::{Extensions, Uri};
use lock_runtime::LockError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::http::error::invalid;
use crate::http::router::full_path_of;
use crate::http::template::Template;

/// The crate `matchit` gives each parameter a letter, and panics when it has none left.
const MOST_PARAMETERS: usize = 25;

/// A parsed route pattern.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) text: String,
    /// The names of its parameters, in order.
    names: Vec<String>,
    /// The pattern with numbers for names: the same for all routes that match the same paths.
    pub(crate) shape: String,
    matcher: matchit::Router<()>,
    /// True if it matches the path that the client sent; false if it matches the path without the prefixes of
    /// nested routers.
    is_whole: bool,
}

impl Route {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what to write instead: the rest of a sentence that begins with the pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = |problem: &str| {
            format!("{problem}; write it as `/orders/{{id}}/pay` or `/files/{{*path}}`")
        };
        if text.contains(['?', '#']) {
            return Err("has a query; a route is a path only, take it out".to_owned());
        }
        if text.contains(char::is_control) {
            return Err("contains a control character, which no path has; take it out".to_owned());
        }
        let Some(path) = text.strip_prefix('/') else {
            return Err(invalid("does not begin with `/`"));
        };
        let (mut names, mut shape) = (Vec::new(), String::new());
        for segment in path.split('/') {
            shape.push('/');
            if !segment.contains(['{', '}']) {
                if percent_decode_str(segment).decode_utf8().is_err() {
                    return Err(invalid("has a segment that is not UTF-8 when it is decoded"));
                }
                shape.push_str(&normalized(segment));
                continue;
            }
            let name = segment.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            let (star, name) = match name.map(|name| (name, name.strip_prefix('*'))) {
                Some((_, Some(name))) => ("*", name),
                Some((name, None)) => ("", name),
                None => ("", ""),
            };
            if name.is_empty() || name.contains(['{', '}', '*']) {
                return Err(invalid("has a segment with a brace that is not one parameter"));
            }
            if names.iter().any(|known| known == name) {
                return Err(invalid("has the same parameter twice"));
            }
            shape.push_str(&format!("{{{star}{}}}", names.len()));
            names.push(name.to_owned());
        }
        if names.len() > MOST_PARAMETERS {
            return Err(format!("has more than {MOST_PARAMETERS} parameters; take some out"));
        }
        let mut matcher = matchit::Router::new();
        match matcher.insert(shape.clone(), ()) {
            Ok(()) => Ok(Self { text: text.to_owned(), names, shape, matcher, is_whole: false }),
            Err(matchit::InsertError::InvalidCatchAll) => {
                Err(invalid("continues after its `{*…}`"))
            }
            Err(_) => Err(invalid("is not a path that a router can have")),
        }
    }

    /// Returns the first parameter of the template that the route does not have, and which ones it has.
    pub(crate) fn lacks<'t>(&self, template: &'t Template) -> Option<(&'t str, String)> {
        let mut named = template.path_parameters();
        let name = named.find(|name| !self.names.iter().any(|known| known == name))?;
        let known: Vec<_> = self.names.iter().map(|name| format!("`{{path.{name}}}`")).collect();
        Some((
            name,
            match known.is_empty() {
                true => "no parameters, which are written as `{id}`".to_owned(),
                false => known.join(", "),
            },
        ))
    }

    /// True if it has no parameters.
    pub(crate) fn is_fixed(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the path of the request that it matches.
    pub(crate) fn path_of<'p>(&self, uri: &'p Uri, extensions: &'p Extensions) -> &'p str {
        full_path_of(extensions).filter(|_| self.is_whole).unwrap_or(uri.path())
    }

    /// As [`parse`](Self::parse), for a layer.
    pub(crate) fn of(text: &str, is_whole: bool) -> Result<Self, LockError> {
        let route = Self::parse(text).map(|route| Self { is_whole, ..route });
        route.map_err(|problem| invalid(format!("the route `{text}` {problem}")))
    }

    /// Returns the parameter's value in `path`, decoded, if the path matches and has one.
    ///
    /// # Errors
    ///
    /// The value is not UTF-8.
    pub(crate) fn find(&self, path: &str, parameter: &str) -> Result<Option<String>, Utf8Error> {
        let path = normalized(path);
        let at = self.names.iter().position(|name| name == parameter);
        let (Ok(found), Some(at)) = (self.matcher.at(&path), at) else { return Ok(None) };
        let value = found.params.iter().nth(at).map(|(_, value)| value).filter(|it| !it.is_empty());
        let decoded = value.map(|value| percent_decode_str(value).decode_utf8());
        decoded.transpose().map(|value| value.map(Cow::into_owned))
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.matcher.at(&normalized(path)).is_ok()
    }
}

/// Writes each character of a path in one way: encoded or not, `m` is `m`, and `é` is `%C3%A9`.
pub(crate) fn normalized(path: &str) -> Cow<'_, str> {
    const ENCODED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    if path.bytes().all(is_plain) {
        return Cow::Borrowed(path);
    }
    let segment = |segment| {
        let decoded: Vec<u8> = percent_decode_str(segment).collect();
        percent_encode(&decoded, ENCODED).to_string()
    };
    Cow::Owned(path.split('/').map(segment).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found() {
        for (route, path, parameter, value) in [
            ("/orders/{id}/pay", "/orders/42/pay", "id", Some("42")),
            ("/orders/{id}/pay", "/orders/4%2f2/pay", "id", Some("4/2")),
            ("/orders/{id}/pay", "/%6Frders/42/pay", "id", Some("42")),
            ("/%6frders/a%20b%2F/{id}", "/order%73/a%20b%2f/42", "id", Some("42")),
            ("/café/{id}", "/caf%c3%a9/42", "id", Some("42")),
            ("/100%/{id}", "/100%/42", "id", Some("42")),
            ("/orders/{id}/pay", "/orders/42/pay/", "id", None),
            ("/orders/{id}/pay", "/orders/42", "id", None),
            ("/orders/{id}/pay", "/orders//pay", "id", None),
            ("/orders/{id}/pay", "/orders/42/refund", "id", None),
            ("/orders/{id}/pay", "/orders/42/pay", "other", None),
            ("/orders/{id}", "/orders/42/pay", "id", None),
            ("/orders/{id}", "/orders/", "id", None),
            ("/{a}/{b}", "/1/2", "b", Some("2")),
            ("/{a}/", "/1/", "a", Some("1")),
            ("/{a}/", "/1", "a", None),
            ("/files/{*path}", "/files/a/b", "path", Some("a/b")),
            ("/files/{*path}", "/files/", "path", None),
            ("/files/{*path}", "/files", "path", None),
            ("/{a}", "*", "a", None),
        ] {
            let found = Route::parse(route).unwrap().find(path, parameter).unwrap();
            assert_eq!(found.as_deref(), value, "{route} {path}");
        }
    }

    #[test]
    fn broken_routes_say_why() {
        for (route, reason) in [
            ("", "does not begin with `/`"),
            ("orders/{id}", "does not begin with `/`"),
            ("/orders/%FF", "not UTF-8 when it is decoded"),
            ("/orders?a", "has a query"),
            ("/orders/{id", "a segment with a brace"),
            ("/orders/{}", "a segment with a brace"),
            ("/orders/v{id}", "a segment with a brace"),
            ("/{a}{b}", "a segment with a brace"),
            ("/{*a}/b", "continues after"),
            ("/{a}/{a}", "the same parameter twice"),
        ] {
            let message = Route::parse(route).unwrap_err();
            assert!(message.contains(reason), "{route}: {message}");
        }
    }
}
