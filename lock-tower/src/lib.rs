//! A tower layer that runs each request under a distributed lock.
//!
//! [`LockLayer::new`] wraps any [`Service`](tower_service::Service) and takes the lock that a
//! function derives from the request. [`LockLayer::http`] wraps an HTTP service, takes its keys from
//! templates over the request, and turns whatever the lock has to say into responses, so that the
//! service's error type stays what it was. Both are one engine over
//! [`lock-runtime`](lock_runtime).
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
//!     .key("order:{path.id}")
//!     .client(locks)
//!     .options(LockOptions::builder().wait(Duration::from_secs(2)).build()?)
//!     .build()?;
//! let app = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
//! # Ok(app)
//! # }
//!
//! async fn pay(Path(id): Path<u64>) -> String {
//!     // Nobody else is here for this order, and an annotated function that locks
//!     // `order:{id}` runs on as part of this hold.
//!     format!("paid {id}")
//! }
//! ```
//!
//! # What it promises
//!
//! - The lock is taken before the handler reads the request's body. Of a request that waits, at most
//!   64 KiB are read meanwhile, and handed on unchanged; an upload that is not to wait is refused unread.
//! - The request of a client that leaves while it waits is given up within 100 ms: it leaves the line, and
//!   its handler never runs. Two cases go unnoticed, a body larger than those 64 KiB and pipelined requests:
//!   see [clients that leave](http#clients-that-leave).
//! - The handler is dropped at the moment the hold is lost; it never runs on beside a successor.
//! - When the answer is out, the lock is free: the release is over before the client can see the end
//!   of the response, unless the store does not answer for
//!   [`release_timeout`](LockLayer::release_timeout). A client that sends one request after another
//!   never finds its own lock busy.
//! - A body that is produced while it is sent, as server-sent events are, keeps the lock to its end. If
//!   the hold is lost on the way, the connection breaks: a part never looks like the whole.
//! - A handler that panics, a time-out around it, a client that hangs up: the lock is given back in
//!   the background, within a round trip.
//! - Nothing runs without its lock because the lock failed. Redis down means 503.
//! - A lock that the handler takes under the same name with the same client is re-entry: no round
//!   trip, and no waiting for oneself. Calls side by side inside of a handler exclude each other.
//! - A handler that blocks past its lease has its answer dropped, and is answered with 500.
//!
//! In the handler, [`HeldLock`] has the fencing token and what is left of the lease, and gives the lock
//! back early. Under several layers it is the innermost one's, or none.
//!
//! # Where to put it
//!
//! ```text
//!   tracing, metrics             see the wait, and the answers of the lock
//!   └─ time-out                  ends a wait or a handler; either way the lock is given back
//!      └─ limits, load shedding  further in, a request that waits for its lock would keep a permit
//!         └─ authentication      nobody waits, or makes others wait, who may not be here
//!            └─ routing          knows the path parameters
//!               └─ LockLayer
//!                  └─ retries, transactions    the commit comes before the lock is let go
//!                     └─ the handler
//! ```
//!
//! A request that waits keeps its place for as long as its client is there. A proxy in front has to pass a
//! departure on: nginx closes its connection when its client leaves and when `proxy_read_timeout` ends, unless
//! `proxy_ignore_client_abort` is on. A layer further out that reads the whole body before it goes on covers
//! bodies of any size.
//!
//! With axum that is `Router::route_layer`, which leaves paths alone that match no route, after the
//! routes and before the layers that go around it: the layer that is added last is the outermost.
//!
//! # How it differs from its neighbours
//!
//! - **`#[distributed_lock]`** holds the lock for one function and reports in its return type. Take
//!   it where the key is in the request's body, or where only part of the handler needs the lock.
//!   The layer holds it for the whole handler, its extractors included, and answers in HTTP. Both at
//!   once are fine.
//! - **`tower::limit::ConcurrencyLimit`** counts calls in one process, whatever they are about. It
//!   takes its permit in `poll_ready`; a lock cannot, because what to lock is in the request.
//! - **Rate limiters** say how often; a lock says one at a time.
//! - **Idempotency keys** remember the answer. A lock does not: the second of two equal requests runs
//!   too, after the first.
//!
//! A lease is not proof against a process that is paused past its end. Where that matters, write with
//! a [fencing token](lock_runtime::FencingToken).
//!
//! # Features
//!
//! - `http` (default): [`LockLayer::http`] and the module [`http`].
//! - `axum`: `{path.…}` and `{route}` in key templates ask axum's router; without it the layer is told
//!   its route. [`HeldLock`] is an extractor.
//! - `tonic`: `tonic::Status` of a [`Refusal`](http::Refusal), and of a
//!   [`LockError`](lock_runtime::LockError) in a handler that locks by itself
//!   ([`status_of`](http::status_of), [`LockStatus`](http::LockStatus)). The layer itself speaks gRPC without
//!   it.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation is written for all features.
#![cfg_attr(not(all(feature = "http", feature = "tonic")), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "axum")]
mod axum;
mod error;
mod future;
mod held;
#[cfg(feature = "http")]
pub mod http;
mod layer;
mod locked;
mod service;

pub use error::LockServiceError;
pub use future::LockFuture;
pub use held::HeldLock;
#[cfg(feature = "http")]
pub use http::{HttpLockLayer, HttpLockLayerBuilder, LockBody};
pub use layer::LockLayer;
pub use service::LockService;
