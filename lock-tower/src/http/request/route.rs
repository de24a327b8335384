//! [`Route`]: a path pattern such as `/orders/{id}/pay`, matched as axum's router matches it.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

/// A parsed route pattern.
#[derive(Clone)]
pub(crate) struct Route {
    text: String,
    /// The names of its parameters, in order.
    names: Vec<String>,
    /// The pattern with numbers for names: the same for all routes that match the same paths.
    shape: String,
    matcher: matchit::Router<()>,
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
                if decode(segment).is_none() {
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
        let mut matcher = matchit::Router::new();
        match matcher.insert(shape.clone(), ()) {
            Ok(()) => Ok(Self { text: text.to_owned(), names, shape, matcher }),
            Err(matchit::InsertError::InvalidCatchAll) => {
                Err(invalid("continues after its `{*…}`"))
            }
            Err(_) => Err(invalid("is not a path that a router can have")),
        }
    }

    /// Returns the names of the parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the parameter's value in `path`, encoded, if the path matches and has one.
    pub(crate) fn find(&self, path: &str, parameter: &str) -> Option<String> {
        let path = normalized(path);
        let found = self.matcher.at(&path).ok()?;
        let at = self.names.iter().position(|name| name == parameter)?;
        let (_, value) = found.params.iter().nth(at).filter(|(_, value)| !value.is_empty())?;
        Some(value.to_owned())
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.matcher.at(&normalized(path)).is_ok()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn shape(&self) -> &str {
        &self.shape
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes each character of a path in one way: encoded or not, `m` is `m`, and `é` is `%C3%A9`.
pub(crate) fn normalized(path: &str) -> Cow<'_, str> {
    if path.bytes().all(|byte| byte.is_ascii() && byte != b'%') {
        return Cow::Borrowed(path);
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, mut after)) = rest.split_first() {
        let encoded = match after.split_at_checked(2).filter(|_| byte == b'%') {
            Some((digits, behind)) => std::str::from_utf8(digits)
                .ok()
                .filter(|digits| !digits.starts_with('+'))
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                .inspect(|_| after = behind),
            None => None,
        };
        match encoded {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                normal.push(char::from(byte));
            }
            Some(byte) => normal.push_str(&format!("%{byte:02X}")),
            None if byte.is_ascii() => normal.push(char::from(byte)),
            None => normal.push_str(&format!("%{byte:02X}")),
        }
        rest = after;
    }
    Cow::Owned(normal)
}

/// Percent-decodes the text; `None` if the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    // Few paths have any, and text without is UTF-8 already.
    if !text.as_bytes().contains(&b'%') {
        return Some(Cow::Borrowed(text));
    }
    percent_decode_str(text).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found() {
        for (route, path, parameter, value) in [
            ("/orders/{id}/pay", "/orders/42/pay", "id", Some("42")),
            ("/orders/{id}/pay", "/orders/4%2f2/pay", "id", Some("4%2F2")),
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
            let found = Route::parse(route).unwrap().find(path, parameter);
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
