//! Paths of routes: parsed and checked for a configuration when it is read, and for a layer when it is built.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A segment of the path of a route.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteSegment<'a> {
    /// Matches itself, however it is encoded; here it is decoded.
    Fixed(Cow<'a, str>),
    /// `{id}`: one segment that is not empty.
    One(Cow<'a, str>),
    /// `{*rest}`: the rest of the path, which is not empty.
    Rest(Cow<'a, str>),
}

impl RouteSegment<'_> {
    /// Returns the name of the parameter.
    #[must_use]
    pub fn parameter(&self) -> Option<&str> {
        match self {
            Self::Fixed(_) => None,
            Self::One(name) | Self::Rest(name) => Some(name),
        }
    }

    /// The segment, without its path.
    #[must_use]
    pub fn into_owned(self) -> RouteSegment<'static> {
        match self {
            Self::Fixed(text) => RouteSegment::Fixed(Cow::Owned(text.into_owned())),
            Self::One(name) => RouteSegment::One(Cow::Owned(name.into_owned())),
            Self::Rest(name) => RouteSegment::Rest(Cow::Owned(name.into_owned())),
        }
    }
}

/// Parses the path of a route.
///
/// # Errors
///
/// What is wrong with it, without what to write instead: the rest of a sentence that begins with the path.
#[doc(hidden)]
pub fn route_segments(path: &str) -> Result<Vec<RouteSegment<'_>>, &'static str> {
    let path = path.strip_prefix('/').ok_or("does not begin with `/`")?;
    let segments: Vec<_> = path.split('/').map(segment).collect::<Result<_, _>>()?;
    let rest = segments.iter().position(|segment| matches!(segment, RouteSegment::Rest(_)));
    if rest.is_some_and(|at| at + 1 < segments.len()) {
        return Err("continues after its `{*…}`");
    }
    let names = || segments.iter().filter_map(RouteSegment::parameter);
    if names().enumerate().any(|(at, name)| names().take(at).any(|earlier| earlier == name)) {
        return Err("has the same parameter twice");
    }
    Ok(segments)
}

fn segment(text: &str) -> Result<RouteSegment<'_>, &'static str> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "has a segment that is not UTF-8 when it is decoded")?;
    if !text.contains(['{', '}']) {
        return Ok(RouteSegment::Fixed(decoded));
    }
    let name = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let (name, is_rest) = match name.map(|name| (name, name.strip_prefix('*'))) {
        Some((_, Some(name))) => (name, true),
        Some((name, None)) => (name, false),
        None => ("", false),
    };
    if name.is_empty() || name.contains(['{', '}', '*']) {
        return Err("has a segment with a brace that is not one parameter");
    }
    let name = Cow::Borrowed(name);
    Ok(if is_rest { RouteSegment::Rest(name) } else { RouteSegment::One(name) })
}

/// Parses the path of a configured route. The problem says what to write instead.
pub(crate) fn configured(path: &str) -> Result<Vec<RouteSegment<'_>>, String> {
    if path.contains(['?', '#']) {
        return Err("has a query; a route is a path only, take it out".to_owned());
    }
    if path.contains(char::is_control) {
        return Err("contains a control character, which no path has; take it out".to_owned());
    }
    route_segments(path).map_err(|problem| {
        format!("{problem}; write it as \"/orders/{{id}}/pay\" or \"/files/{{*path}}\"")
    })
}
