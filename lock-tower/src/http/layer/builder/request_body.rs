//! How much of request bodies is read while their requests wait, and of which types.

use http_body::Body;

use super::HttpLockLayerBuilder;
use crate::http::request::read_ahead::{BoxError, ReadAheadBody};

/// What is read while a request waits.
impl HttpLockLayerBuilder {
    /// How much of a request's body is read while the request waits for its lock, in bytes; up to one frame
    /// more is kept, and each frame counts with some bytes of its own. Default: 64 KiB. The request of a
    /// client that leaves is given up if all of its body could be read: see the
    /// [module documentation](crate::http#clients-that-leave).
    ///
    /// More covers larger bodies, at the price of memory for each waiting request. With 0 no body is read
    /// before its handler asks for it.
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes;
        self
    }

    /// How much the waiting requests of this layer read together beyond what [`read_ahead`](Self::read_ahead)
    /// gives each, in bytes: 1 MiB every 200 ms for a request, and 16 MiB at most. The end of a client's
    /// connection is behind all that it has sent, so this is what shows that a client has left in the middle
    /// of a large upload. Default: 64 MiB. With 0 a client that has sent more than `read_ahead` is noticed
    /// once its handler reads.
    pub fn read_ahead_pool(mut self, bytes: usize) -> Self {
        self.read_ahead_pool = bytes;
        self
    }

    /// Has bodies of type `B` read while their requests wait. `rebuild` makes such a body of what was read
    /// and of the rest; without a wait it is not called.
    ///
    /// With the feature `axum` the layer knows `axum::body::Body`. Other types have to be named here, and
    /// should be ones that can hold any body, such as those of `http-body-util`. A body of a type that is not
    /// known is not read, and a client of HTTP/1.1 that leaves is noticed only once its handler reads.
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
        rebuild: impl Fn(ReadAheadBody<B>) -> B + Send + Sync + 'static,
    ) -> Self
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        self.bodies.add(rebuild);
        self
    }
}
