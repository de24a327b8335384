//! [`HttpLockLayer`].

pub(crate) mod builder;
mod cache;
pub(crate) mod plan;
mod routes;
mod seen_routes;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Method, Response, Uri};
use http_body::Body;
use lock_runtime::policy::{LockConfig, Policy};
use lock_runtime::{LockClient, LockError};
use tower_layer::Layer;

use crate::http::answer::problem::RefusalResponder;
use crate::http::answer::refusal::Refusal;
use crate::http::call::body::LockBody;
use crate::http::call::service::HttpLockService;
use crate::http::layer::builder::{BuildError, HttpLockLayerBuilder};
use crate::http::layer::cache::Cache;
use crate::http::layer::plan::{Literals, Plan, Side};
use crate::http::layer::routes::RouteIndex;
use crate::http::layer::seen_routes::SeenRoutes;
use crate::http::request::coverage::{WarnedRoutes, is_covered};
use crate::http::request::key::{full_path_of, matched_path};
use crate::http::request::read_ahead::{ReadAheadPool, ReadsAhead, RequestBodies};
use crate::layer::LockLayer;

impl LockLayer {
    /// Starts a layer for HTTP services. See the [module documentation](crate::http).
    #[track_caller]
    pub fn http() -> HttpLockLayerBuilder {
        HttpLockLayerBuilder::new()
    }

    /// A layer for a whole router, by the `[[lock.routes]]` of the client's configuration: see
    /// [`HttpLockLayerBuilder::routes`].
    ///
    /// # Errors
    ///
    /// As [`HttpLockLayerBuilder::build`].
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use lock_runtime::{LockClient, policy::LockConfig};
    /// use lock_tower::LockLayer;
    ///
    /// let config = LockConfig::from_toml(
    ///     r#"
    ///     [lock.policies.checkout]
    ///     key = "order:{path.id}"
    ///     wait = "2s"
    ///
    ///     [[lock.routes]]
    ///     methods = ["POST"]
    ///     path = "/orders/{id}/pay"
    ///     policy = "checkout"
    ///     "#,
    /// )?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// let app: Router = Router::new()
    ///     .route("/orders/{order}/pay", post(async || "paid"))
    ///     .route("/health", post(async || "well"))
    ///     .layer(LockLayer::routes(&client)?);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn routes(client: &LockClient) -> Result<HttpLockLayer, BuildError> {
        Self::http().client(client.clone()).routes().build()
    }
}

/// Runs each HTTP request under the lock that it names, and answers where that cannot be had.
///
/// Made by [`LockLayer::http`]; see the [module documentation](crate::http). Clones share what they
/// know about how long locks are held.
#[derive(Debug, Clone)]
pub struct HttpLockLayer {
    shared: Arc<Shared>,
}

/// What all services of a layer share.
pub(crate) struct Shared {
    pub(crate) client: Option<LockClient>,
    pub(crate) literals: Literals,
    pub(crate) source: Source,
    pub(crate) responder: Arc<dyn RefusalResponder>,
    /// Whether handlers find a [`HeldLock`](crate::HeldLock) in the request's extensions.
    pub(crate) extension: bool,
    /// How much of a waiting request's body is read, in bytes.
    pub(crate) read_ahead: usize,
    /// What such requests read together beyond that.
    pub(crate) pool: Arc<ReadAheadPool>,
    pub(crate) bodies: RequestBodies,
}

/// Where the plan for a request comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Code(Arc<Plan>),
    Policy { name: String, plan: Cache<Plan>, seen: SeenRoutes },
    Routes { plans: Cache<RouteIndex<Arc<Plan>>>, warned: WarnedRoutes },
}

impl HttpLockLayer {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Refuses a configuration that this layer could not follow with that client: to be asked before
    /// [`LockClient::reload`], which knows of no layers. Not asked, a layer keeps to what it followed
    /// before, and says so in the log with the next request.
    ///
    /// Of a layer that follows one policy and asks axum's router for `{path.…}`, a new parameter must be one
    /// of a route that the layer has had a request of: it knows no others.
    ///
    /// # Errors
    ///
    /// [`BuildError`], as from [`HttpLockLayerBuilder::build`] with a client that has this configuration.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, policy::LockConfig};
    /// use lock_tower::LockLayer;
    ///
    /// let route = "[[lock.routes]]\npath = '/orders/{id}/pay'\npolicy = 'checkout'\n";
    /// let file = |policy: &str| LockConfig::from_toml(&format!("{policy}\n{route}"));
    /// let good = file("[lock.policies.checkout]\nkey = 'order:{path.id}'")?;
    /// let client = LockClient::builder().config(good).in_memory()?;
    /// let layer = LockLayer::routes(&client)?;
    ///
    /// let typo = file("[lock.policies.checkout]\nkey = 'order:{path.nr}'")?;
    /// let error = layer.check(&client, &typo).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "lock.routes[0] (/orders/{id}/pay): `{path.nr}` is not in the route `/orders/{id}/pay`, \
    ///      which has `{path.id}`"
    /// );
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, client: &LockClient, config: &LockConfig) -> Result<(), BuildError> {
        match &self.shared.source {
            Source::Code(_) => Ok(()),
            Source::Policy { name, seen, .. } => {
                let plan = self.shared.plan_of(name, client, config)?;
                let now = self.shared.policy_plan(client).ok();
                seen.check(&plan.key, now.as_ref().map(|plan| &plan.key))
            }
            Source::Routes { .. } => self.shared.plans_of_routes(client, config).map(drop),
        }
    }
}

impl<S> Layer<S> for HttpLockLayer {
    type Service = HttpLockService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HttpLockService::new(inner, Arc::clone(&self.shared))
    }
}

/// Why there is no plan for a request.
#[derive(Debug)]
pub(crate) enum NoPlan {
    /// It is none of the layer's business.
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
    /// The client for a request, which may depend on what is around it.
    pub(crate) fn client(&self) -> Result<LockClient, LockError> {
        let client = self.client.clone().or_else(LockClient::current);
        client.ok_or_else(|| LockError::no_client("a `LockLayer::http()` without `client(…)`"))
    }

    /// How that body is read while its request waits; `None` if there is nothing to read.
    pub(crate) fn read_ahead_of<B: 'static>(&self, body: &B) -> Option<&dyn ReadsAhead<B>> {
        let bodies = self.bodies.of::<B>().filter(|_| self.read_ahead > 0)?;
        (!bodies.is_complete(body)).then_some(bodies)
    }

    /// The plan for a request.
    pub(crate) fn plan(
        &self,
        method: &Method,
        uri: &Uri,
        extensions: &Extensions,
    ) -> Result<Arc<Plan>, NoPlan> {
        if let Source::Code(plan) = &self.source {
            return Ok(Arc::clone(plan));
        }
        let client = match self.client() {
            Ok(client) => client,
            // What never locks by itself is not to fail for want of a client.
            Err(_) if !self.literals.may_lock(method) => return Err(NoPlan::Pass),
            Err(error) => return Err(error.into()),
        };
        match &self.source {
            Source::Code(plan) => Ok(Arc::clone(plan)),
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
                    plan
                }
            },
            Source::Routes { warned, .. } => {
                let plans = self.route_plans(&client)?;
                let path = full_path_of(extensions).unwrap_or(uri.path());
                choose(&plans, warned, method, path, matched_path(extensions))
            }
        }
    }

    /// Finds out what can be found out before there is a request.
    pub(crate) fn check(&self, client: &LockClient) -> Result<(), BuildError> {
        let outcome = match &self.source {
            Source::Code(plan) => {
                plan.terms(client.clone(), Side::Main).map(drop).map_err(NoPlan::from)
            }
            Source::Policy { .. } => self.policy_plan(client).map(drop),
            Source::Routes { .. } => self.route_plans(client).map(drop),
        };
        match outcome {
            Ok(()) | Err(NoPlan::Pass) => Ok(()),
            Err(NoPlan::Failed(LockError::InvalidOptions(problem))) => {
                Err(BuildError::new(problem))
            }
            Err(NoPlan::Failed(error)) => Err(BuildError::new(error.to_string())),
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
        let policy = config.policy(policy).map_err(|error| BuildError::new(error.to_string()))?;
        Plan::new(&self.literals, Some(policy), None)?.checked(client)
    }

    /// The plans of all routes.
    fn route_plans(&self, client: &LockClient) -> Result<Arc<RouteIndex<Arc<Plan>>>, NoPlan> {
        let Source::Routes { plans, .. } = &self.source else { return Err(NoPlan::Pass) };
        let config = client.config().ok_or_else(|| {
            NoPlan::from(BuildError::new(
                "the client has no configuration, and so no routes; give it one with \
                 `LockClientBuilder::config`",
            ))
        })?;
        Ok(plans.get(client, &config, || self.plans_of_routes(client, &config))?)
    }

    fn plans_of_routes(
        &self,
        client: &LockClient,
        config: &LockConfig,
    ) -> Result<RouteIndex<Arc<Plan>>, BuildError> {
        let mut index = RouteIndex::new();
        for (at, entry) in config.routes().iter().enumerate() {
            let policy = config.policy(&entry.policy);
            let policy = policy.map_err(|error| BuildError::new(error.to_string()));
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

    /// The answer to a refused request.
    pub(crate) fn answer<B: Body>(&self, refusal: &Refusal) -> Response<LockBody<B>> {
        self.responder.respond(refusal).map(|bytes: Bytes| LockBody::answer(bytes))
    }
}

/// The policy, if it lets this request through, whatever is wrong with its lock.
fn not_enforced_now(client: &LockClient, policy: &str) -> Option<Policy> {
    client.policy(policy).ok().filter(|policy| !policy.is_enforced_now())
}

/// The plan of the closest route that locks that method and is about the router's, which is `matched`.
fn choose(
    plans: &RouteIndex<Arc<Plan>>,
    warned: &WarnedRoutes,
    method: &Method,
    path: &str,
    matched: Option<&str>,
) -> Result<Arc<Plan>, NoPlan> {
    let mut others = None;
    let found = plans.find(path, |plan| {
        let route = plan.route.as_ref().filter(|_| plan.side(method).is_some());
        let Some(route) = route else { return false };
        let other = matched.filter(|pattern| !is_covered(route, pattern));
        others = others.or(other.map(|pattern| (route, pattern)));
        other.is_none()
    });
    if let (None, Some((route, pattern))) = (found, others) {
        warned.tell(route, pattern);
    }
    found.map(Arc::clone).ok_or(NoPlan::Pass)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("client", &self.client)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
