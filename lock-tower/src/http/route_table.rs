//! [`RouteTable`]: the routes of a configuration.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::Method;
use lock_runtime::__layer_v1::nearest;
use lock_runtime::LockError;

use crate::http::error::invalid;
use crate::http::methods::UNNAMED;
use crate::http::plan::Plan;
use crate::http::route::{Route, normalized};
use crate::http::settings::LockRoute;

/// The plans of routes, for each method: a route that locks other methods hides no route of this one.
///
/// A path is looked up as axum's router does it, with the crate `matchit`. A path that it does not know is looked up by
/// the text of the route that axum's router has matched: an outer service may have rewritten the path.
pub(crate) struct RouteTable {
    by_method: HashMap<Method, MethodRoutes>,
    /// For methods that no plan names.
    others: MethodRoutes,
}

#[derive(Default)]
struct MethodRoutes {
    by_path: matchit::Router<Arc<Plan>>,
    by_text: HashMap<String, Arc<Plan>>,
}

impl RouteTable {
    pub(crate) fn new(plans: &[Arc<Plan>]) -> Result<Self, LockError> {
        let named = plans.iter().filter_map(|plan| plan.http.methods.as_ref());
        let named = named.flat_map(|methods| &methods.names).filter_map(|name| name.parse().ok());
        // Each once, however many routes name it.
        let standard = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::CONNECT];
        let methods: HashSet<_> = named.chain(standard).collect();
        let by_method = methods.into_iter().map(|method| {
            let routes = MethodRoutes::new(plans, method.as_str())?;
            Ok((method, routes))
        });
        Ok(Self {
            by_method: by_method.collect::<Result<_, LockError>>()?,
            others: MethodRoutes::new(plans, UNNAMED)?,
        })
    }

    /// Returns the plan of the most specific route that locks the method. `matched` is the pattern that axum's router
    /// has matched.
    pub(crate) fn find(
        &self,
        method: &Method,
        path: &str,
        matched: Option<&str>,
    ) -> Option<&Arc<Plan>> {
        let routes = self.by_method.get(method).unwrap_or(&self.others);
        match routes.by_path.at(&normalized(path)) {
            Ok(found) => Some(found.value),
            Err(_) => routes.by_text.get(matched?),
        }
    }
}

impl MethodRoutes {
    fn new(plans: &[Arc<Plan>], method: &str) -> Result<Self, LockError> {
        let (mut routes, mut shapes) = (Self::default(), HashSet::new());
        for plan in plans.iter().filter(|plan| plan.http.side(method).is_some()) {
            let Some(route) = &plan.route else { continue };
            // The first route of a shape counts.
            if shapes.insert(&route.shape) {
                routes
                    .by_path
                    .insert(route.shape.clone(), Arc::clone(plan))
                    .map_err(|error| invalid(format!("the route `{}`: {error}", route.text)))?;
            }
            routes.by_text.entry(route.text.clone()).or_insert_with(|| Arc::clone(plan));
        }
        Ok(routes)
    }
}

/// Checks that each configured path is one of `paths`, the router's patterns.
pub(crate) fn check_paths(routes: &[LockRoute], paths: &[&str]) -> Result<(), LockError> {
    let router: Vec<_> = paths.iter().filter_map(|path| Route::parse(path).ok()).collect();
    for (at, LockRoute { path: text, .. }) in routes.iter().enumerate() {
        let route = Route::of(text, true)?;
        // A pattern is a path of each pattern that is as general.
        let is_one = paths.iter().any(|path| route.matches(path))
            || router.iter().any(|other| other.matches(text));
        if !is_one {
            let near = nearest(text, paths.iter().copied());
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let problem = format!("lock.routes[{at}] ({text}) is no path of the router{near}");
            return Err(invalid(problem));
        }
    }
    Ok(())
}
