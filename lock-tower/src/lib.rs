//! A tower layer that runs each request under a distributed lock.
//!
//! [`LockLayer::new`] wraps any [`Service`](tower_service::Service) and acquires the lock whose key a function
//! derives from the request. [`LockLayer::http`] wraps an HTTP service, makes its keys from templates over the
//! request, and answers refusals as responses, so that the service's error type does not change. Both share one
//! engine over [`lock-runtime`](lock_runtime).
//!
//! # Example
//!
//! Two payments for one order never run at the same time, whichever process they arrive at:
//!
#![cfg_attr(feature = "http", doc = "```")]
#![cfg_attr(not(feature = "http"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use axum::extract::Path;
//! use axum::{Router, routing::post};
//! use lock_runtime::{LockClient, LockOptions};
//! use lock_tower::LockLayer;
//!
//! # fn app(locks: LockClient) -> Result<Router, Box<dyn std::error::Error>> {
//! let layer = LockLayer::http()
//!     .key("order:{path.id:u64}")
//!     .client(locks)
//!     .options(LockOptions::new().wait(Duration::from_secs(2)))
//!     .build()?;
//! let app = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
//! # Ok(app)
//! # }
//!
//! async fn pay(Path(id): Path<u64>) -> String {
//!     // No other request, of any process, handles this order now. An annotated function that locks
//!     // `order:{id}` re-enters this hold.
//!     format!("paid {id}")
//! }
//! ```
//!
//! # What it promises
//!
//! - By default every wait at an HTTP layer ends: a request waits 10 s, at most 1 024 requests of a process wait for
//!   a lock, and a body holds its lock for 30 s while it is sent, or until a `max_hold`. The [options](http#options) change each. A
//!   generic [`LockLayer::new`] waits as its client's options say.
//! - The lock is acquired before the handler reads the request's body. While a request waits, the layer reads at
//!   most 64 KiB of its body, 16 MiB for all waiting requests, and passes it on unchanged; the body of a request that
//!   is refused at once is not read.
//! - If a client leaves while its request waits, the request leaves the queue and its handler never runs: within
//!   100 ms, if everything that the client has sent is read. The layer does not notice this in a few cases: see
//!   [clients that leave](http#clients-that-leave).
//! - The handler is dropped when the hold is lost; it never runs at the same time as the next holder.
//! - The lock is free when the answer has been sent: the release ends before the client can see the end of the
//!   response, unless the store does not answer within [`release_timeout`](LockLayer::release_timeout). A client
//!   that sends one request after another never finds its own lock busy.
//! - A body that is produced while it is sent, such as server-sent events, holds the lock to its end, for 30 s at
//!   most by default, or until a `max_hold`. If the hold is lost on the way, the connection breaks: a part never looks like the whole.
//! - If a handler panics, its lock is released before the panic goes on, so that the 500 finds the lock free.
//! - If a timeout around the layer drops the request, or the client hangs up, the lock is released in the
//!   background, within a round trip.
//! - A failing lock never lets a handler run without it: if Redis is down, the answer is 503.
//! - A lock that the handler acquires under the same name with the same client is re-entry: it costs no round trip
//!   and never waits for the layer's own hold. Concurrent calls inside a handler exclude each other.
//! - If a handler blocks its thread past its lease, its answer is dropped, and the client gets a 500.
//!
//! In the handler, [`HeldLock`] has the fencing token and the rest of the lease, and releases the lock early. Below
//! several layers it is the innermost layer's lock, or none.
//!
//! # Where to put it
//!
//! ```text
//!   tracing, metrics, CORS       see the wait and the layer's answers, and add their headers to them
//!   └─ panics become answers     the lock is free before the 500 is sent
//!      └─ rate limits            limit how many keys a client can use
//!         └─ authentication      only authenticated clients wait, or make others wait
//!            └─ routing          knows the path parameters
//!               └─ LockLayer     has its own timeout for the wait
//!                  └─ timeout of the handler, concurrency limits
//!                     └─ retries, transactions    the commit comes before the release
//!                        └─ the handler
//! ```
//!
//! With axum, use `Router::route_layer`, which does not wrap paths that match no route. Call it after the routes and
//! before the layers that go around it: the layer that is added last is the outermost. In a `ServiceBuilder` it is the
//! layer that is added first:
//!
//! | | axum | `ServiceBuilder` |
//! |---|---|---|
//! | outermost | `.route_layer(handler_timeout).route_layer(lock).layer(tracing)` | `.layer(tracing).layer(lock).layer(handler_timeout)` |
//! | readiness | a route asks its inner layers when it is called, under the lock | `poll_ready` asks all layers before the wait |
//!
//! - **Concurrency limits** (`tower::limit`, load shedding) belong inside. Outside, each request that waits for its
//!   lock keeps a permit: with a limit of four, four requests for one busy order make the layer refuse a request
//!   for another order with 503. A route of axum asks for the permit when it is called, which is when the lock is
//!   held; a limit that a `ServiceBuilder` puts directly below the layer takes the permit in `poll_ready`, before
//!   the wait. In axum, use tower's `Global` limit: the other one may be created anew for each request. Waiters
//!   have a limit of their own, `max_waiters`.
//! - **Layers that add headers to every answer**, such as CORS, belong outside. Otherwise a browser reports a failed
//!   request to a script of another origin instead of a 409.
//! - **Timeouts of handlers** belong inside: their answers are then sent after the release, as all answers are. A
//!   timeout around the layer drops the layer's future, and a dropped future cannot wait. Its release is then sent
//!   at once, but the answer does not wait for it: the next request finds the lock free in the same process, and
//!   may find it busy, for about a round trip, in another process. The wait needs no timeout: `wait` bounds it.
//! - **Retries** belong inside, where they repeat the call under one hold. Outside, each attempt queues anew, so a request
//!   may wait `wait` times the number of attempts. **Hedged requests** belong inside as well: outside, the second attempt
//!   waits for the first one's lock.
//! - **Layers that answer panics** may be anywhere. The layer catches a panic of the handler or of its response's
//!   body, releases the lock, waits for the release no longer than
//!   [`release_timeout`](LockLayer::release_timeout), and resumes the panic. With `panic = "abort"` the process
//!   ends, and the lock ends with its lease.
//! - **A proxy** has to report that its client has left: nginx closes its connection when its client leaves and when
//!   `proxy_read_timeout` ends, unless `proxy_ignore_client_abort` is on. An outer layer that reads the whole body
//!   first covers bodies of any size.
//! - **Locks of two kinds need two names.** A layer with `safe_methods = "shared"` acquires a read/write lock. A mutex
//!   of the same name, in the handler or in another service, is another kind of lock: the second one fails at once
//!   with [`KeyCollision`](lock_runtime::LockError::KeyCollision), which the layer answers with 500. A handler that
//!   locks the layer's name again acquires the same side of the read/write lock.
//!
//! # How it differs from its neighbours
//!
//! - **`#[distributed_lock]`** holds the lock for one function and reports errors in its return type. Use it if the
//!   key is in the request's body, or if only part of the handler needs the lock. The layer holds the lock for the
//!   whole handler, its extractors included, and answers in HTTP. You can use both at once.
//! - **`tower::limit::ConcurrencyLimit`** counts calls in one process, whatever their requests are. It acquires its
//!   permit in `poll_ready`; a lock cannot, because its key is in the request.
//! - **Rate limiters** limit how often calls run; a lock lets one run at a time.
//! - **Idempotency keys** store the answer. A lock does not: the second of two equal requests runs too, after the
//!   first.
//!
//! A lease does not protect against a process that is paused past the lease's end. If that matters, write with a
//! [fencing token](lock_runtime::FencingToken).
//!
//! # Features
//!
//! - `http` (default): [`LockLayer::http`] and the module [`http`].
//! - `axum-08`: `{path.…}` and `{route}` in key templates come from axum's router; without the feature, set the route
//!   on the builder. [`HeldLock`] is an extractor, and [`LockResponse`] implements `IntoResponse`.
//! - `redis`: [`HeldLock::redis`], for Redis commands that run only while the hold of the call owns its lock.
//! - `tonic-014`: converts a [`LockResponse`], or a [`LockError`](lock_runtime::LockError) of a handler that
//!   locks by itself, into a `tonic::Status` ([`status_of`](http::status_of)). The
//!   layer itself answers gRPC without it.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation is written for all features.
#![cfg_attr(
    not(all(feature = "http", feature = "redis", feature = "tonic-014")),
    allow(rustdoc::broken_intra_doc_links)
)]

mod error;
#[cfg(feature = "axum-08")]
mod extract;
mod future;
mod held;
#[cfg(feature = "http")]
pub mod http;
mod layer;
mod locked;
mod service;

pub use error::LockServiceError;
#[cfg(feature = "axum-08")]
pub use extract::HeldLockRejection;
pub use future::LockFuture;
pub use held::HeldLock;
#[cfg(feature = "http")]
pub use http::{HttpLockLayer, HttpLockLayerBuilder, LockBody, LockResponse};
pub use layer::LockLayer;
pub use service::LockService;

/// The examples of the README.
#[cfg(all(doctest, feature = "axum-08"))]
#[doc = include_str!("../README.md")]
mod readme {}
