//! The routes of a layer: [`RouteIndex`] finds the one of a path, [`WarnedRoutes`] and [`SeenRoutes`] remember
//! the router's.

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use lock_runtime::policy::nearest;
use parking_lot::RwLock;

use crate::http::error::BuildError;
use crate::http::request::key::KeySource;
use crate::http::request::route::{FirstSegment, Route, Segment};

/// An index of routes by their segments, with a `T` for each route.
///
/// `matchit`, which routers use, does not fit: it compares fixed text encoded, refuses routes that differ
/// only in the names of parameters, and finds one route for a path, while a route that locks other methods
/// must not hide the next one.
#[derive(Debug)]
pub(crate) struct RouteIndex<T>(Node<T>);

/// Faster than the standard one, which resists keys that are chosen to collide: these come from the configuration.
type Hashing = foldhash::fast::RandomState;

#[derive(Debug)]
struct Node<T> {
    /// The values of the routes that end here, in insertion order.
    ends: Vec<T>,
    /// The values of the routes that end here with `{*rest}`, in insertion order.
    rests: Vec<T>,
    fixed: HashMap<Box<str>, Node<T>, Hashing>,
    one: Option<Box<Node<T>>>,
}

impl<T> RouteIndex<T> {
    pub(crate) fn new() -> Self {
        Self(Node::new())
    }

    pub(crate) fn insert(&mut self, route: &Route, value: T) {
        let mut node = &mut self.0;
        for segment in route.segments() {
            node = match segment {
                Segment::Fixed(text) => node.fixed.entry((**text).into()).or_insert_with(Node::new),
                Segment::One(_) => node.one.get_or_insert_with(|| Box::new(Node::new())),
                // `{*rest}` is always the last segment.
                Segment::Rest(_) => return node.rests.push(value),
            };
        }
        node.ends.push(value);
    }

    /// Returns the value of the first route that matches `path` and that `accept` accepts.
    ///
    /// The most specific route comes first: segment by segment from the left, fixed text before `{id}` before
    /// `{*rest}`; equal routes come in insertion order.
    pub(crate) fn find<'i>(
        &'i self,
        path: &str,
        mut accept: impl FnMut(&'i T) -> bool,
    ) -> Option<&'i T> {
        self.0.find(path.strip_prefix('/'), &mut accept)
    }
}

impl<T> Node<T> {
    fn new() -> Self {
        Self { ends: Vec::new(), rests: Vec::new(), fixed: HashMap::default(), one: None }
    }

    // The recursion is as deep as the longest route has segments, whatever the path.
    fn find<'i>(
        &'i self,
        path: Option<&str>,
        accept: &mut impl FnMut(&'i T) -> bool,
    ) -> Option<&'i T> {
        let Some(path) = path else { return self.ends.iter().find(|value| accept(value)) };
        let first = FirstSegment::of(path);
        let text = if self.fixed.is_empty() { None } else { first.decoded() };
        let fixed = text.and_then(|text| self.fixed.get(&*text));
        let one = self.one.as_deref().filter(|_| !first.text.is_empty());
        let rests = if path.is_empty() { &[] } else { &*self.rests };
        fixed
            .and_then(|child| child.find(first.rest, accept))
            .or_else(|| one?.find(first.rest, accept))
            .or_else(|| rests.iter().find(|value| accept(value)))
    }
}

/// The most routes that a layer remembers, in case a program has an unbounded number of patterns.
const MAX_REMEMBERED: usize = 1024;

/// Adds the item unless the set is full; true if it is new.
fn remember<T>(set: &RwLock<HashSet<T::Owned>>, item: &T) -> bool
where
    T: ToOwned<Owned: Hash + Eq> + Hash + Eq + ?Sized,
{
    let known = set.read();
    if known.len() >= MAX_REMEMBERED || known.contains(item) {
        return false;
    }
    drop(known);
    set.write().insert(item.to_owned())
}

/// The pairs of a configured route and a router's pattern that the layer has warned about.
#[derive(Debug, Default)]
pub(crate) struct WarnedRoutes {
    pairs: RwLock<HashSet<u64>>,
    hasher: RandomState,
}

impl WarnedRoutes {
    /// Warns the operator, once for each pair, that a configured route matches a path and is not the router's
    /// route.
    pub(crate) fn warn(&self, route: &Route, pattern: &str) {
        if self.is_new(route.text(), pattern) {
            tracing::warn!(
                configured = route.text(),
                router = pattern,
                "a request runs without a lock: a configured route matches its path, but the router has a \
                 more specific route for it. To lock that route, list it in `[[lock.routes]]` as the router \
                 writes it; if it needs no lock, ignore this"
            );
        }
    }

    /// Warns the operator, once for each pattern of the router, that no configured route matches its requests, but one
    /// of these is spelt nearly so.
    pub(crate) fn warn_of_near<'r>(&self, pattern: &str, routes: impl Iterator<Item = &'r str>) {
        if self.is_new("", pattern)
            && let Some(near) = nearest(pattern, routes)
        {
            tracing::warn!(
                configured = near,
                router = pattern,
                "a request runs without a lock: no configured route matches its path, but one is spelt nearly as \
                 the router's. To lock that route, correct the path in `[[lock.routes]]`; if it needs no lock, \
                 ignore this"
            );
        }
    }

    fn is_new(&self, route: &str, pattern: &str) -> bool {
        remember(&self.pairs, &self.hasher.hash_one((route, pattern)))
    }
}

/// The router's patterns that the layer has had requests for: a router does not list its routes.
#[derive(Debug, Default)]
pub(crate) struct SeenRoutes(RwLock<HashSet<String>>);

impl SeenRoutes {
    /// Remembers the router's pattern for a request, if a router has matched one.
    pub(crate) fn note(&self, pattern: Option<&str>) {
        if let Some(pattern) = pattern {
            remember(&self.0, pattern);
        }
    }

    /// Refuses a `key` with a path parameter that is neither in `current`, the key in use, nor in a route that
    /// the layer has had a request for.
    ///
    /// Before the first request it accepts every key, so that all instances of a service accept the same
    /// configuration.
    pub(crate) fn check(
        &self,
        key: &KeySource,
        current: Option<&KeySource>,
    ) -> Result<(), BuildError> {
        let seen = self.0.read();
        let used: Vec<_> = current.into_iter().flat_map(KeySource::router_parameters).collect();
        if seen.is_empty() || seen.len() >= MAX_REMEMBERED {
            return Ok(());
        }
        let is_known = |name: &str| {
            let [one, rest] = [format!("{{{name}}}"), format!("{{*{name}}}")];
            used.contains(&name) || seen.iter().any(|it| it.contains(&one) || it.contains(&rest))
        };
        match key.router_parameters().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(BuildError::new(format!(
                "`{{path.{name}}}` is in no route that the layer has had a request for, and requests for \
                 the known routes would fail; write a parameter of the router's routes"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sorts the most specific route first.
    fn specificity(route: &Route) -> Vec<u8> {
        let rank = |segment: &Segment| match segment {
            Segment::Fixed(_) => 0,
            Segment::One(_) => 1,
            Segment::Rest(_) => 2,
        };
        route.segments().iter().map(rank).collect()
    }

    /// The positions of the routes that match, the most specific first, found without an index.
    fn one_by_one(routes: &[Route], path: &str) -> Vec<usize> {
        let mut found: Vec<_> = (0..routes.len()).filter(|at| routes[*at].matches(path)).collect();
        found.sort_by_key(|at| specificity(&routes[*at]));
        found
    }

    fn index(routes: &[Route]) -> RouteIndex<usize> {
        let mut index = RouteIndex::new();
        routes.iter().enumerate().for_each(|(at, route)| index.insert(route, at));
        index
    }

    /// The positions of the routes that `find` offers, in order.
    fn asked(index: &RouteIndex<usize>, path: &str) -> Vec<usize> {
        let mut asked = Vec::new();
        assert_eq!(
            index.find(path, |at| {
                asked.push(*at);
                false
            }),
            None
        );
        asked
    }

    #[test]
    fn the_most_specific_route_comes_first() {
        let routes = [
            "/{*rest}",
            "/{a}/mine",
            "/orders/{*rest}",
            "/orders/{id}",
            "/orders/mine",
            "/{b}/mine",
            "/orders/{nr}",
            "/orders/mine/",
            "/",
            "/orders",
        ];
        let routes = routes.map(|route| Route::parse(route).unwrap());
        let index = index(&routes);
        for (path, expected) in [
            ("/orders/mine", vec![4, 3, 6, 2, 1, 5, 0]),
            ("/orders/%6Dine", vec![4, 3, 6, 2, 1, 5, 0]),
            ("/orders/7", vec![3, 6, 2, 0]),
            ("/orders/%FF", vec![3, 6, 2, 0]),
            ("/orders/mine/", vec![7, 2, 0]),
            ("/orders//", vec![2, 0]),
            ("/orders/", vec![0]),
            ("/orders", vec![9, 0]),
            ("/", vec![8]),
            ("//", vec![0]),
            ("", vec![]),
            ("*", vec![]),
        ] {
            assert_eq!(asked(&index, path), expected, "{path}");
            assert_eq!(one_by_one(&routes, path), expected, "{path}");
        }
    }

    #[test]
    fn each_pair_is_warned_about_once_and_the_memory_is_bounded() {
        let warned = WarnedRoutes::default();
        assert!(warned.is_new("/a/{b}", "/a/c") && warned.is_new("/a/{b}", "/a/d"));
        assert!(!warned.is_new("/a/{b}", "/a/c") && warned.is_new("/a/{c}", "/a/c"));
        let new = (0..2 * MAX_REMEMBERED).filter(|n| warned.is_new("/a/{b}", &format!("/a/{n}")));
        assert_eq!(new.count(), MAX_REMEMBERED - 3);
        assert_eq!(warned.pairs.read().len(), MAX_REMEMBERED);
    }

    fn routes() -> impl Strategy<Value = Vec<Route>> {
        let fixed = prop::sample::select(vec!["a", "b", "", "a b", "é", "%", "%61", "*", "a+b"]);
        let segment = prop_oneof![3 => fixed.prop_map(str::to_owned), 2 => Just("{}".to_owned())];
        let rest = prop::bool::weighted(0.3);
        let route = (prop::collection::vec(segment, 1..5), rest).prop_map(|(segments, rest)| {
            let mut text = String::new();
            for (at, segment) in segments.iter().enumerate() {
                text += "/";
                text += &segment.replace("{}", &format!("{{p{at}}}"));
            }
            Route::parse(&(text + if rest { "/{*rest}" } else { "" })).unwrap()
        });
        prop::collection::vec(route, 0..24)
    }

    fn path() -> impl Strategy<Value = String> {
        let segment = prop::sample::select(vec![
            "a", "b", "", "%61", "%62", "a%20b", "a b", "a+b", "%C3%A9", "é", "%", "%25", "%2561",
            "%FF", "%2F", "a%2Fb", "%zz", "%7Bp0%7D", "{p0}", "{*rest}", "*", "c",
        ]);
        let slash = prop::bool::weighted(0.97);
        (prop::collection::vec(segment, 0..8), slash).prop_map(|(segments, slash)| {
            let path = segments.join("/");
            if slash { format!("/{path}") } else { path }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn it_finds_what_matching_each_route_finds(
            routes in routes(),
            paths in prop::collection::vec(path(), 1..16),
            accepted in any::<u32>(),
        ) {
            let index = index(&routes);
            for path in &paths {
                let expected = one_by_one(&routes, path);
                prop_assert_eq!(asked(&index, path), &expected[..], "{}", path);
                let accept = |at: &usize| accepted & 1 << at != 0;
                let first = expected.iter().copied().find(accept);
                prop_assert_eq!(index.find(path, accept).copied(), first, "{}", path);
            }
        }
    }
}
