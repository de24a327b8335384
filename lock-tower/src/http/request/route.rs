//! Route patterns: which part of a path is which parameter, and whether a router's pattern is the same route.

use std::borrow::Cow;

use lock_runtime::policy::{RouteSegment, route_segments};
use percent_encoding::percent_decode_str;

use crate::http::error::BuildError;

pub(crate) type Segment = RouteSegment<'static>;

/// A parsed route pattern such as `/orders/{id}/pay`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    text: String,
    segments: Vec<Segment>,
}

impl Route {
    pub(crate) fn parse(text: &str) -> Result<Self, BuildError> {
        let segments = route_segments(text).map_err(|problem| {
            BuildError::new(format!(
                "the route `{text}` {problem}; write it as `/orders/{{id}}/pay` or `/files/{{*path}}`"
            ))
        })?;
        let segments = segments.into_iter().map(RouteSegment::into_owned).collect();
        Ok(Self { text: text.to_owned(), segments })
    }

    /// Returns the names of the parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(Segment::parameter)
    }

    /// Returns the parameter's value in `path`, encoded as it is there, if the path matches.
    pub(crate) fn find<'p>(&self, path: &'p str, parameter: &str) -> Option<&'p str> {
        let mut found = None;
        let fits = self.walk(path, |name, value| {
            if name == parameter {
                found = Some(value);
            }
        });
        found.filter(|_| fits)
    }

    /// True if the path matches.
    pub(crate) fn matches(&self, path: &str) -> bool {
        self.walk(path, |_, _| {})
    }

    /// Calls `parameter` with each parameter and its value; true if the path matches.
    fn walk<'p>(&self, path: &'p str, mut parameter: impl FnMut(&str, &'p str)) -> bool {
        let mut rest = path.strip_prefix('/');
        for segment in &self.segments {
            let Some(here) = rest else { return false };
            let first = FirstSegment::of(here);
            let (name, value) = match segment {
                Segment::Fixed(text) => {
                    if first.decoded().is_none_or(|first| first != *text) {
                        return false;
                    }
                    rest = first.rest;
                    continue;
                }
                Segment::One(name) => (name, first.text),
                Segment::Rest(name) => (name, here),
            };
            rest = if matches!(segment, Segment::Rest(_)) { None } else { first.rest };
            if value.is_empty() {
                return false;
            }
            parameter(name, value);
        }
        rest.is_none()
    }

    /// True if this route covers the route with the router's `pattern`, where both match one path: every path
    /// of the pattern has a segment here that is as specific, or falls under `{*rest}`.
    ///
    /// Where the router has fixed text and this route has a parameter, the router has a more specific route,
    /// which this one does not cover.
    pub(crate) fn covers(&self, pattern: &str) -> bool {
        // axum adds slashes at the mount point of a nested service. The caller has matched the path already,
        // with or without a slash at its end.
        let pattern = pattern.trim_end_matches('/');
        let mut theirs = pattern.split('/').skip(1).map(RouterSegment::of);
        for ours in &self.segments {
            match (ours, theirs.next()) {
                (Segment::Rest(_), _) | (_, Some(RouterSegment::Rest)) => return true,
                (Segment::Fixed(_), Some(RouterSegment::RestWithin)) => return true,
                (Segment::Fixed(_), Some(RouterSegment::One | RouterSegment::Within)) => {}
                (Segment::Fixed(ours), Some(RouterSegment::Fixed(theirs))) => {
                    if decode(&without_doubled_braces(theirs)).is_none_or(|theirs| theirs != *ours)
                    {
                        return false;
                    }
                }
                (Segment::One(_), Some(RouterSegment::One)) => {}
                (Segment::One(_), Some(_)) => return false,
                (ours, None) => return *ours == Segment::Fixed(Cow::Borrowed("")),
            }
        }
        theirs.next().is_none()
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

/// A segment of a router's pattern, as axum writes it.
enum RouterSegment<'p> {
    Fixed(&'p str),
    /// `{id}`
    One,
    /// `v{id}`
    Within,
    /// `{*rest}`
    Rest,
    /// `v{*rest}`
    RestWithin,
}

impl<'p> RouterSegment<'p> {
    fn of(segment: &'p str) -> Self {
        let bytes = segment.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match (bytes[at], bytes.get(at + 1)) {
                // A doubled brace is text.
                (b'{', Some(b'{')) | (b'}', Some(b'}')) => at += 2,
                (b'{', Some(b'*')) if at == 0 => return Self::Rest,
                (b'{', Some(b'*')) => return Self::RestWithin,
                (b'{', _) if at == 0 && segment.ends_with('}') => return Self::One,
                (b'{', _) => return Self::Within,
                _ => at += 1,
            }
        }
        Self::Fixed(segment)
    }
}

/// A segment of a router's pattern as it is in a path.
fn without_doubled_braces(segment: &str) -> Cow<'_, str> {
    if !segment.contains(['{', '}']) {
        return Cow::Borrowed(segment);
    }
    Cow::Owned(segment.replace("{{", "{").replace("}}", "}"))
}

/// The first segment of the rest of a path.
pub(crate) struct FirstSegment<'p> {
    /// As it is in the path.
    pub(crate) text: &'p str,
    /// What follows it.
    pub(crate) rest: Option<&'p str>,
    is_encoded: bool,
}

impl<'p> FirstSegment<'p> {
    pub(crate) fn of(path: &'p str) -> Self {
        let mut is_encoded = false;
        // Segments are short: one loop finds all sooner than searches that are made for long text.
        for (at, byte) in path.bytes().enumerate() {
            match byte {
                b'/' => return Self { text: &path[..at], rest: Some(&path[at + 1..]), is_encoded },
                b'%' => is_encoded = true,
                _ => {}
            }
        }
        Self { text: path, rest: None, is_encoded }
    }

    /// As [`decode`].
    pub(crate) fn decoded(&self) -> Option<Cow<'p, str>> {
        if self.is_encoded { decode(self.text) } else { Some(Cow::Borrowed(self.text)) }
    }
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
            ("/{*a}/b", "continues after"),
            ("/{a}/{a}", "the same parameter twice"),
        ] {
            let message = Route::parse(route).unwrap_err().to_string();
            assert!(message.contains(reason), "{route}: {message}");
        }
    }

    #[test]
    fn a_route_covers_the_patterns_that_are_as_specific() {
        for (route, pattern, expected) in [
            ("/orders/{id}/pay", "/orders/{order}/pay", true),
            ("/", "/", true),
            ("/orders", "/orders", true),
            ("/café/{id}", "/caf%C3%A9/{nr}", true),
            ("/caf%C3%A9/{id}", "/caf%c3%a9/{nr}", true),
            ("/orders/%7Bid%7D", "/orders/{{id}}", true),
            // A part of the router's route.
            ("/orders/mine", "/orders/{id}", true),
            ("/orders/v2", "/orders/v{version}", true),
            ("/{a}/mine", "/{a}/{b}", true),
            // The router's `{*rest}` matches anything.
            ("/files/a/{b}", "/files/{*path}", true),
            ("/files/{a}", "/{*path}", true),
            ("/files/v2/{a}", "/files/v{*path}", true),
            ("/files/{*path}", "/files/{*rest}", true),
            // So does the configuration's.
            ("/admin/{*rest}", "/admin/users/{id}/keys", true),
            ("/admin/{*rest}", "/admin/{page}", true),
            ("/{*rest}", "/admin", true),
            ("/{tenant}/{*rest}", "/{t}/bills", true),
            // axum writes the mount point of a service so.
            ("/v1/{t}", "/v1/{t}/", true),
            ("/v1/{t}/", "/v1/{t}//", true),
            ("/v1/{t}/", "/v1/{t}", true),
            // Another route.
            ("/orders/{id}", "/orders/special", false),
            ("/orders/{id}", "/orders/{{id}}", false),
            ("/orders/{id}", "/orders/v{version}", false),
            ("/orders/{id}", "/orders/v{*rest}", false),
            ("/{tenant}/{*rest}", "/admin/{page}", false),
            ("/{a}/mine", "/orders/{id}", false),
            ("/orders/mine", "/orders/yours", false),
            ("/orders/mine", "/orders/mine/{id}", false),
            ("/orders/mine/{id}", "/orders/mine", false),
            ("/a", "/", false),
        ] {
            let covered = Route::parse(route).unwrap().covers(pattern);
            assert_eq!(covered, expected, "{route} and the router's {pattern}");
        }
    }
}
