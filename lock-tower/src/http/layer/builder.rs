//! [`HttpLockLayerBuilder`]: collects the settings of an HTTP layer and checks them once.

mod settings;

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::Method;
use http::request::Parts;
use lock_runtime::{KeyPart, LockClient, LockError, LockKey};

use crate::http::answer::responder::RefusalResponder;
use crate::http::config::settings::{BUSY, Methods, OnMissingKey, SafeMethods};
use crate::http::error::KeyError;
use crate::http::layer::cache::Cache;
use crate::http::layer::plan::{Key, Literals, Plan, invalid};
use crate::http::layer::told::Told;
use crate::http::layer::{HttpLockLayer, Shared, Source};
use crate::http::request::pool::ReadAheadPool;
use crate::http::request::read_ahead::{READ_AHEAD, RequestBodies};
use crate::layer::LockLayer;

impl LockLayer {
    /// Starts a builder of a layer for HTTP services. See the [module documentation](crate::http).
    #[track_caller]
    pub fn http() -> HttpLockLayerBuilder {
        HttpLockLayerBuilder::new()
    }

    /// Builds a layer for a whole router from the `[[lock.routes]]` of the client's configuration: see
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
    pub fn routes(client: &LockClient) -> Result<HttpLockLayer, LockError> {
        Self::http().client(client.clone()).routes().build()
    }
}

/// Builds an [`HttpLockLayer`]: see [`LockLayer::http`].
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct HttpLockLayerBuilder {
    client: Option<LockClient>,
    literals: Literals,
    policies: Policies,
    responder: Option<Arc<dyn RefusalResponder>>,
    read_ahead: usize,
    bodies: RequestBodies,
}

/// The policies that a layer follows.
#[derive(Debug, Clone)]
enum Policies {
    None,
    One(String),
    Routes,
}

/// Which requests are locked, and by which key.
impl HttpLockLayerBuilder {
    #[track_caller]
    fn new() -> Self {
        Self {
            client: None,
            literals: Literals::new(Location::caller()),
            policies: Policies::None,
            responder: None,
            read_ahead: READ_AHEAD,
            bodies: RequestBodies::known(),
        }
    }

    /// Sets the key as a template: `"order:{path.id}:{header.x-tenant}"`.
    ///
    /// The placeholders are `{method}`, `{route}`, `{path.<parameter>}`, `{query.<parameter>}`,
    /// `{header.<name>}` and `{ext.<name>}`; `{{` and `}}` are braces. Values are escaped, so that no request
    /// can name the lock of another. A header or query parameter that is there more than once, is empty, or is
    /// not visible ASCII or UTF-8 is refused with 400.
    ///
    /// A value is the text of the request: `/orders/7` and `/orders/007` are two locks. If the handler parses the value,
    /// write its type: with `{path.id:u64}` they are one, and an annotated function with an argument of that type
    /// re-enters it. The types are the integers of Rust and `uuid`; a value that is none is refused with 400. If a key consists only of values
    /// that clients choose, such as a header, clients can lock each other out: add the caller's identity, by
    /// `{ext.<name>}`.
    ///
    /// `{path.…}` and `{route}`, which is the route's pattern, need the route: with the feature `axum-08` they come
    /// from the router, also from nested ones; without it, set [`route`](Self::route). `{ext.…}` is a request
    /// extension, named by [`extension`](Self::extension).
    pub fn key(mut self, template: impl Into<String>) -> Self {
        self.literals.key = Some(Key::Template(template.into()));
        self
    }

    /// Sets the key as a closure over the request's head, instead of a template. With `None` the request runs
    /// without a lock.
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
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn key_fn<F>(mut self, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static,
    {
        self.literals.key = Some(Key::Function(Arc::new(key)));
        self
    }

    /// Names the request extension of type `T`, which an outer layer adds, as `{ext.<name>}` in key templates.
    /// [`skip_missing_key`](Self::skip_missing_key) decides about a request without it.
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
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn extension<T: KeyPart + Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
    ) -> Self {
        Arc::make_mut(&mut self.literals.extensions).add::<T>(name.into());
        self
    }

    /// Sets the route for `{path.…}` and `{route}`, such as `"/orders/{id}/pay"` or `"/files/{*path}"`, instead of
    /// the router's. It is matched against the path that this layer sees, which inside a nested router is the
    /// path without the prefix.
    ///
    /// [`skip_missing_key`](Self::skip_missing_key) decides about a request with another path.
    pub fn route(mut self, pattern: impl Into<String>) -> Self {
        self.literals.route = Some(pattern.into());
        self
    }

    /// Sets whether a request runs without a lock if it has no header, query parameter or extension that the key
    /// needs, or if its path does not match the [`route`](Self::route). Default: no, it is answered with 400. Set it
    /// if clients choose whether they want a lock.
    pub fn skip_missing_key(mut self, skips: bool) -> Self {
        let on_missing = if skips { OnMissingKey::Skip } else { OnMissingKey::Reject };
        self.literals.http.on_missing = Some(on_missing);
        self
    }

    /// Sets the methods that are locked; requests with other methods run without a lock. Default:
    /// [all but](Self::all_methods_but) GET, HEAD, OPTIONS and TRACE, so that unknown methods are locked. GET
    /// includes HEAD, which routers pass to GET's handler.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.literals.http.methods = Some(Methods::These(names(methods)));
        self
    }

    /// Locks requests of every method, also those that only read.
    pub fn all_methods(mut self) -> Self {
        self.literals.http.methods = Some(Methods::All);
        self
    }

    /// Locks requests of every method except these. GET includes HEAD.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Method;
    /// use lock_tower::LockLayer;
    ///
    /// // As the default, and for web sockets over HTTP/2, which begin with CONNECT.
    /// let layer = LockLayer::http()
    ///     .key("board:{header.x-board}")
    ///     .all_methods_but([Method::GET, Method::OPTIONS, Method::TRACE, Method::CONNECT])
    ///     .build()?;
    /// # let _ = layer;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn all_methods_but(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.literals.http.methods = Some(Methods::AllBut(names(methods)));
        self
    }

    /// Sets whether GET and HEAD, if [`methods`](Self::methods) does not name them, acquire the read side of a
    /// read/write lock, and all other methods the write side, so that no request reads what another one is writing.
    /// Each read then costs a round trip. Default: no, GET and HEAD run without a lock.
    pub fn share_safe_methods(mut self, shares: bool) -> Self {
        let safe_methods = if shares { SafeMethods::Shared } else { SafeMethods::None };
        self.literals.http.safe_methods = Some(safe_methods);
        self
    }

    /// Checks the settings and builds the layer.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if there is no key, its template is malformed, it names an unknown placeholder, an
    /// extension that the layer does not know or a path parameter that the route does not have, the route is
    /// malformed, no method is locked, or the settings contradict each other. With a [`client`](Self::client),
    /// also if its configuration does not have the policy, or has one with such an error; without a client, the
    /// layer logs that error with each request.
    pub fn build(self) -> Result<HttpLockLayer, LockError> {
        let Self { client, literals, policies, responder, read_ahead, bodies } = self;
        if let Some(status) = literals.http.busy.filter(|status| !BUSY.contains(status)) {
            return Err(invalid(format!(
                "`busy` is {}; use 409, 423, 429 or 503",
                status.as_str()
            )));
        }
        if literals.http.max_body_hold == Some(Duration::ZERO) {
            return Err(invalid(
                "`max_body_hold` is zero, so no body could be sent; make it longer",
            ));
        }
        literals.options.check()?;
        let source = match policies {
            Policies::None => Source::Code(Arc::new(Plan::new(&literals, None, None)?)),
            Policies::One(name) => Source::Policy { name, plan: Cache::new() },
            Policies::Routes if literals.route.is_some() => {
                return Err(invalid("the routes come from the configuration; omit `route`"));
            }
            Policies::Routes => Source::Routes { plans: Cache::new() },
        };
        let shared = Arc::new_cyclic(|this| Shared {
            this: Weak::clone(this),
            client,
            literals,
            source,
            responder,
            told: Told::default(),
            read_ahead,
            pool: ReadAheadPool::new(),
            bodies,
        });
        if let Some(client) = &shared.client {
            shared.check(client)?;
            client.follow(shared.this.clone());
        }
        Ok(HttpLockLayer { shared })
    }
}

fn names(methods: impl IntoIterator<Item = Method>) -> Vec<String> {
    methods.into_iter().map(|method| method.to_string()).collect()
}

impl fmt::Debug for HttpLockLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLockLayerBuilder")
            .field("client", &self.client)
            .field("policies", &self.policies)
            .field("options", &self.literals.options)
            .field("options", &self.literals.options)
            .field("http", &self.literals.http)
            .field("route", &self.literals.route)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> HttpLockLayerBuilder {
        HttpLockLayerBuilder::new()
    }

    #[test]
    fn impossible_layers_say_why() {
        let function = http().key_fn(|_| Ok(None));
        for (builder, reason) in [
            (http(), "the layer has no key"),
            (http().key("{nope}"), "unknown placeholder `{nope}`"),
            (http().key("a").methods([]), "locks no method"),
            (http().key("a").route("orders"), "does not begin with `/`"),
            (function.route("/{id}"), "the key is a closure"),
            (
                http().key("{path.id}").route("/{order}/{item}"),
                "`{path.id}` is not in the route `/{order}/{item}`, which has `{path.order}`, \
                 `{path.item}`",
            ),
            (http().key("{path.id}").route("/"), "which has no parameters"),
        ] {
            let message = builder.build().unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn path_parameters_need_a_route_or_a_router() {
        let layer = http().key("order:{path.id}").build();
        if cfg!(feature = "axum-08") {
            assert!(layer.is_ok());
        } else {
            let message = layer.unwrap_err().to_string();
            assert!(message.contains("`{path.id}` needs a route"), "{message}");
        }
        assert!(http().key("order:{path.id}").route("/orders/{id}").build().is_ok());
    }
}
