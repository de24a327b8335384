//! [`HttpLockLayer`]: which plan a request follows.

pub(crate) mod builder;
mod cache;
pub(crate) mod plan;
mod routes;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::{Extensions, Method, Uri};
use lock_runtime::policy::{LockConfig, Policy, nearest};
use lock_runtime::{LockClient, LockError};

use crate::http::answer::problem::RefusalResponder;
use crate::http::error::BuildError;
use crate::http::layer::cache::Cache;
use crate::http::layer::plan::{Literals, Plan, Side};
use crate::http::layer::routes::{RouteIndex, SeenRoutes, WarnedRoutes};
use crate::http::request::key::{full_path_of, matched_path};
use crate::http::request::read_ahead::{ReadAheadPool, ReadableBody, RequestBodies};
use crate::http::request::route::Route;

/// A layer that runs each HTTP request under a lock, and answers the request if the lock is not acquired.
///
/// Built by [`LockLayer::http`](crate::LockLayer::http); see the [module documentation](crate::http). Clones
/// share the measured hold times that `Retry-After` is computed from.
#[derive(Debug, Clone)]
pub struct HttpLockLayer {
    pub(crate) shared: Arc<Shared>,
}

/// The state that all services of a layer share.
pub(crate) struct Shared {
    pub(crate) client: Option<LockClient>,
    pub(crate) literals: Literals,
    pub(crate) source: Source,
    pub(crate) responder: Arc<dyn RefusalResponder>,
    /// True if the layer adds a [`HeldLock`](crate::HeldLock) to the request's extensions.
    pub(crate) extension: bool,
    /// How many bytes of a waiting request's body are read.
    pub(crate) read_ahead: usize,
    /// How many more bytes all waiting requests may read together.
    pub(crate) pool: Arc<ReadAheadPool>,
    pub(crate) bodies: RequestBodies,
}

/// Where the plan of a request comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Code(Arc<Plan>),
    Policy { name: String, plan: Cache<Plan>, seen: SeenRoutes },
    Routes { plans: Cache<RouteIndex<Arc<Plan>>>, warned: WarnedRoutes },
}

impl HttpLockLayer {
    /// Checks whether this layer can follow a configuration with that client. Call it before
    /// [`LockClient::reload`], which does not know the layers. Without the check, the layer keeps the previous
    /// configuration if it cannot follow the new one, and logs an error with the next request.
    ///
    /// If the layer follows one policy and takes `{path.…}` from axum's router, a new path parameter must be in
    /// a route that the layer has had a request for: the layer knows no other routes.
    ///
    /// # Errors
    ///
    /// [`BuildError`], as from [`HttpLockLayerBuilder::build`](crate::HttpLockLayerBuilder::build) with a client that has this configuration.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, policy::LockConfig};
    /// use lock_tower::LockLayer;
    ///
    /// let file = |key: &str| {
    ///     LockConfig::from_toml(&format!("[lock.policies.checkout]\nkey = '{key}'"))
    /// };
    /// let client = LockClient::builder().config(file("cart:{header.x-cart}")?).in_memory()?;
    /// let layer = LockLayer::http().client(client.clone()).policy("checkout").build()?;
    ///
    /// // Only the layer knows its extensions.
    /// let error = layer.check(&client, &file("cart:{ext.tenant}")?).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "`{ext.tenant}` is an extension whose type the layer does not know; name it with \
    ///      `extension::<Type>(\"tenant\")`, it knows none"
    /// );
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, client: &LockClient, config: &LockConfig) -> Result<(), BuildError> {
        match &self.shared.source {
            Source::Code(plan) => plan.check_defaults(client, config),
            Source::Policy { name, seen, .. } => {
                let plan = self.shared.plan_of(name, client, config)?;
                let now = self.shared.policy_plan(client).ok();
                seen.check(&plan.key, now.as_ref().map(|plan| &plan.key))
            }
            Source::Routes { .. } => self.shared.plans_of_routes(client, config).map(drop),
        }
    }

    /// Checks that each path of `[[lock.routes]]` is one of `paths`, the router's patterns: axum does not list them, so
    /// keep those that need a lock as constants. Without this check a misspelt path locks nothing; the layer logs a
    /// warning with the first request for a route that is spelt nearly so.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the first path that is none of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_tower::http::HttpLockLayer;
    ///
    /// const PAY: &str = "/orders/{id}/pay";
    ///
    /// let file = |path: &str| {
    ///     let policy = "[lock.policies.pay]\nkey = 'order:{path.id:u64}'";
    ///     LockConfig::from_toml(&format!("{policy}\n[[lock.routes]]\npath = '{path}'\npolicy = 'pay'"))
    /// };
    /// assert!(HttpLockLayer::check_paths(&file("/orders/{id}/pay")?, [PAY]).is_ok());
    /// let error = HttpLockLayer::check_paths(&file("/order/{id}/pay")?, [PAY]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "lock.routes[0] (/order/{id}/pay) is no path of the router; did you mean /orders/{id}/pay?"
    /// );
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_paths<'p>(
        config: &LockConfig,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<(), BuildError> {
        let paths: Vec<_> = paths.into_iter().collect();
        for (at, entry) in config.routes().iter().enumerate() {
            let route = Route::parse(&entry.path)?;
            if !paths.iter().any(|path| route.covers(path)) {
                let near = nearest(&entry.path, paths.iter().copied());
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                return Err(BuildError::new(format!(
                    "lock.routes[{at}] ({route}) is no path of the router{near}"
                )));
            }
        }
        Ok(())
    }
}

/// Why there is no plan for a request.
#[derive(Debug)]
pub(crate) enum NoPlan {
    /// The request runs without a lock.
    Pass,
    Failed(LockError),
}

impl From<LockError> for NoPlan {
    fn from(error: LockError) -> Self {
        Self::Failed(error)
    }
}

impl From<BuildError> for NoPlan {
    fn from(error: BuildError) -> Self {
        Self::Failed(LockError::InvalidOptions(error.to_string()))
    }
}

impl Shared {
    /// Returns the layer's client, or the current one.
    pub(crate) fn client(&self) -> Result<Cow<'_, LockClient>, LockError> {
        let own = self.client.as_ref().map(Cow::Borrowed);
        let client = own.or_else(|| LockClient::current().map(Cow::Owned));
        client.ok_or_else(|| LockError::no_client("a `LockLayer::http()` without `client(…)`"))
    }

    /// Returns how the body is read while its request waits; `None` if there is nothing to read.
    pub(crate) fn read_ahead_of<B: 'static>(&self, body: &B) -> Option<&ReadableBody<B>> {
        let bodies = self.bodies.of::<B>().filter(|_| self.read_ahead > 0)?;
        (!bodies.is_complete(body)).then_some(bodies)
    }

    /// Returns the plan of a request, and the side that the request takes.
    pub(crate) fn plan(
        &self,
        method: &Method,
        uri: &Uri,
        extensions: &Extensions,
    ) -> Result<(Arc<Plan>, Side), NoPlan> {
        let sided = |plan: Arc<Plan>| {
            let side = plan.side(method).ok_or(NoPlan::Pass)?;
            Ok((plan, side))
        };
        if let Source::Code(plan) = &self.source {
            return sided(Arc::clone(plan));
        }
        let client = match self.client() {
            Ok(client) => client,
            // A request that needs no lock must not fail because there is no client.
            Err(_) if !self.literals.may_lock(method) => return Err(NoPlan::Pass),
            Err(error) => return Err(error.into()),
        };
        match &self.source {
            Source::Code(plan) => sided(Arc::clone(plan)),
            Source::Policy { name, seen, .. } => match self.policy_plan(&client) {
                Err(NoPlan::Failed(error)) => match not_enforced_now(&client, name) {
                    Some(policy) => {
                        policy.log_not_enforced(self.literals.site, &error);
                        Err(NoPlan::Pass)
                    }
                    None => Err(NoPlan::Failed(error)),
                },
                plan => {
                    seen.note(matched_path(extensions));
                    sided(plan?)
                }
            },
            Source::Routes { warned, .. } => {
                let plans = self.route_plans(&client)?;
                let path = full_path_of(extensions).unwrap_or(uri.path());
                choose(&plans, warned, method, path, matched_path(extensions), |pattern| {
                    if self.literals.may_lock(method)
                        && let Some(config) = client.config()
                    {
                        let routes = config.routes().iter().map(|route| route.path.as_str());
                        warned.warn_of_near(pattern, routes);
                    }
                })
            }
        }
    }

    /// Checks what can be checked before the first request.
    pub(crate) fn check(&self, client: &LockClient) -> Result<(), BuildError> {
        let outcome = match &self.source {
            Source::Code(plan) => {
                plan.spec(client.clone(), Side::Main).map(drop).map_err(NoPlan::from)
            }
            Source::Policy { .. } => self.policy_plan(client).map(drop),
            Source::Routes { .. } => self.route_plans(client).map(drop),
        };
        match outcome {
            Ok(()) | Err(NoPlan::Pass) => Ok(()),
            Err(NoPlan::Failed(LockError::InvalidOptions(problem))) => {
                Err(BuildError::new(problem))
            }
            Err(NoPlan::Failed(error)) => Err(BuildError::from_display(error)),
        }
    }

    fn policy_plan(&self, client: &LockClient) -> Result<Arc<Plan>, NoPlan> {
        let Source::Policy { name, plan, .. } = &self.source else { return Err(NoPlan::Pass) };
        let Some(config) = client.config() else {
            return Err(client.policy(name).err().map_or(NoPlan::Pass, NoPlan::Failed));
        };
        Ok(plan.get(client, &config, || self.plan_of(name, client, &config))?)
    }

    fn plan_of(
        &self,
        policy: &str,
        client: &LockClient,
        config: &LockConfig,
    ) -> Result<Plan, BuildError> {
        let policy = config.policy(policy).map_err(BuildError::from_display)?;
        Plan::new(&self.literals, Some(policy), None)?.checked(client)
    }

    /// Returns the plans of all routes.
    fn route_plans(&self, client: &LockClient) -> Result<Arc<RouteIndex<Arc<Plan>>>, NoPlan> {
        let Source::Routes { plans, .. } = &self.source else { return Err(NoPlan::Pass) };
        let config = client.config().ok_or_else(|| {
            NoPlan::from(BuildError::new(
                "the client has no configuration and so no routes; set one with \
                 `LockClient::from_config` or `LockClientBuilder::config`",
            ))
        })?;
        Ok(plans.get(client, &config, || self.plans_of_routes(client, &config))?)
    }

    fn plans_of_routes(
        &self,
        client: &LockClient,
        config: &LockConfig,
    ) -> Result<RouteIndex<Arc<Plan>>, BuildError> {
        if config.routes().is_empty() {
            tracing::warn!(
                "the layer follows `[[lock.routes]]`, and the configuration has none: it locks no request"
            );
        }
        let mut index = RouteIndex::new();
        for (at, entry) in config.routes().iter().enumerate() {
            let policy = config.policy(&entry.policy);
            let policy = policy.map_err(BuildError::from_display);
            let plan = policy
                .and_then(|policy| Plan::new(&self.literals, Some(policy), Some(entry)))
                .and_then(|plan| plan.checked(client))
                .map_err(|error| {
                    BuildError::new(format!("lock.routes[{at}] ({}): {error}", entry.path))
                })?;
            let plan = Arc::new(plan);
            if let Some(route) = &plan.route {
                index.insert(route, Arc::clone(&plan));
            }
        }
        Ok(index)
    }
}

/// Returns the policy if it is not enforced for this request, which then runs whatever is wrong with the lock.
fn not_enforced_now(client: &LockClient, policy: &str) -> Option<Policy> {
    client.policy(policy).ok().filter(|policy| !policy.is_enforced_now())
}

/// Returns the plan of the most specific route that locks the method and covers the router's pattern, and the side that
/// the method takes. Calls `unknown` with the router's pattern if no configured route matches the path.
fn choose(
    plans: &RouteIndex<Arc<Plan>>,
    warned: &WarnedRoutes,
    method: &Method,
    path: &str,
    matched: Option<&str>,
    unknown: impl FnOnce(&str),
) -> Result<(Arc<Plan>, Side), NoPlan> {
    let (mut taken, mut others, mut is_known) = (None, None, false);
    let found = plans.find(path, |plan| {
        is_known = true;
        taken = plan.side(method);
        let route = plan.route.as_ref().filter(|_| taken.is_some());
        let Some(route) = route else { return false };
        let other = matched.filter(|pattern| !route.covers(pattern));
        others = others.or(other.map(|pattern| (route, pattern)));
        other.is_none()
    });
    if let (None, Some((route, pattern))) = (found, others) {
        warned.warn(route, pattern);
    }
    if let Some(pattern) = matched.filter(|_| !is_known) {
        unknown(pattern);
    }
    found.map(Arc::clone).zip(taken).ok_or(NoPlan::Pass)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("client", &self.client)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
