//! Finds configured routes that no request can reach, because earlier ones match all their requests.

use std::collections::{BTreeSet, HashMap};

use crate::http::config::settings::{HttpPolicy, LockRoute, Methods, SafeMethods};

/// Represents all methods that no route names.
const UNNAMED: &str = "";

/// The requests that a route locks.
pub(super) struct Reach {
    /// The position of the route.
    pub(super) at: usize,
    /// The same for all routes that match the same paths. Routes of another shape match other paths, or are matched in
    /// an order of their own.
    shape: String,
    methods: Methods,
    /// GET and HEAD lock too, with the read side.
    shared: bool,
}

impl Reach {
    pub(super) fn new(at: usize, shape: &str, route: &LockRoute, http: &HttpPolicy) -> Self {
        let methods = route.methods.as_ref().or(http.methods.as_ref());
        Self {
            at,
            shape: shape.to_owned(),
            methods: methods.cloned().unwrap_or_default(),
            shared: http.safe_methods == Some(SafeMethods::Shared),
        }
    }

    fn locks(&self, method: &str) -> bool {
        self.methods.contains(method) || (self.shared && matches!(method, "GET" | "HEAD"))
    }
}

/// Returns each route of which earlier routes match all requests, with the positions of these.
pub(super) fn shadowed(routes: &[Reach]) -> Vec<(usize, BTreeSet<usize>)> {
    let named = routes.iter().flat_map(|route| route.methods.names()).map(String::as_str);
    let methods: BTreeSet<_> = named.chain(["GET", "HEAD", UNNAMED]).collect();
    let (mut first, mut found) = (HashMap::new(), Vec::new());
    for route in routes {
        let locked = methods.iter().filter(|method| route.locks(method));
        let takers: BTreeSet<_> = locked
            .map(|method| *first.entry((route.shape.as_str(), *method)).or_insert(route.at))
            .collect();
        if !takers.is_empty() && !takers.contains(&route.at) {
            found.push((route.at, takers));
        }
    }
    found
}
