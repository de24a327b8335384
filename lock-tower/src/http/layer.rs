//! [`HttpLockLayer`]: which plan a request follows.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Method, Response, Uri};
use lock_runtime::__layer_v1::{self as runtime, Follower, LayerConfig, nearest};
use lock_runtime::policy::LockConfig;
use lock_runtime::{LockClient, LockError};
use tokio::sync::Semaphore;

use crate::http::checks;
use crate::http::error::{in_words, invalid};
use crate::http::http_settings::{Follows, HttpSettings};
use crate::http::plan::Plan;
use crate::http::plan_cache::{PlanCache, Plans};
use crate::http::response::LockResponse;
use crate::http::route_table::{self, RouteTable};
use crate::http::router::{full_path_of, matched_path};
use crate::http::settings::{HttpPolicy, LockRoute, Side};
use crate::http::told::Told;

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
    pub(crate) settings: HttpSettings,
    pub(crate) plans: PlanCache,
    pub(crate) told: Told,
    /// How many bytes of bodies all waiting requests may keep together.
    pub(crate) pool: Arc<Semaphore>,
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
    ///     "invalid lock options: lock.routes[0] (/order/{id}/pay) is no path of the router; did you mean \
    ///      /orders/{id}/pay?"
    /// );
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_paths<'p>(
        config: &LockConfig,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<(), LockError> {
        checks::check(config).map_err(invalid)?;
        let routes: Vec<LockRoute> = runtime::routes(config).map_err(invalid)?;
        route_table::check_paths(&routes, &paths.into_iter().collect::<Vec<_>>())
    }
}

/// Before a reload, the client asks its layers.
impl Follower for Shared {
    fn check(&self, client: &LockClient, config: &LayerConfig) -> Result<(), String> {
        self.make_plans(client, Some(config)).map(drop).map_err(in_words)
    }
}

/// The plan of a request, the side that the request takes, and the client, without which a request that has a key fails.
pub(crate) type Planned = (Arc<Plan>, Side, Result<LockClient, LockError>);

impl Shared {
    /// Returns the layer's client, or the current one.
    fn client(&self) -> Result<LockClient, LockError> {
        let client = self.settings.client.clone().or_else(LockClient::current);
        client.ok_or_else(|| runtime::no_client("a `LockLayer::http()` without `client(…)`"))
    }

    /// Returns the answer to a request that is refused. `head` is the request's, unless there is no responder.
    pub(crate) fn answer(&self, refusal: LockResponse, head: Option<&Parts>) -> Response<Bytes> {
        match (&self.settings.responder, head) {
            (Some(responder), Some(head)) => responder.respond(refusal, head),
            _ => refusal.into_http(),
        }
    }

    /// Returns the plan of a request; `None` if the request runs without a lock.
    pub(crate) fn plan(
        &self,
        method: &Method,
        uri: &Uri,
        extensions: &Extensions,
    ) -> Result<Option<Planned>, LockError> {
        let client = self.client();
        let plans = match (&client, &self.settings.follows) {
            (Ok(client), _) => self.plans_for(client),
            (Err(_), Follows::Nothing) => self.plan_of_code().map(Arc::new),
            // A request that needs no lock must not fail because there is no client.
            (Err(_), _) if !self.may_lock(method) => return Ok(None),
            (Err(error), _) => Err(error.clone()),
        };
        let plans = match (plans, &client, &self.settings.follows) {
            (Err(error), Ok(client), Follows::Policy(name)) => {
                // A policy that is not enforced stops no request, whatever is wrong with the lock.
                let policy = runtime::effective_policy(client, name);
                let policy = policy.ok().filter(|policy| !policy.is_enforced());
                let Some(policy) = policy else { return Err(error) };
                policy.log_not_enforced(self.settings.site, &error);
                return Ok(None);
            }
            (plans, ..) => plans?,
        };
        let plan = match &*plans {
            Plans::One(plan) => plan,
            Plans::Routes(table) => {
                let path = full_path_of(extensions).unwrap_or(uri.path());
                let matched = matched_path(extensions);
                let Some(plan) = table.find(method, path, matched) else {
                    self.warn_of_near(method, matched, client.as_ref().ok());
                    return Ok(None);
                };
                plan
            }
        };
        Ok(plan.side(method).map(|side| (Arc::clone(plan), side, client)))
    }

    /// True if a request with that method may need a lock, as far as the builder decides.
    fn may_lock(&self, method: &Method) -> bool {
        let may = |http: &HttpPolicy| http.side(method.as_str()).is_some();
        may(&HttpPolicy::default()) || may(&self.settings.http)
    }

    /// Warns of a route of the router whose requests run without a lock, if a configured route is spelt nearly so.
    fn warn_of_near(&self, method: &Method, matched: Option<&str>, client: Option<&LockClient>) {
        if self.may_lock(method)
            && let (Some(pattern), Some(config)) = (matched, client.and_then(LockClient::config))
            && self.told.is_new(pattern)
        {
            let routes: Vec<LockRoute> = runtime::routes(&config).unwrap_or_default();
            if let Some(near) = nearest(pattern, routes.iter().map(|route| route.path.as_str())) {
                tracing::warn!(
                    configured = near,
                    router = pattern,
                    "a request runs without a lock: no configured route matches its path, but one is spelt nearly \
                     as the router's. To lock that route, correct the path in `[[lock.routes]]`; if it needs no \
                     lock, ignore this"
                );
            }
        }
    }

    /// Returns the plans for the client's configuration in effect.
    fn plans_for(&self, client: &LockClient) -> Result<Arc<Plans>, LockError> {
        let config = runtime::layer_config(client);
        self.plans.get(client.id().as_u128(), config.as_ref(), || {
            runtime::follow(client, self.this.clone());
            self.make_plans(client, config.as_deref())
        })
    }

    /// Returns the plan of a layer that follows no configuration, as long as there is no client.
    fn plan_of_code(&self) -> Result<Plans, LockError> {
        Plan::new(&self.settings, None, None, None, None).map(Arc::new).map(Plans::One)
    }

    /// Checks all that can be checked before the first request.
    pub(crate) fn check_all(&self) -> Result<(), LockError> {
        match (&self.settings.client, &self.settings.follows) {
            (Some(client), _) => self.plans_for(client).map(drop),
            (None, Follows::Nothing) => self.plan_of_code().map(drop),
            (None, _) => Ok(()),
        }
    }

    fn make_plans(
        &self,
        client: &LockClient,
        config: Option<&LayerConfig>,
    ) -> Result<Plans, LockError> {
        let plan = |policy, config, entry| {
            Plan::new(&self.settings, Some(client), config, policy, entry).map(Arc::new)
        };
        match (&self.settings.follows, config) {
            (Follows::Nothing, _) => plan(None, config, None).map(Plans::One),
            (Follows::Policy(name), config) => {
                let policy = match config {
                    Some(config) => config.policy(name).map_err(invalid),
                    None => runtime::effective_policy(client, name),
                };
                plan(Some(policy?), config, None).map(Plans::One)
            }
            (Follows::Routes, Some(config)) => {
                checks::check(config.config()).map_err(invalid)?;
                let routes: Vec<LockRoute> = runtime::routes(config.config()).map_err(invalid)?;
                if routes.is_empty() {
                    tracing::warn!(
                        "the layer follows `[[lock.routes]]`, and the configuration has none: it locks no request"
                    );
                }
                let plans = routes.iter().enumerate().map(|(at, entry)| {
                    let policy = config.policy(&entry.policy);
                    let plan =
                        policy.and_then(|policy| plan(Some(policy), Some(config), Some(entry)));
                    plan.map_err(|error| {
                        invalid(format!("lock.routes[{at}] ({}): {}", entry.path, in_words(error)))
                    })
                });
                RouteTable::new(&plans.collect::<Result<Vec<_>, _>>()?)
                    .map(|table| Plans::Routes(Box::new(table)))
            }
            (Follows::Routes, None) => Err(invalid(
                "the client has no configuration and so no routes; set one with \
                 `LockClient::from_config` or `LockClientBuilder::config`",
            )),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}
