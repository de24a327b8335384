//! Checks the entries of `[[lock.routes]]`.

use std::collections::{BTreeSet, HashMap};

use super::{Check, harmless};
use crate::policy::LockConfig;
use crate::policy::error::{ConfigProblem, join, may_be_secret, quoted};
use crate::policy::http::Methods;
use crate::policy::layer;
use crate::policy::model::LockRoute;
use crate::policy::resolve::Policy;
use crate::policy::route::{self, RouteSegment};
use crate::policy::shadow::EarlierRoutes;
use crate::policy::template::{KeyPiece, key_pieces};

impl Check {
    pub(super) fn routes(&mut self, routes: &[LockRoute], config: &LockConfig) {
        let mut taken = HashMap::new();
        let mut earlier = EarlierRoutes::default();
        for (at, route) in routes.iter().enumerate() {
            let path = format!("lock.routes[{at}]");
            let policy = config.policy(&route.policy);
            if let Err(error) = &policy {
                let known = config.policies().map(|policy| policy.name());
                let names: Vec<_> = known.chain([route.policy.as_str()]).collect();
                self.report(format!("{path}.policy"), harmless(error.to_string(), &names));
            }
            let segments = route::configured(&route.path);
            if let Err(problem) = &segments {
                self.report(format!("{path}.path"), format!("{} {problem}", quoted(&route.path)));
            }
            self.report_all(layer::key_problem(&path, route.key.as_deref()));
            self.report_all(layer::methods(&path, route.methods.as_ref()));
            let listed = match &route.methods {
                Some(Methods::These(methods)) => &methods[..],
                _ => &[],
            };
            let mut is_told = false;
            for method in listed {
                if let Some(before) = taken.insert((&route.path, method), at) {
                    let route = quoted(&route.path);
                    let message =
                        format!("{method} {route} is lock.routes[{before}] already; take one out");
                    self.report(&path, message);
                    is_told = true;
                }
            }
            let Ok(policy) = policy else { continue };
            if let Ok(segments) = segments {
                self.report_all(parameter_problem(&path, route, &segments, &policy));
            }
            if let Some(before) = earlier.add(at, route, &policy).filter(|_| !is_told) {
                self.report(&path, shadowed(&before, routes));
            }
        }
    }
}

/// Returns the problem of a key with a `{path.…}` that the path of its route does not have. A malformed key is
/// another problem, reported elsewhere.
fn parameter_problem(
    path: &str,
    route: &LockRoute,
    segments: &[RouteSegment<'_>],
    policy: &Policy,
) -> Option<ConfigProblem> {
    let key = route.key.as_deref().or(policy.key())?;
    let parameters = || segments.iter().filter_map(RouteSegment::parameter);
    let unknown = key_pieces(key).ok()?.into_iter().find_map(|piece| match piece {
        KeyPiece::Path(name, _) => {
            Some(name).filter(|name| parameters().all(|known| known != *name))
        }
        _ => None,
    })?;
    let is_hidden = may_be_secret(key) || may_be_secret(&route.path);
    let named = |name: &str| {
        if is_hidden { "`{path.…}`".to_owned() } else { format!("`{{path.{name}}}`") }
    };
    let known: Vec<_> = parameters().map(named).collect();
    let (known, remedy) = if known.is_empty() {
        ("no parameters, which are written as `{id}`".to_owned(), "write one")
    } else {
        (known.join(", "), "rename the parameter")
    };
    let (name, quoted_key, quoted_path) = (named(unknown), quoted(key), quoted(&route.path));
    Some(if route.key.is_some() {
        let message = format!(
            "{quoted_key} has {name}, which is not in the path {quoted_path}; that has {known}"
        );
        ConfigProblem::new(format!("{path}.key"), message)
    } else {
        let policy = join("lock.policies", policy.name());
        let message = format!(
            "{quoted_path} does not have {name}, which is in the key {quoted_key} of {policy}; it has \
             {known}: {remedy}, or give this route a key"
        );
        ConfigProblem::new(format!("{path}.path"), message)
    })
}

/// The message for a route whose requests all match the routes at these positions.
fn shadowed(before: &BTreeSet<usize>, routes: &[LockRoute]) -> String {
    let named =
        before.iter().map(|at| format!("lock.routes[{at}], {},", quoted(&routes[*at].path)));
    let named = named.collect::<Vec<_>>().join(" and ");
    let (take, them) = if before.len() == 1 { ("takes", "it") } else { ("take", "them") };
    format!(
        "locks nothing: {named} {take} all its requests; put this one in front of {them}, or take it out"
    )
}
