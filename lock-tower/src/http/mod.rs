//! Locks around HTTP requests: keys from the request, and responses where the lock has its say.
//!
//! [`LockLayer::http`](crate::LockLayer::http) starts the builder of a layer for any
//! `Service<http::Request<B>>` that can be cloned and answers with an `http::Response`. Its error
//! stays the inner service's, so that it fits where an error is not allowed, as in an axum router.
//!
//! # Example
//!
//! Without a router, the layer is told the route that its key refers to:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use std::convert::Infallible;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use lock_runtime::{LockClient, LockOptions, Wait};
//! use lock_tower::LockLayer;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! let locks = LockClient::in_memory();
//! let layer = LockLayer::http()
//!     .key("order:{path.id}")
//!     .route("/orders/{id}/pay")
//!     .client(locks.clone())
//!     .options(LockOptions::builder().wait(Wait::Never).build()?)
//!     .build()?;
//! let service = ServiceBuilder::new().layer(layer).service(service_fn(pay));
//!
//! let request = || Request::post("/orders/42/pay").body(Full::default());
//! let paid = service.clone().oneshot(request()?).await?;
//! assert_eq!(paid.status(), StatusCode::OK);
//!
//! let somebody_else = locks.mutex("order:42").lock().await?;
//! let refused = service.oneshot(request()?).await?;
//! assert_eq!(refused.status(), StatusCode::CONFLICT);
//! # drop(somebody_else);
//! # async fn pay(_: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
//! #     Ok(Response::new(Full::from("paid")))
//! # }
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Answers
//!
//! | what happened | status | `type` |
//! |---|---|---|
//! | somebody else has the lock, and the layer was not to wait | 409 | `/problems/lock-busy` |
//! | it waited, and the lock is still held | 503 | `/problems/lock-timeout` |
//! | too many requests wait for the lock already | 503 | `/problems/lock-overloaded` |
//! | the store cannot be reached or fails, or the client is shut down | 503 | `/problems/lock-unavailable` |
//! | the request lacks what its key is made of | 400 | `/problems/lock-key-missing` |
//! | what the key is made of is malformed, or the key too long | 400 | `/problems/lock-key-invalid` |
//! | the hold was lost before the handler was done | 500 | `/problems/lock-lost` |
//! | there is no client, or the layer is in the wrong place | 500 | `/problems/lock-misconfigured` |
//!
//! They are problem details (RFC 9457) and never cached:
//!
//! ```text
//! HTTP/1.1 409 Conflict
//! Content-Type: application/problem+json
//! Retry-After: 1
//! Cache-Control: no-store
//!
//! {"type":"/problems/lock-busy","title":"Another request holds this resource","status":409,"executed":false}
//! ```
//!
//! `"executed":false` says that the handler has not run, so that the request can be sent again as it
//! is, whatever its method. After a loss it is left out: the handler was cut off, and how far it
//! came is not known. That is also why the status is 500, and not one that proxies repeat.
//!
//! `Retry-After`, with 409 and 503, is how long this layer's requests hold their locks on average, or
//! what is left of the holder's lease if that is fixed; whole seconds, at least one, and up to a
//! quarter more at random. No answer shows the key, the owner or a token. The log does, as `tracing`
//! events: at `error` for what an operator has to mend, `warn` for what passes, `debug` for the rest.

mod body;
mod builder;
mod future;
mod grpc;
mod held_body;
mod key;
mod layer;
mod peek;
mod plan;
mod refusal;
mod responder;
mod retry;
mod route;
mod service;
mod serving;
mod template;

pub use body::{LockBody, LockBodyError};
pub use builder::{BuildError, HttpLockLayerBuilder};
pub use future::HttpLockFuture;
pub use key::{KeyError, KeyExtractor};
pub use layer::HttpLockLayer;
pub use lock_runtime::policy::{
    BusyStatus, HoldUntil, OnDisconnect, OnMissingKey as OnMissing, SafeMethods,
};
pub use refusal::{Refusal, RefusalKind};
pub use responder::{BusyResponder, ProblemDetails};
pub use service::{HttpLockService, RequestDeadline};
