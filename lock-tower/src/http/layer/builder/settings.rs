//! How requests are locked, when their locks are released, and what is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::http::config::settings::{HoldUntil, OnDisconnect};
use http::StatusCode;
use http_body::Body;
use lock_runtime::{LockClient, LockKind, LockOptions, Wait};

use crate::http::answer::responder::RefusalResponder;
use crate::http::layer::builder::{HttpLockLayerBuilder, Policies};
use crate::http::request::read_body::BoxError;

/// How requests are locked.
impl HttpLockLayerBuilder {
    /// Sets the client. Default: [`LockClient::current`] at the time of each request; without a current client
    /// the answer is 500.
    pub fn client(mut self, client: LockClient) -> Self {
        self.client = Some(client);
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
        self.literals.options = options.or(self.literals.options);
        self
    }

    /// Sets how long a request waits for the lock. Default: 10 s, unless the client's options or its
    /// configuration set a wait. With a longer wait more requests queue and fewer are refused. [`Wait::None`]
    /// answers at once, and [`Wait::Forever`] waits until the request's client leaves. A request's own deadline,
    /// see [`RequestDeadline`](crate::http::RequestDeadline), shortens the wait.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.literals.options.wait = Some(wait.into());
        self
    }

    /// Sets the kind of lock. Default: [`LockKind::Mutex`]. Set `Fair` if requests must be served in the order in
    /// which they came, across processes.
    pub fn kind(mut self, kind: LockKind) -> Self {
        self.literals.options.kind = Some(kind);
        self
    }

    /// Sets how many requests of this process may wait for one lock before others are answered with 503 at
    /// once: see [`LockOptions::max_waiters`](lock_runtime::LockOptions::max_waiters). Default:
    /// 1 024, unless the client's options or its configuration set a number. A smaller number sheds load earlier
    /// and saves memory, also that of [`read_ahead`](Self::read_ahead).
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.literals.options.max_waiters = Some(max_waiters);
        self
    }

    /// Sets how long one request may hold the lock. A body that is still being sent then is cut off; a handler
    /// that still runs loses its lock one lease later and is dropped. Default: no limit for handlers, and
    /// [`max_body_hold`](Self::max_body_hold) for bodies, whose default this replaces.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.literals.options.max_hold = Some(max_hold);
        self
    }

    /// Sets how long a body may hold the lock while it is sent, counted from the head of the response. The body
    /// is then cut off, and the lock released. Default: 30 s, or [`max_hold`](Self::max_hold) if that is set. A
    /// longer time lets slow readers and long streams go on, a shorter one admits other requests sooner;
    /// [`Duration::MAX`] is no limit.
    pub fn max_body_hold(mut self, max_body_hold: Duration) -> Self {
        self.literals.http.max_body_hold = Some(max_body_hold);
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
        self.policies = Policies::One(name.into());
        self
    }

    /// Follows the `[[lock.routes]]` of the client's configuration at the time of each request; requests that
    /// match none of them run without a lock. See [`LockLayer::routes`](crate::LockLayer::routes).
    ///
    /// The [module documentation](crate::http#routes) says how these routes relate to the router's. If the layer
    /// cannot follow a new configuration, it logs an error and keeps the client's previous one.
    pub fn routes(mut self) -> Self {
        self.policies = Policies::Routes;
        self
    }
}

/// When the lock is released, and what is answered.
impl HttpLockLayerBuilder {
    /// Sets when the lock is released. Default: [`HoldUntil::Auto`], with the answer if its body is complete in
    /// memory, otherwise when the body ends. Set `Response` if streams need no lock, and `Body` if a complete
    /// body must be sent first too, apart from what is in buffers.
    pub fn hold(mut self, hold: HoldUntil) -> Self {
        self.literals.http.hold = Some(hold);
        self
    }

    /// Sets whether a handler whose client has left runs to its end, in a task of its own, under its lock. Task-locals
    /// of outer layers are not in that task. Default: no, the handler is dropped. A request that still waits for the lock
    /// and a body that is being sent are dropped in both cases.
    pub fn finish_on_disconnect(mut self, finishes: bool) -> Self {
        let on_disconnect = if finishes { OnDisconnect::Finish } else { OnDisconnect::Cancel };
        self.literals.http.on_disconnect = Some(on_disconnect);
        self
    }

    /// Sets how long a finished response waits for the store to confirm the release. Default: 250 ms.
    ///
    /// If the store is slow, a longer timeout keeps a sequential client from finding its own lock busy, and a
    /// shorter one answers sooner. The release goes on in the background in both cases.
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.literals.http.release_timeout = Some(release_timeout);
        self
    }

    /// Sets the status for a request that finds the lock busy and does not wait. Default: 409. Set 423 (`LOCKED`) if
    /// clients know about the lock, 503 if they handle only that, and 429 if the key names the caller; 429 is then also
    /// the answer after a wait. [`build`](Self::build) refuses any other status.
    pub fn busy(mut self, status: StatusCode) -> Self {
        self.literals.http.busy = Some(status);
        self
    }

    /// Sets how refusals are answered. Default: [`LockResponse::into_http`](crate::LockResponse::into_http).
    pub fn responder(mut self, responder: impl RefusalResponder) -> Self {
        self.responder = Some(Arc::new(responder));
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
    /// All waiting requests of a layer keep 16 MiB together; past that, others wait unread. With 0 no body is read
    /// before its handler reads it.
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes;
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
        self.bodies.add(move |read| rebuild(Box::pin(read)));
        self
    }
}
