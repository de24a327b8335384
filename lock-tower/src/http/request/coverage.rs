//! Whether a configured route is about the route that a router has chosen for the same path.

use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use parking_lot::RwLock;

use crate::http::request::route::{Route, Segment, decode};

/// True if the route speaks of all that the router's pattern does, at least as closely or by `{*rest}`,
/// where both match one path. Where the router has fixed text and the route a parameter, the router tells
/// apart what the route does not: that is another route.
pub(crate) fn is_covered(route: &Route, pattern: &str) -> bool {
    // A service that is nested may have slashes at its mount point that the path has not; whether the
    // path has one has been looked at.
    let pattern = pattern.trim_end_matches('/');
    let mut theirs = pattern.split('/').skip(1).map(Theirs::of);
    for ours in route.segments() {
        match (ours, theirs.next()) {
            (Segment::Rest(_), _) | (_, Some(Theirs::Rest)) => return true,
            (Segment::Fixed(_), Some(Theirs::RestWithin)) => return true,
            (Segment::Fixed(_), Some(Theirs::One | Theirs::Within)) => {}
            (Segment::Fixed(ours), Some(Theirs::Fixed(theirs))) => {
                if decode(&text(theirs)).is_none_or(|theirs| theirs != *ours) {
                    return false;
                }
            }
            (Segment::One(_), Some(Theirs::One)) => {}
            (Segment::One(_), Some(_)) => return false,
            (ours, None) => return *ours == Segment::Fixed(String::new()),
        }
    }
    theirs.next().is_none()
}

/// A segment of a router's pattern.
enum Theirs<'p> {
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

impl<'p> Theirs<'p> {
    fn of(segment: &'p str) -> Self {
        let bytes = segment.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match (bytes[at], bytes.get(at + 1)) {
                // A brace that is text.
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

/// A segment without parameters, as it is in a path: patterns have braces twice.
fn text(segment: &str) -> Cow<'_, str> {
    if !segment.contains(['{', '}']) {
        return Cow::Borrowed(segment);
    }
    Cow::Owned(segment.replace("{{", "{").replace("}}", "}"))
}

/// Bounds what a layer remembers, should a program's patterns be without end.
const MOST_PAIRS: usize = 1024;

/// The pairs of a configured route and a router's pattern that the log knows of.
#[derive(Debug, Default)]
pub(crate) struct WarnedRoutes {
    pairs: RwLock<HashSet<u64>>,
    hasher: RandomState,
}

impl WarnedRoutes {
    /// Tells the operator, once, of a configured route that matches a path and is not the router's.
    pub(crate) fn tell(&self, route: &Route, pattern: &str) {
        if self.is_new(route.text(), pattern) {
            tracing::warn!(
                configured = route.text(),
                router = pattern,
                "a request runs without a lock: its path is that of a configured route, but the router \
                 has another route for it. If that one is to be locked, list it in `[[lock.routes]]`, \
                 written as the router does; else nothing has to be done"
            );
        }
    }

    fn is_new(&self, route: &str, pattern: &str) -> bool {
        let pair = self.hasher.hash_one((route, pattern));
        let pairs = self.pairs.read();
        if pairs.len() >= MOST_PAIRS || pairs.contains(&pair) {
            return false;
        }
        drop(pairs);
        self.pairs.write().insert(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_cover_what_they_speak_of() {
        for (route, pattern, expected) in [
            ("/orders/{id}/pay", "/orders/{order}/pay", true),
            ("/", "/", true),
            ("/orders", "/orders", true),
            ("/café/{id}", "/caf%C3%A9/{nr}", true),
            ("/caf%C3%A9/{id}", "/caf%c3%a9/{nr}", true),
            ("/orders/%7Bid%7D", "/orders/{{id}}", true),
            // A closer look at one of the router's.
            ("/orders/mine", "/orders/{id}", true),
            ("/orders/v2", "/orders/v{version}", true),
            ("/{a}/mine", "/{a}/{b}", true),
            // The router's rest is anything.
            ("/files/a/{b}", "/files/{*path}", true),
            ("/files/{a}", "/{*path}", true),
            ("/files/v2/{a}", "/files/v{*path}", true),
            ("/files/{*path}", "/files/{*rest}", true),
            // And so is the configuration's.
            ("/admin/{*rest}", "/admin/users/{id}/keys", true),
            ("/admin/{*rest}", "/admin/{page}", true),
            ("/{*rest}", "/admin", true),
            ("/{tenant}/{*rest}", "/{t}/bills", true),
            // As axum writes the mount point of a service.
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
            let covered = is_covered(&Route::parse(route).unwrap(), pattern);
            assert_eq!(covered, expected, "{route} and the router's {pattern}");
        }
    }

    #[test]
    fn pairs_are_told_once_and_not_without_end() {
        let warned = WarnedRoutes::default();
        assert!(warned.is_new("/a/{b}", "/a/c") && warned.is_new("/a/{b}", "/a/d"));
        assert!(!warned.is_new("/a/{b}", "/a/c") && warned.is_new("/a/{c}", "/a/c"));
        let new = (0..2 * MOST_PAIRS).filter(|n| warned.is_new("/a/{b}", &format!("/a/{n}")));
        assert_eq!(new.count(), MOST_PAIRS - 3);
        assert_eq!(warned.pairs.read().len(), MOST_PAIRS);
    }
}
