//! [`HttpLockLayer`]: which plan a request follows.

pub(crate) mod builder;
mod cache;
pub(crate) mod plan;
mod routes;
mod told;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Method, Response, Uri};
use lock_runtime::__layer_v1::{EffectivePolicy, Follower, LayerConfig};
use lock_runtime::policy::LockConfig;
use lock_runtime::{LockClient, LockError};

use crate::http::answer::responder::RefusalResponder;
use crate::http::answer::response::LockResponse;
use crate::http::config::checks;
use crate::http::config::settings::LockRoute;
use crate::http::layer::cache::Cache;
use crate::http::layer::plan::{Literals, Plan, Side, in_words, invalid};
use crate::http::layer::routes::RouteTable;
use crate::http::layer::told::Told;
use crate::http::request::place::{full_path_of, matched_path};
use crate::http::request::pool::ReadAheadPool;
use crate::http::request::read_ahead::{ReadableBody, RequestBodies};

/// A layer that runs each HTTP request under a lock, and answers the request if the lock is not acquired.
///
/// Built by [`LockLayer::http`](crate::LockLayer::http); see the [module documentation](crate::http).
#[derive(Debug, Clone)]
pub struct HttpLockLayer {
    pub(crate) shared: Arc<Shared>,
}

/// The state that all services of a layer share.
pub(crate) struct Shared {
    /// For clients, which check a new configuration with the layers that follow it.
    pub(crate) this: Weak<Shared>,
    pub(crate) client: Option<LockClient>,
    pub(crate) literals: Literals,
    pub(crate) source: Source,
    /// `None`: the layer answers by itself.
    pub(crate) responder: Option<Arc<dyn RefusalResponder>>,
    pub(crate) told: Told,
    /// How many bytes of a waiting request's body are read.
    pub(crate) read_ahead: usize,
    /// How many bytes all waiting requests may read together.
    pub(crate) pool: Arc<ReadAheadPool>,
    pub(crate) bodies: RequestBodies,
}

/// Where the plan of a request comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Code(Arc<Plan>),
    Policy { name: String, plan: Cache<Plan> },
    Routes { plans: Cache<RouteTable> },
}

impl HttpLockLayer {
    /// Checks that each path of `[[lock.routes]]` is one of `paths`, the router's patterns: axum does not list them, so
    /// keep those that need a lock as constants. Without this check a misspelt path locks nothing; the layer logs a
    /// warning with the first request for a route that is spelt nearly so.
    ///
    /// # Errors
    ///
    /// [`LockError`] with the first path that is none of them.
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
    ) -> Result<(), LockError> {
        let routes: Vec<LockRoute> = config.routes().map_err(invalid)?;
        let configured: Vec<_> = routes.iter().map(|entry| &*entry.path).collect();
        routes::check_paths(&configured, &paths.into_iter().collect::<Vec<_>>())
    }
}

/// Before a reload, the client asks its layers.
impl Follower for Shared {
    fn check(&self, client: &LockClient, config: &LayerConfig) -> Result<(), String> {
        let outcome = match &self.source {
            Source::Code(plan) => plan.check_defaults(config),
            Source::Policy { name, .. } => self.plan_of(name, client, config).map(drop),
            Source::Routes { .. } => self.table_of(client, config).map(drop),
        };
        outcome.map_err(in_words)
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

impl Shared {
    /// Returns the layer's client, or the current one.
    pub(crate) fn client(&self) -> Result<Cow<'_, LockClient>, LockError> {
        let own = self.client.as_ref().map(Cow::Borrowed);
        let client = own.or_else(|| LockClient::current().map(Cow::Owned));
        client.ok_or_else(|| LockError::no_client("a `LockLayer::http()` without `client(…)`"))
    }

    /// Returns the answer to a request that is refused. `head` is the request's, unless there is no responder.
    pub(crate) fn answer(&self, refusal: LockResponse, head: Option<&Parts>) -> Response<Bytes> {
        match (&self.responder, head) {
            (Some(responder), Some(head)) => responder.respond(refusal, head),
            _ => refusal.into_http(),
        }
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
            Source::Policy { name, .. } => match self.policy_plan(&client) {
                Err(NoPlan::Failed(error)) => match not_enforced_now(&client, name) {
                    Some(policy) => {
                        policy.log_not_enforced(self.literals.site, &error);
                        Err(NoPlan::Pass)
                    }
                    None => Err(NoPlan::Failed(error)),
                },
                plan => sided(plan?),
            },
            Source::Routes { .. } => {
                let table = self.route_table(&client)?;
                let path = full_path_of(extensions).unwrap_or(uri.path());
                let matched = matched_path(extensions);
                match table.find(method, path, matched) {
                    Some(plan) => sided(Arc::clone(plan)),
                    None => {
                        self.warn_of_near(&client, method, matched);
                        Err(NoPlan::Pass)
                    }
                }
            }
        }
    }

    /// Warns of a route of the router whose requests run without a lock, if a configured route is spelt nearly so.
    fn warn_of_near(&self, client: &LockClient, method: &Method, matched: Option<&str>) {
        if self.literals.may_lock(method)
            && let (Some(pattern), Some(config)) = (matched, client.config())
        {
            let routes: Vec<LockRoute> = config.routes().unwrap_or_default();
            self.told.warn_of_near(pattern, routes.iter().map(|route| route.path.as_str()));
        }
    }

    /// Checks what can be checked before the first request.
    pub(crate) fn check(&self, client: &LockClient) -> Result<(), LockError> {
        let outcome = match &self.source {
            Source::Code(plan) => return plan.spec(client.clone(), Side::Main).map(drop),
            Source::Policy { .. } => self.policy_plan(client).map(drop),
            Source::Routes { .. } => return self.route_table(client).map(drop),
        };
        match outcome {
            Ok(()) | Err(NoPlan::Pass) => Ok(()),
            Err(NoPlan::Failed(error)) => Err(error),
        }
    }

    fn policy_plan(&self, client: &LockClient) -> Result<Arc<Plan>, NoPlan> {
        let Source::Policy { name, plan, .. } = &self.source else { return Err(NoPlan::Pass) };
        let Some(config) = client.layer_config() else {
            return Err(client.policy(name).err().map_or(NoPlan::Pass, NoPlan::Failed));
        };
        let make = || {
            client.follow(self.this.clone());
            self.plan_of(name, client, &config)
        };
        Ok(plan.get(client, &config, make)?)
    }

    fn plan_of(
        &self,
        policy: &str,
        client: &LockClient,
        config: &LayerConfig,
    ) -> Result<Plan, LockError> {
        let policy = config.policy(policy).map_err(invalid)?;
        Plan::new(&self.literals, Some(policy), None)?.checked(client)
    }

    fn route_table(&self, client: &LockClient) -> Result<Arc<RouteTable>, LockError> {
        let Source::Routes { plans } = &self.source else {
            return Err(invalid("the layer follows no routes"));
        };
        let config = client.layer_config().ok_or_else(|| {
            invalid(
                "the client has no configuration and so no routes; set one with \
                 `LockClient::from_config` or `LockClientBuilder::config`",
            )
        })?;
        let make = || {
            client.follow(self.this.clone());
            self.table_of(client, &config)
        };
        plans.get(client, &config, make)
    }

    fn table_of(&self, client: &LockClient, config: &LayerConfig) -> Result<RouteTable, LockError> {
        checks::check(config.config()).map_err(invalid)?;
        let routes: Vec<LockRoute> = config.config().routes().map_err(invalid)?;
        if routes.is_empty() {
            tracing::warn!(
                "the layer follows `[[lock.routes]]`, and the configuration has none: it locks no request"
            );
        }
        let plan = |(at, entry): (usize, &LockRoute)| {
            let policy = config.policy(&entry.policy).map_err(invalid);
            policy
                .and_then(|policy| Plan::new(&self.literals, Some(policy), Some(entry)))
                .and_then(|plan| plan.checked(client))
                .map(Arc::new)
                .map_err(|error| {
                    invalid(format!("lock.routes[{at}] ({}): {}", entry.path, in_words(error)))
                })
        };
        let plans: Vec<_> = routes.iter().enumerate().map(plan).collect::<Result<_, _>>()?;
        RouteTable::new(&plans)
    }
}

/// Returns the policy if it is not enforced for this request, which then runs whatever is wrong with the lock.
fn not_enforced_now(client: &LockClient, policy: &str) -> Option<EffectivePolicy> {
    client.effective_policy(policy).ok().filter(|policy| !policy.is_enforced())
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("client", &self.client)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
