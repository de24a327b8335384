//! [`SeenRoutes`]: which of a router's routes a layer has had requests of.

use std::collections::HashSet;

use parking_lot::RwLock;

use crate::http::layer::builder::BuildError;
use crate::http::request::key::KeySource;

/// Bounds what a layer remembers, should a program's patterns be without end.
const MOST_ROUTES: usize = 1024;

/// The patterns of a router, as far as the layer has seen them: a router does not list its routes.
#[derive(Debug, Default)]
pub(crate) struct SeenRoutes(RwLock<HashSet<Box<str>>>);

impl SeenRoutes {
    /// Notes the route of a request, if a router has matched one.
    pub(crate) fn note(&self, pattern: Option<&str>) {
        let Some(pattern) = pattern else { return };
        let seen = self.0.read();
        if seen.contains(pattern) || seen.len() >= MOST_ROUTES {
            return;
        }
        drop(seen);
        self.0.write().insert(pattern.into());
    }

    /// Refuses a key with a path parameter that no known route has: one that is neither in the key in use nor
    /// in a route that was seen. Before there was a request, nothing is refused: all instances of a service
    /// are to take the same configuration.
    pub(crate) fn check(&self, key: &KeySource, now: Option<&KeySource>) -> Result<(), BuildError> {
        let seen = self.0.read();
        let used: Vec<_> = now.into_iter().flat_map(KeySource::router_parameters).collect();
        if seen.is_empty() || seen.len() >= MOST_ROUTES {
            return Ok(());
        }
        let is_known = |name: &str| {
            let [one, rest] = [format!("{{{name}}}"), format!("{{*{name}}}")];
            used.contains(&name) || seen.iter().any(|it| it.contains(&one) || it.contains(&rest))
        };
        match key.router_parameters().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(BuildError::new(format!(
                "`{{path.{name}}}` is in no route that the layer has had a request of, and such requests \
                 would fail; write a parameter of the router's routes"
            ))),
        }
    }
}
