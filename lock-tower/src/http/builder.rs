//! [`HttpLockLayerBuilder`]: collects the settings of an HTTP layer and checks them once.

use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};
use http_body::Body;
use lock_runtime::{KeyPart, LockClient, LockError, LockKey, LockKind, LockOptions, Wait};

use crate::http::answer::RefusalResponder;
use crate::http::error::{KeyError, invalid};
use crate::http::http_settings::{Follows, HttpSettings, Key};
use crate::http::layer::{HttpLockLayer, Shared};
use crate::http::methods::Methods;
use crate::http::plan_cache::PlanCache;
use crate::http::read_ahead::{BoxError, RequestBodies};
use crate::http::settings::{BUSY, HoldUntil, OnDisconnect, OnMissingKey, SafeMethods};
use crate::http::told::Told;
use crate::layer::LockLayer;

impl LockLayer {
    /// Starts a builder of a layer for HTTP services. See the [module documentation](crate::http).
    #[track_caller]
    pub fn http() -> HttpLockLayerBuilder {
        HttpLockLayerBuilder(HttpSettings::new(Location::caller()))
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
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct HttpLockLayerBuilder(HttpSettings);

/// Which requests are locked, and by which key.
impl HttpLockLayerBuilder {
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
        self.0.key = Some(Key::Template(template.into()));
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
        self.0.key = Some(Key::Function(Arc::new(key)));
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
        self.0.extensions.add::<T>(name.into());
        self
    }

    /// Sets the route for `{path.…}` and `{route}`, such as `"/orders/{id}/pay"` or `"/files/{*path}"`, instead of
    /// the router's. It is matched against the path that this layer sees, which inside a nested router is the
    /// path without the prefix.
    ///
    /// [`skip_missing_key`](Self::skip_missing_key) decides about a request with another path.
    pub fn route(mut self, pattern: impl Into<String>) -> Self {
        self.0.route = Some(pattern.into());
        self
    }

    /// Sets whether a request runs without a lock if it has no header, query parameter or extension that the key
    /// needs, or if its path does not match the [`route`](Self::route). Default: no, it is answered with 400. Set it
    /// if clients choose whether they want a lock.
    pub fn skip_missing_key(mut self, skips: bool) -> Self {
        let on_missing = if skips { OnMissingKey::Skip } else { OnMissingKey::Reject };
        self.0.http.on_missing = Some(on_missing);
        self
    }

    /// Sets the methods that are locked; requests with other methods run without a lock. Default:
    /// [all but](Self::all_methods_but) GET, HEAD, OPTIONS and TRACE, so that unknown methods are locked. GET
    /// includes HEAD, which routers pass to GET's handler.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.0.http.methods = Some(Methods::these(methods));
        self
    }

    /// Locks requests of every method, also those that only read.
    pub fn all_methods(mut self) -> Self {
        self.0.http.methods = Some(Methods::all_but([""; 0]));
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
        self.0.http.methods = Some(Methods::all_but(methods));
        self
    }

    /// Sets whether GET and HEAD, if [`methods`](Self::methods) does not name them, acquire the read side of a
    /// read/write lock, and all other methods the write side, so that no request reads what another one is writing.
    /// Each read then costs a round trip. Default: no, GET and HEAD run without a lock.
    pub fn share_safe_methods(mut self, shares: bool) -> Self {
        let safe_methods = if shares { SafeMethods::Shared } else { SafeMethods::None };
        self.0.http.safe_methods = Some(safe_methods);
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
        if let Some(status) = self.0.http.busy.filter(|status| !BUSY.contains(status)) {
            return Err(invalid(format!(
                "`busy` is {}; use 409, 423, 429 or 503",
                status.as_str()
            )));
        }
        if self.0.http.max_body_hold == Some(Duration::ZERO) {
            return Err(invalid(
                "`max_body_hold` is zero, so no body could be sent; make it longer",
            ));
        }
        self.0.options.check()?;
        if let (Follows::Routes, Some(_)) = (&self.0.follows, &self.0.route) {
            return Err(invalid("the routes come from the configuration; omit `route`"));
        }
        let shared = Arc::new_cyclic(|this| Shared {
            this: Weak::clone(this),
            pool: RequestBodies::pool(),
            settings: self.0,
            plans: PlanCache::default(),
            told: Told::default(),
        });
        shared.check_all()?;
        Ok(HttpLockLayer { shared })
    }
}

/// How requests are locked.
impl HttpLockLayerBuilder {
    /// Sets the client. Default: [`LockClient::current`] at the time of each request; without a current client
    /// the answer is 500.
    pub fn client(mut self, client: LockClient) -> Self {
        self.0.client = Some(client);
        self
    }

    /// Sets options of the lock, over those that were set before; the others come from the policy or the client, and the
    /// layer has its own default wait and number of waiters. With [`Wait::None`] a busy lock is answered with 409,
    /// otherwise with 503 after the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_runtime::LockOptions;
    /// use lock_tower::LockLayer;
    ///
    /// let layer = LockLayer::http()
    ///     .key("upload:{header.x-account}")
    ///     .options(LockOptions::default().max_hold(Duration::from_secs(30)))
    ///     .build()?;
    /// # let _ = layer;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn options(mut self, options: LockOptions) -> Self {
        self.0.options = options.or(self.0.options);
        self
    }

    /// Sets how long a request waits for the lock. Default: 10 s, unless the client's options or its
    /// configuration set a wait. With a longer wait more requests queue and fewer are refused. [`Wait::None`]
    /// answers at once, and [`Wait::Forever`] waits until the request's client leaves. A request's own deadline,
    /// see [`RequestDeadline`](crate::http::RequestDeadline), shortens the wait.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.0.options = self.0.options.wait(wait);
        self
    }

    /// Sets the kind of lock. Default: [`LockKind::Mutex`]. Set `Fair` if requests must be served in the order in
    /// which they came, across processes.
    pub fn kind(mut self, kind: LockKind) -> Self {
        self.0.options.kind = Some(kind);
        self
    }

    /// Sets how many requests of this process may wait for one lock before others are answered with 503 at
    /// once: see [`LockOptions::max_waiters`](lock_runtime::LockOptions::max_waiters). Default:
    /// 1 024, unless the client's options or its configuration set a number. A smaller number sheds load earlier
    /// and saves memory, also that of [`read_ahead`](Self::read_ahead).
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.0.options = self.0.options.max_waiters(max_waiters);
        self
    }

    /// Sets how long one request may hold the lock. A body that is still being sent then is cut off; a handler
    /// that still runs loses its lock one lease later and is dropped. Default: no limit for handlers, and
    /// [`max_body_hold`](Self::max_body_hold) for bodies, whose default this replaces.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.0.options = self.0.options.max_hold(max_hold);
        self
    }

    /// Sets how long a body may hold the lock while it is sent, counted from the head of the response. The body
    /// is then cut off, and the lock released. Default: 30 s, or [`max_hold`](Self::max_hold) if that is set. A
    /// longer time lets slow readers and long streams go on, a shorter one admits other requests sooner;
    /// [`Duration::MAX`] is no limit.
    pub fn max_body_hold(mut self, max_body_hold: Duration) -> Self {
        self.0.http.max_body_hold = Some(max_body_hold);
        self
    }

    /// Follows a policy of the client's configuration at the time of each request, so that a reload takes effect
    /// at once. The builder's own settings override the policy. If the builder has no key, the policy's `key` counts.
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
        self.0.follows = Follows::Policy(name.into());
        self
    }

    /// Follows the `[[lock.routes]]` of the client's configuration at the time of each request; requests that
    /// match none of them run without a lock. See [`LockLayer::routes`](crate::LockLayer::routes).
    ///
    /// The [module documentation](crate::http#routes) says how these routes relate to the router's.
    pub fn routes(mut self) -> Self {
        self.0.follows = Follows::Routes;
        self
    }
}

/// When the lock is released, and what is answered.
impl HttpLockLayerBuilder {
    /// Sets when the lock is released. Default: [`HoldUntil::Auto`], with the answer if its body is complete in
    /// memory, otherwise when the body ends. Set `Response` if streams need no lock, and `Body` if a complete
    /// body must be sent first too, apart from what is in buffers.
    pub fn hold(mut self, hold: HoldUntil) -> Self {
        self.0.http.hold = Some(hold);
        self
    }

    /// Sets whether a handler whose client has left runs to its end, in a task of its own, under its lock. Task-locals
    /// of outer layers are not in that task. Default: no, the handler is dropped. A request that still waits for the lock
    /// and a body that is being sent are dropped in both cases.
    pub fn finish_on_disconnect(mut self, finishes: bool) -> Self {
        let on_disconnect = if finishes { OnDisconnect::Finish } else { OnDisconnect::Cancel };
        self.0.http.on_disconnect = Some(on_disconnect);
        self
    }

    /// Sets how long a finished response waits for the store to confirm the release. Default: 250 ms.
    ///
    /// If the store is slow, a longer timeout keeps a sequential client from finding its own lock busy, and a
    /// shorter one answers sooner. The release goes on in the background in both cases.
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.0.http.release_timeout = Some(release_timeout);
        self
    }

    /// Sets the status for a request that finds the lock busy and does not wait. Default: 409. Set 423 (`LOCKED`) if
    /// clients know about the lock, 503 if they handle only that, and 429 if the key names the caller; 429 is then also
    /// the answer after a wait. [`build`](Self::build) refuses any other status.
    pub fn busy(mut self, status: StatusCode) -> Self {
        self.0.http.busy = Some(status);
        self
    }

    /// Sets how refusals are answered. Default: [`LockResponse::into_http`](crate::LockResponse::into_http).
    pub fn responder(mut self, responder: impl RefusalResponder) -> Self {
        self.0.responder = Some(Arc::new(responder));
        self
    }
}

/// How much of a request's body is read while the request waits.
impl HttpLockLayerBuilder {
    /// Sets how many bytes of a request's body are read while the request waits for its lock. Up to one frame
    /// more is kept, and each frame counts with some bytes of its own. Default: 64 KiB. If the whole body could
    /// be read, the layer notices that the client has left and drops the request: see the
    /// [module documentation](crate::http#clients-that-leave).
    ///
    /// All waiting requests of a layer keep 16 MiB together, and at most the piece that each is reading; past that,
    /// others wait unread. With 0 no body is read before its handler reads it.
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.0.bodies.limit = bytes;
        self
    }

    /// Reads bodies of type `B` while their requests wait. `rebuild` makes such a body from what was read and the
    /// rest; it is not called for a request that does not wait.
    ///
    /// With the feature `axum-08` the layer knows `axum::body::Body`. Other types have to be named here; use types
    /// that can hold any body, such as those of `http-body-util`. Bodies of unknown types are not read, and an
    /// HTTP/1.1 client that leaves is noticed only when its handler reads.
    ///
    /// # Examples
    ///
    /// A service for hyper, without axum: the bodies that hyper makes go into a box outside the layer.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use std::convert::Infallible;
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body::Body;
    /// use http_body_util::combinators::UnsyncBoxBody;
    /// use http_body_util::{BodyExt, Full};
    /// use lock_runtime::LockClient;
    /// use lock_tower::LockLayer;
    /// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
    ///
    /// type RequestBody = UnsyncBoxBody<Bytes, BoxError>;
    ///
    /// fn boxed<B>(request: Request<B>) -> Request<RequestBody>
    /// where
    ///     B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    /// {
    ///     request.map(|body| body.map_err(Into::into).boxed_unsync())
    /// }
    ///
    /// let layer = LockLayer::http()
    ///     .key("nightly")
    ///     .client(LockClient::in_memory())
    ///     .request_body::<RequestBody>(|body| body.boxed_unsync())
    ///     .build()?;
    /// let service = ServiceBuilder::new()
    ///     // With hyper's server: `boxed::<hyper::body::Incoming>`.
    ///     .map_request(boxed::<Full<Bytes>>)
    ///     .layer(layer)
    ///     .service(service_fn(|_: Request<RequestBody>| async {
    ///         Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done")))
    ///     }));
    /// let request = Request::post("/").body(Full::default())?;
    /// assert_eq!(service.oneshot(request).await?.status(), 200);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn request_body<B>(
        mut self,
        rebuild: impl Fn(Pin<Box<dyn Body<Data = B::Data, Error = BoxError> + Send>>) -> B
        + Send
        + Sync
        + 'static,
    ) -> Self
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        self.0.bodies.add(move |read| rebuild(Box::pin(read)));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> HttpLockLayerBuilder {
        LockLayer::http()
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
