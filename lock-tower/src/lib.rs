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
//! - Without options every wait at an HTTP layer ends: a request waits 10 s, at most 1 024 requests line up for a
//!   lock in a process, and a body holds its lock for 5 min while it is sent. The [options](http#options) change
//!   each. A generic [`LockLayer::new`] waits as its client's options say.
//! - The lock is taken before the handler reads the request's body. Of a request that waits, at most
//!   64 KiB are read at once, and more slowly, and handed on unchanged; an upload that is not to wait is
//!   refused unread.
//! - The request of a client that leaves while it waits is given up, within 100 ms if all that it has sent is
//!   read: it leaves the line, and its handler never runs. A few cases go unnoticed: see
//!   [clients that leave](http#clients-that-leave).
//! - The handler is dropped at the moment the hold is lost; it never runs on beside a successor.
//! - When the answer is out, the lock is free: the release is over before the client can see the end
//!   of the response, unless the store does not answer for
//!   [`release_timeout`](LockLayer::release_timeout). A client that sends one request after another
//!   never finds its own lock busy.
//! - A body that is produced while it is sent, as server-sent events are, keeps the lock to its end, for 5 min at
//!   most unless told otherwise. If
//!   the hold is lost on the way, the connection breaks: a part never looks like the whole.
//! - A handler that panics has its lock released before the panic goes on, so that the 500 finds it free.
//! - A time-out around the layer, a client that hangs up: the lock is given back in the background, within a
//!   round trip.
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
//!   tracing, metrics, CORS       see the wait and the layer's answers, and add their headers to them
//!   └─ panics become answers     the lock is free before the 500 goes out
//!      └─ rate limits            who may choose keys, and how many of them
//!         └─ authentication      only authenticated clients wait, or make others wait
//!            └─ routing          knows the path parameters
//!               └─ LockLayer     has a time-out of its own for the wait
//!                  └─ time-out of the handler, limits of concurrency
//!                     └─ retries, transactions    the commit comes before the release
//!                        └─ the handler
//! ```
//!
//! With axum that is `Router::route_layer`, which leaves paths alone that match no route, after the
//! routes and before the layers that go around it: the layer that is added last is the outermost.
//!
//! - **Limits of concurrency** (`tower::limit`, load shedding) belong inside. Outside, each request that waits
//!   for its lock keeps a permit: with a limit of four, four requests for one busy order have a request for
//!   another order refused with 503. A route of axum asks for the permit when it is called, which is when the
//!   lock is held; a limit that a `ServiceBuilder` puts directly below the layer gives it in `poll_ready`,
//!   before the wait. In axum take the `Global` one of tower's limits: the other may be made anew for each
//!   request. Waiters have a limit of their own, `max_waiters`.
//! - **What adds headers to every answer**, as CORS does, belongs outside, or a browser shows the script of
//!   another origin a failed request in place of a 409.
//! - **Time-outs of handlers** belong inside: what they answer goes out after the release, as every answer
//!   does. Around the layer, a time-out drops the layer's future, and a future that is dropped can wait for
//!   nothing. Its release is sent at once then, but the answer does not wait for it: the next request finds the
//!   lock free in the same process, and may find it busy, for about a round trip, in another one. For the wait
//!   there is no need of a time-out: `wait` bounds it.
//! - **What makes answers of panics** may be anywhere. The layer catches a panic of the handler, or of its
//!   response's body, releases the lock, for which it waits no longer than
//!   [`release_timeout`](LockLayer::release_timeout), and lets the panic go on. With `panic = "abort"` the
//!   process ends, and the lock with its lease.
//! - **A proxy** has to pass a client's departure on: nginx closes its connection when its client leaves and
//!   when `proxy_read_timeout` ends, unless `proxy_ignore_client_abort` is on. A layer further out that reads the
//!   whole body before it goes on covers bodies of any size.
//! - **Locks of two kinds need two names.** A layer with `safe_methods = "shared"` takes a read/write lock. A mutex
//!   of the same name, in the handler or in another service, is another kind of lock: whichever comes second
//!   fails at once with [`KeyCollision`](lock_runtime::LockError::KeyCollision), which the layer answers with 500.
//!   A handler that locks the layer's name again takes the same side of the read/write lock.
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
