//! [`RouteTable`]: the routes of a configuration.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::Method;
use lock_runtime::__layer_v1::nearest;
use lock_runtime::LockError;

use crate::http::layer::plan::Plan;
use crate::http::request::route::{Route, normalized};

/// The plans of routes, for each method: a route that locks other methods hides no route of this one.
///
/// A path is looked up as axum's router does it, with the crate `matchit`. A path that it does not know is looked up by
/// the text of the route that axum's router has matched: an outer service may have rewritten the path.
#[derive(Debug)]
pub(crate) struct RouteTable {
    by_method: HashMap<Method, MethodRoutes>,
    /// For methods that no plan names.
    others: MethodRoutes,
}

#[derive(Debug, Default)]
struct MethodRoutes {
    by_path: matchit::Router<Arc<Plan>>,
    by_text: HashMap<String, Arc<Plan>>,
}

impl RouteTable {
    pub(crate) fn new(plans: &[Arc<Plan>]) -> Result<Self, LockError> {
        let named = plans.iter().flat_map(|plan| plan.named_methods());
        // Each once, however many routes name it.
        let methods: HashSet<_> = named.chain([Method::GET, Method::HEAD]).collect();
        let by_method = methods.into_iter().map(|method| {
            let routes = MethodRoutes::new(plans, |plan| plan.side(&method).is_some())?;
            Ok((method, routes))
        });
        Ok(Self {
            by_method: by_method.collect::<Result<_, LockError>>()?,
            others: MethodRoutes::new(plans, Plan::locks_unnamed_methods)?,
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
    fn new(plans: &[Arc<Plan>], locks: impl Fn(&Plan) -> bool) -> Result<Self, LockError> {
        let (mut routes, mut shapes) = (Self::default(), HashSet::new());
        for plan in plans.iter().filter(|plan| locks(plan)) {
            let Some(route) = &plan.route else { continue };
            // The first route of a shape counts.
            if shapes.insert(route.shape()) {
                routes.by_path.insert(route.shape(), Arc::clone(plan)).map_err(|error| {
                    LockError::InvalidOptions(format!("the route `{}`: {error}", route.text()))
                })?;
            }
            routes.by_text.entry(route.text().to_owned()).or_insert_with(|| Arc::clone(plan));
        }
        Ok(routes)
    }
}

/// Checks that each configured path is one of `paths`, the router's patterns.
pub(crate) fn check_paths(configured: &[&str], paths: &[&str]) -> Result<(), LockError> {
    let routes: Vec<_> = paths.iter().filter_map(|path| Route::parse(path).ok()).collect();
    for (at, text) in configured.iter().enumerate() {
        let route = Route::parse(text).map_err(|problem| {
            LockError::InvalidOptions(format!("the route `{text}` {problem}"))
        })?;
        // A pattern is a path of each pattern that is as general.
        let is_one = paths.iter().any(|path| route.matches(path))
            || routes.iter().any(|other| other.matches(text));
        if !is_one {
            let near = nearest(text, paths.iter().copied());
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(LockError::InvalidOptions(format!(
                "lock.routes[{at}] ({text}) is no path of the router{near}"
            )));
        }
    }
    Ok(())
}
