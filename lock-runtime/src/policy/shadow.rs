//! Configured routes that no request can reach, because earlier ones take them all.

use std::collections::{BTreeSet, HashMap};

use percent_encoding::percent_decode_str;

use super::http::{Methods, SafeMethods};
use super::model::LockRoute;
use super::resolve::Policy;

/// The routes that came already, by the paths that they match. Routes of another shape match other paths, or
/// are asked in an order of their own.
#[derive(Default)]
pub(super) struct EarlierRoutes(HashMap<Vec<Segment>, Vec<(usize, Reach)>>);

impl EarlierRoutes {
    /// Adds a route; the positions of earlier ones that take all its requests, each by itself or
    /// together.
    pub(super) fn add(
        &mut self,
        at: usize,
        route: &LockRoute,
        policy: &Policy,
    ) -> Option<BTreeSet<usize>> {
        let shape = route.path.split('/').map(segment).collect();
        let (alike, reach) = (self.0.entry(shape).or_default(), Reach::new(route, policy));
        let before = takers(alike, &reach).filter(|before| !before.is_empty());
        alike.push((at, reach));
        before
    }
}

/// The first of the earlier routes that takes each of the methods; `None` if a method is left.
fn takers(earlier: &[(usize, Reach)], reach: &Reach) -> Option<BTreeSet<usize>> {
    // A method that no route names stands for all of those.
    const UNNAMED: &str = "";
    let routes = earlier.iter().map(|(_, earlier)| earlier).chain([reach]);
    let named = routes.flat_map(|route| route.methods.names()).map(String::as_str);
    let methods: BTreeSet<_> = named.chain(["GET", "HEAD", UNNAMED]).collect();
    let taker = |method| earlier.iter().find(|(_, earlier)| earlier.locks(method));
    let locked = methods.into_iter().filter(|method| reach.locks(method));
    locked.map(|method| taker(method).map(|(at, _)| *at)).collect()
}

/// Which requests of its paths a route locks.
struct Reach {
    methods: Methods,
    /// GET and HEAD lock as well, by the read side.
    shared: bool,
}

/// What a segment of a route matches; the name of a parameter says nothing of it.
#[derive(PartialEq, Eq, Hash)]
enum Segment {
    Fixed(Vec<u8>),
    One,
    Rest,
}

impl Reach {
    fn new(route: &LockRoute, policy: &Policy) -> Self {
        let http = policy.http();
        let methods = route.methods.as_ref().or(http.methods.as_ref());
        Self {
            methods: methods.cloned().unwrap_or_default(),
            shared: http.safe_methods == Some(SafeMethods::Shared),
        }
    }

    fn locks(&self, method: &str) -> bool {
        self.methods.contains(method) || (self.shared && matches!(method, "GET" | "HEAD"))
    }
}

fn segment(text: &str) -> Segment {
    match text.strip_prefix('{') {
        Some(name) if name.starts_with('*') => Segment::Rest,
        Some(_) => Segment::One,
        // As layers do before they compare.
        None => Segment::Fixed(percent_decode_str(text).collect()),
    }
}
