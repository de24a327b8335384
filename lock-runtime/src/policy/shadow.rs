//! Finds configured routes that no request can reach, because earlier ones match all their requests.

use std::collections::{BTreeSet, HashMap};

use percent_encoding::percent_decode_str;

use super::http::{Methods, SafeMethods};
use super::model::LockRoute;
use super::resolve::Policy;

/// The routes so far, by the paths that they match. Routes of another shape match other paths, or are matched
/// in an order of their own.
#[derive(Default)]
pub(super) struct EarlierRoutes(HashMap<Vec<Segment>, Vec<(usize, Reach)>>);

impl EarlierRoutes {
    /// Adds a route. Returns the positions of earlier ones that match all its requests, alone or together.
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

/// Returns for each method the first earlier route that matches it; `None` if no route matches one of them.
fn takers(earlier: &[(usize, Reach)], reach: &Reach) -> Option<BTreeSet<usize>> {
    // Represents all methods that no route names.
    const UNNAMED: &str = "";
    let routes = earlier.iter().map(|(_, earlier)| earlier).chain([reach]);
    let named = routes.flat_map(|route| route.methods.names()).map(String::as_str);
    let methods: BTreeSet<_> = named.chain(["GET", "HEAD", UNNAMED]).collect();
    let taker = |method| earlier.iter().find(|(_, earlier)| earlier.locks(method));
    let locked = methods.into_iter().filter(|method| reach.locks(method));
    locked.map(|method| taker(method).map(|(at, _)| *at)).collect()
}

/// The requests of its paths that a route locks.
struct Reach {
    methods: Methods,
    /// GET and HEAD lock too, with the read side.
    shared: bool,
}

/// What a segment of a route matches, apart from the name of a parameter.
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
