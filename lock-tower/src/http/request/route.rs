//! Route patterns: which part of a path is which parameter, where no router says so.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::http::layer::builder::BuildError;

/// `/orders/{id}/pay`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Matches itself, however it is encoded.
    Fixed(String),
    /// `{id}`: one segment that is not empty.
    One(String),
    /// `{*rest}`: everything that is left, which is not nothing.
    Rest(String),
}

impl Route {
    pub(crate) fn parse(text: &str) -> Result<Self, BuildError> {
        let wrong = |why: &str| {
            Err(BuildError::new(format!(
                "the route `{text}` {why}; write it as `/orders/{{id}}/pay` or `/files/{{*path}}`"
            )))
        };
        let Some(path) = text.strip_prefix('/') else { return wrong("does not begin with `/`") };
        if path.split('/').any(|segment| decode(segment).is_none()) {
            return wrong("has a segment that is not UTF-8 when it is decoded");
        }
        let segments: Option<Vec<_>> = path.split('/').map(segment).collect();
        let Some(segments) = segments else {
            return wrong("has a segment with a brace that is not one parameter");
        };
        let route = Self { text: text.to_owned(), segments };
        let rest = route.segments.iter().position(|part| matches!(part, Segment::Rest(_)));
        if rest.is_some_and(|at| at + 1 < route.segments.len()) {
            return wrong("goes on behind its `{*…}`");
        }
        let names: Vec<_> = route.parameters().collect();
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return wrong("has the same parameter twice");
        }
        Ok(route)
    }

    /// The names of its parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Fixed(_) => None,
            Segment::One(name) | Segment::Rest(name) => Some(name.as_str()),
        })
    }

    /// What stands in `path` for the parameter, if the path is one of this route.
    pub(crate) fn find<'p>(&self, path: &'p str, parameter: &str) -> Option<&'p str> {
        let mut found = None;
        let fits = self.walk(path, |name, value| {
            if name == parameter {
                found = Some(value);
            }
        });
        found.filter(|_| fits)
    }

    /// True if the path is one of this route.
    pub(crate) fn matches(&self, path: &str) -> bool {
        self.walk(path, |_, _| {})
    }

    fn walk<'p>(&self, path: &'p str, mut parameter: impl FnMut(&str, &'p str)) -> bool {
        let mut rest = path.strip_prefix('/');
        for segment in &self.segments {
            let Some(here) = rest else { return false };
            let (first, others) = split_first(here);
            let (name, value) = match segment {
                Segment::Fixed(text) => {
                    if decode(first).is_none_or(|first| first != *text) {
                        return false;
                    }
                    rest = others;
                    continue;
                }
                Segment::One(name) => (name, first),
                Segment::Rest(name) => (name, here),
            };
            rest = if matches!(segment, Segment::Rest(_)) { None } else { others };
            if value.is_empty() {
                return false;
            }
            parameter(name, value);
        }
        // If something is left over, it is not this route.
        rest.is_none()
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn segment(text: &str) -> Option<Segment> {
    if !text.contains(['{', '}']) {
        return decode(text).map(|text| Segment::Fixed(text.into_owned()));
    }
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    let (name, rest) = match name.strip_prefix('*') {
        Some(name) => (name, true),
        None => (name, false),
    };
    if name.is_empty() || name.contains(['{', '}', '*']) {
        return None;
    }
    Some(if rest { Segment::Rest(name.to_owned()) } else { Segment::One(name.to_owned()) })
}

/// The first segment of what is left of a path, and what is left then.
pub(crate) fn split_first(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((first, others)) => (first, Some(others)),
        None => (path, None),
    }
}

/// Percent-decodes; `None` if the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found() {
        for (route, path, parameter, value) in [
            ("/orders/{id}/pay", "/orders/42/pay", "id", Some("42")),
            ("/orders/{id}/pay", "/orders/4%2F2/pay", "id", Some("4%2F2")),
            ("/orders/{id}/pay", "/%6Frders/42/pay", "id", Some("42")),
            ("/%6frders/a%20b%2F/{id}", "/order%73/a b%2f/42", "id", Some("42")),
            ("/100%/{id}", "/100%25/42", "id", Some("42")),
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
            assert_eq!(Route::parse(route).unwrap().find(path, parameter), value, "{route} {path}");
        }
    }

    #[test]
    fn broken_routes_say_why() {
        for (route, reason) in [
            ("", "does not begin with `/`"),
            ("orders/{id}", "does not begin with `/`"),
            ("/orders/%FF", "not UTF-8 when it is decoded"),
            ("/orders/{id", "a segment with a brace"),
            ("/orders/{}", "a segment with a brace"),
            ("/orders/v{id}", "a segment with a brace"),
            ("/{a}{b}", "a segment with a brace"),
            ("/{*a}/b", "goes on behind"),
            ("/{a}/{a}", "the same parameter twice"),
        ] {
            let message = Route::parse(route).unwrap_err().to_string();
            assert!(message.contains(reason), "{route}: {message}");
        }
    }
}
