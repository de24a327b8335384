//! [`HttpLockLayerBuilder`]: everything an HTTP layer can be told, checked once.

mod methods;
mod request_body;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use lock_runtime::options::LockSettings;
use lock_runtime::policy::{BusyStatus, HoldUntil, OnDisconnect, OnMissingKey};
use lock_runtime::{KeyPart, LockClient, LockKey, LockKind, LockOptions, Wait};

use crate::http::answer::problem::{ProblemDetails, RefusalResponder};
use crate::http::layer::cache::Cache;
use crate::http::layer::plan::{Key, Literals, Plan};
use crate::http::layer::seen_routes::SeenRoutes;
use crate::http::layer::{HttpLockLayer, Shared, Source};
use crate::http::request::coverage::WarnedRoutes;
use crate::http::request::key::{KeyError, KeyExtractor};
use crate::http::request::read_ahead::{READ_AHEAD, READ_AHEAD_POOL, ReadAheadPool, RequestBodies};

/// What is wrong with a layer: one sentence that says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BuildError(String);

impl BuildError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// Builds an [`HttpLockLayer`]: see [`LockLayer::http`](crate::LockLayer::http).
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct HttpLockLayerBuilder {
    client: Option<LockClient>,
    literals: Literals,
    policies: Policies,
    responder: Arc<dyn RefusalResponder>,
    extension: bool,
    read_ahead: usize,
    read_ahead_pool: usize,
    bodies: RequestBodies,
}

/// Which policies a layer follows.
#[derive(Debug, Clone)]
enum Policies {
    None,
    One(String),
    Routes,
}

/// What to lock.
impl HttpLockLayerBuilder {
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self {
            client: None,
            literals: Literals::new(Location::caller()),
            policies: Policies::None,
            responder: Arc::new(ProblemDetails),
            extension: false,
            read_ahead: READ_AHEAD,
            read_ahead_pool: READ_AHEAD_POOL,
            bodies: RequestBodies::known(),
        }
    }

    /// What to lock, as a template: `"order:{path.id}:{header.x-tenant}"`.
    ///
    /// There are `{method}`, `{route}`, `{path.<parameter>}`, `{query.<parameter>}`, `{header.<name>}`
    /// and `{ext.<name>}`; `{{` and `}}` are braces. Values are escaped, so that no request can name
    /// another's lock. A header or query parameter that comes more than once, is empty, or is not
    /// visible ASCII or UTF-8 is refused with 400. A value is the text that the request has: `/orders/7`
    /// and `/orders/007` are two locks. Where the handler takes them for one order, have an annotated
    /// function lock what the handler has parsed. A key of nothing but what clients choose, such as a
    /// header, lets them lock each other out: add who they are, by `{ext.<name>}`.
    ///
    /// `{path.…}` and `{route}`, which is the route as it is written, need to know the route: with the
    /// feature `axum` they ask the router, also a nested one; without it, [`route`](Self::route) says
    /// it. `{ext.…}` is a request extension, named by [`extension`](Self::extension).
    pub fn key(mut self, template: impl Into<String>) -> Self {
        self.literals.key = Some(Key::Template(template.into()));
        self
    }

    /// What to lock, by a closure over the request's head; in place of a template. `None` lets the
    /// request through without a lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, LockKey};
    /// use lock_tower::LockLayer;
    /// use lock_tower::http::KeyError;
    ///
    /// #[derive(Clone)]
    /// struct Tenant(u32); // put there by the authentication layer outside
    ///
    /// let layer = LockLayer::http()
    ///     .client(LockClient::in_memory())
    ///     .key_fn(|request| {
    ///         let Some(Tenant(tenant)) = request.extensions.get() else {
    ///             return Err(KeyError::Missing("tenant".into()));
    ///         };
    ///         Ok(Some(LockKey::builder().text("tenant:").part(tenant).build()?))
    ///     })
    ///     .build()?;
    /// # Ok::<_, lock_tower::http::BuildError>(())
    /// ```
    pub fn key_fn<F>(self, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static,
    {
        self.key_extractor(key)
    }

    /// What to lock, by a type of your own; in place of a template.
    pub fn key_extractor(mut self, extractor: impl KeyExtractor) -> Self {
        self.literals.key = Some(Key::Extractor(Arc::new(extractor)));
        self
    }

    /// Lets key templates name the request extension of type `T`, which a layer further out has put
    /// there, as `{ext.<name>}`. A request without it lacks its key: see
    /// [`on_missing`](Self::on_missing).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::KeyPart;
    /// use lock_tower::LockLayer;
    ///
    /// #[derive(Clone, KeyPart)]
    /// struct Tenant(u32);
    ///
    /// let layer = LockLayer::http()
    ///     .extension::<Tenant>("tenant")
    ///     .key("cart:{ext.tenant}:{header.x-cart}")
    ///     .build()?;
    /// # let _ = layer;
    /// # Ok::<_, lock_tower::http::BuildError>(())
    /// ```
    pub fn extension<T: KeyPart + Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
    ) -> Self {
        Arc::make_mut(&mut self.literals.extensions).add::<T>(name.into());
        self
    }

    /// The route that `{path.…}` and `{route}` refer to, as `"/orders/{id}/pay"` or `"/files/{*path}"`,
    /// where no router says so, or in place of what it says. It is matched against the path as this
    /// layer sees it, which is without the prefix inside a nested router.
    ///
    /// A request with another path lacks the parameters: see [`on_missing`](Self::on_missing).
    pub fn route(mut self, pattern: impl Into<String>) -> Self {
        self.literals.route = Some(pattern.into());
        self
    }

    /// What becomes of a request that lacks a header, a query parameter or an extension, or whose path is
    /// not the [`route`](Self::route)'s. Default: [`OnMissingKey::Reject`], the safe choice; take `Skip`
    /// where the lock is a service to those who ask for it.
    pub fn on_missing(mut self, on_missing: OnMissingKey) -> Self {
        self.literals.http.on_missing = Some(on_missing);
        self
    }
}

/// On what terms.
impl HttpLockLayerBuilder {
    /// Where the locks are. Default: [`LockClient::current`] at the time of each request, and where
    /// there is none the answer is 500.
    pub fn client(mut self, client: LockClient) -> Self {
        self.client = Some(client);
        self
    }

    /// Everything about the lock but its kind; where they set no wait or no number of waiters, the layer's
    /// defaults count. With [`Wait::Never`] a busy lock is answered with 409,
    /// else with 503 once the wait is over. Default: as the client has it. Beside a policy, say
    /// [`settings`](Self::settings).
    pub fn options(mut self, options: LockOptions) -> Self {
        self.literals.options = Some(options);
        self
    }

    /// What the layer says about the lock; the rest is the policy's, or the client's.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_runtime::options::LockSettings;
    /// use lock_tower::LockLayer;
    ///
    /// let brief = Some(Duration::from_secs(30));
    /// let layer = LockLayer::http()
    ///     .key("upload:{header.x-account}")
    ///     .settings(LockSettings { max_hold: brief, ..LockSettings::default() })
    ///     .build()?;
    /// # let _ = layer;
    /// # Ok::<_, lock_tower::http::BuildError>(())
    /// ```
    pub fn settings(mut self, settings: LockSettings) -> Self {
        self.literals.settings = settings.or(self.literals.settings);
        self
    }

    /// How long to wait for the lock. Default: 10 s, unless the client's options or its configuration set
    /// a wait. Longer queues more and refuses less; [`Wait::Never`] answers at once, and [`Wait::Forever`]
    /// waits for as long as the client of the request does. A request's own deadline, see
    /// [`RequestDeadline`](crate::http::RequestDeadline), shortens it.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.literals.settings.wait = Some(wait.into());
        self
    }

    /// What kind of lock. Default: [`LockKind::Mutex`]. Take `Fair` where requests must be served in
    /// the order in which they came, across processes.
    pub fn kind(mut self, kind: LockKind) -> Self {
        self.literals.settings.kind = Some(kind);
        self
    }

    /// How many requests of this process may line up for one lock, behind the one that has it or asks the
    /// store for it, before others are answered with 503 at once: see
    /// [`LockOptionsBuilder::max_waiters`](lock_runtime::options::LockOptionsBuilder::max_waiters). Default:
    /// 1 024, unless the client's options or its configuration set a number. Fewer shed load earlier and spare memory, also that for [`read_ahead`](Self::read_ahead).
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.literals.settings.max_waiters = Some(max_waiters);
        self
    }

    /// For how long one request may have the lock. A body that is still being sent by then is cut off;
    /// a handler that still runs loses its lock one lease later, and is dropped. Default: no limit for
    /// handlers, and [`max_body_hold`](Self::max_body_hold) for bodies, whose default this replaces.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.literals.settings.max_hold = Some(max_hold);
        self
    }

    /// For how long a body may hold the lock while it is sent, counted from the response's head; then it
    /// is cut off, and the lock is free. Default: 5 min, or [`max_hold`](Self::max_hold) where that is set.
    /// Longer lets slow readers and long streams go on, shorter lets others in sooner;
    /// [`Duration::MAX`] is no limit.
    pub fn max_body_hold(mut self, max_body_hold: Duration) -> Self {
        self.literals.http.max_body_hold = Some(max_body_hold);
        self
    }

    /// Follows a policy of the client's configuration, as it is at the time of each request: a reload
    /// has effect at once. What this builder says itself comes before the policy, unless the
    /// configuration has `override = "config"`. The key is the policy's `key`, if the builder has none.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, policy::LockConfig};
    /// use lock_tower::LockLayer;
    ///
    /// let config = LockConfig::from_toml(
    ///     r#"
    ///     [lock.policies.checkout]
    ///     key = "cart:{header.x-cart}"
    ///     wait = "2s"
    ///     http = { busy = 423, hold = "response" }
    ///     "#,
    /// )?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// let layer = LockLayer::http().client(client).policy("checkout").build()?;
    /// # let _ = layer;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(mut self, name: impl Into<String>) -> Self {
        self.policies = Policies::One(name.into());
        self
    }

    /// Follows the `[[lock.routes]]` of the client's configuration, as they are at the time of each
    /// request; what fits none of them passes. See [`LockLayer::routes`](crate::LockLayer::routes).
    ///
    /// Which routes these are, beside a router's, is said in the [module](crate::http#routes). A new
    /// configuration that does not go with the layer is logged as an error, and the layer keeps to the
    /// client's old one. Without a [`client`](Self::client) of its own the layer remembers this for the 64
    /// clients that it has worked for last.
    pub fn routes(mut self) -> Self {
        self.policies = Policies::Routes;
        self
    }
}

/// When to let go, and what to answer.
impl HttpLockLayerBuilder {
    /// When the lock is released. Default: [`HoldUntil::Auto`], with the answer if its body is there,
    /// else when the body ends. Say `Response` where streams do not need the lock any more, `Body` where
    /// also a body that is there must have gone out first, to within what is in buffers.
    pub fn hold(mut self, hold: HoldUntil) -> Self {
        self.literals.http.hold = Some(hold);
        self
    }

    /// What becomes of a handler whose client has gone. Default: [`OnDisconnect::Cancel`]. With `Finish`
    /// it runs to its end in a task of its own, under its lock; a request that still waits for the lock
    /// is given up in any case, and so is a body.
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.literals.http.on_disconnect = Some(on_disconnect);
        self
    }

    /// How long a finished response waits for the store to confirm the release. Longer keeps a
    /// sequential client from finding its own lock busy when the store is slow; shorter answers
    /// sooner then. The release goes on in the background either way. Default: 250 ms.
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.literals.http.release_timeout = Some(release_timeout);
        self
    }

    /// The answer to a request that finds the lock busy and is not to wait. Default:
    /// [`BusyStatus::Conflict`]. Say `Locked` where clients know of the lock, `Unavailable` where they
    /// only know 503, and `TooManyRequests` where the key is who asks; that goes for waits that ran out
    /// as well.
    pub fn busy(mut self, busy: BusyStatus) -> Self {
        self.literals.http.busy = Some(busy);
        self
    }

    /// How refusals look. Default: [`ProblemDetails`].
    pub fn responder(mut self, responder: impl RefusalResponder) -> Self {
        self.responder = Arc::new(responder);
        self
    }

    /// Puts a [`HeldLock`](crate::HeldLock) into the extensions of each locked request, for handlers
    /// that take it from there, as `Extension<HeldLock>`, or run in another task. Costs some
    /// allocations for each request. Default: no; [`HeldLock::current`](crate::HeldLock::current) and
    /// the extractor need none. A layer of this kind further in takes it out again, or puts its own in
    /// its place.
    pub fn held_extension(mut self) -> Self {
        self.extension = true;
        self
    }

    /// Checks everything and makes the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if there is no key, its template is broken, it names a placeholder that does
    /// not exist, an extension that the layer does not know or a path parameter that the route does not
    /// have, the route is broken, no method is left, or the settings contradict each other. With a
    /// [`client`](Self::client), also if its configuration has no such policy, or one of which this can
    /// be said; else the log says so with each request.
    pub fn build(self) -> Result<HttpLockLayer, BuildError> {
        let Self { client, literals, policies, responder, extension, read_ahead, .. } = self;
        let (pool, bodies) = (ReadAheadPool::new(self.read_ahead_pool), self.bodies);
        if literals.options.is_some() && !matches!(policies, Policies::None) {
            return Err(BuildError::new(
                "`options` leaves a policy nothing to say; beside one, say `settings`",
            ));
        }
        let mut said = literals.settings;
        said.kind = None;
        if literals.options.is_some() && said != LockSettings::default() {
            return Err(BuildError::new(
                "`options` and `settings` are about the same; say one of them",
            ));
        }
        if literals.http.max_body_hold == Some(Duration::ZERO) {
            return Err(BuildError::new("`max_body_hold` of zero sends no body; make it longer"));
        }
        if let Err(error) = said.apply_to(LockOptions::default()) {
            return Err(BuildError::new(error.to_string()));
        }
        let source = match policies {
            Policies::None => Source::Code(Arc::new(Plan::new(&literals, None, None)?)),
            Policies::One(name) => {
                Source::Policy { name, plan: Cache::new(), seen: SeenRoutes::default() }
            }
            Policies::Routes if literals.route.is_some() => {
                return Err(BuildError::new(
                    "the routes are the configuration's; leave `route` out",
                ));
            }
            Policies::Routes => {
                Source::Routes { plans: Cache::new(), warned: WarnedRoutes::default() }
            }
        };
        let shared =
            Shared { client, literals, source, responder, extension, read_ahead, pool, bodies };
        if let Some(client) = &shared.client {
            shared.check(client)?;
        }
        Ok(HttpLockLayer::new(shared))
    }
}

impl fmt::Debug for HttpLockLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLockLayerBuilder")
            .field("client", &self.client)
            .field("policies", &self.policies)
            .field("settings", &self.literals.settings)
            .field("options", &self.literals.options)
            .field("http", &self.literals.http)
            .field("route", &self.literals.route)
            .finish_non_exhaustive()
    }
}
