//! Locks around HTTP requests: keys from the request, and responses where the lock has its say.
//!
//! [`LockLayer::http`](crate::LockLayer::http) starts the builder of a layer for any
//! `Service<http::Request<B>>` that can be cloned and sent, and answers with an `http::Response`. Its error
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
//! # Keys
//!
//! | in a template | is |
//! |---|---|
//! | `{path.id}` | a parameter of the route: the router's, with the feature `axum`, or [`route`]'s |
//! | `{route}` | the route as it is written: one lock for all its requests |
//! | `{method}` | the method |
//! | `{query.q}` | a query parameter, decoded |
//! | `{header.x-tenant}` | a header |
//! | `{ext.tenant}` | a request extension that [`extension`] has named |
//!
//! In a key `{method}` is GET for a HEAD request where GET locks as well.
//!
//! Where clients choose the keys, as with a header, each new name costs the store 100 to 200 bytes for its
//! fencing counter, for a day: make it less with `LockClientBuilder::token_ttl` or `token_ttl` in `[lock]`, an hour
//! at least, and limit how often a client may send requests, further out, for example with the crate
//! `tower_governor`. Add who the client is to the key, by `{ext.…}`, so that clients cannot lock each other out.
//!
//! What a template cannot say, a closure ([`key_fn`]) or a [`KeyExtractor`] can. A template that names
//! what does not exist is an error when the layer is built.
//!
//! # Options
//!
//! | option | default | change it |
//! |---|---|---|
//! | [`wait`] | 10 s | to refuse sooner or later; [`Wait::Never`] answers 409 at once, [`Wait::Forever`] never |
//! | [`max_waiters`] | 1 024 for each lock and process | to shed a crowd earlier, or keep a larger one |
//! | [`read_ahead`], [`read_ahead_pool`] | 64 KiB for each request that waits; 64 MiB more for all, until handlers have read it | to notice more clients that leave, or to save memory |
//! | [`request_body`] | axum's `Body` | for services without axum |
//! | [`kind`] | a mutex | `Fair` for first come, first served, across processes |
//! | [`methods`], [`all_methods_but`], [`all_methods`] | all but GET, HEAD, OPTIONS, TRACE | where others only read, or some of these write |
//! | [`safe_methods`] | GET and HEAD pass | `Shared`, to read nothing that is half written |
//! | [`on_missing`] | 400 | `Skip`, where a key is the client's choice, as an idempotency key |
//! | [`busy`] | 409 | 423 for locks that clients know of, 429 where the key is who asks, 503 |
//! | [`hold`] | `Auto` | `Response` for streams that need no lock, `Body` to hold every body |
//! | [`max_body_hold`] | 5 min | shorter ends what a slow reader keeps, longer lets streams go on |
//! | [`max_hold`] | none | to limit handlers, too |
//! | [`on_disconnect`] | `Cancel` | `Finish`, for handlers that must not stop half way |
//! | [`release_timeout`] | 250 ms | longer for a slow store, shorter for quick answers |
//! | [`responder`] | [`ProblemDetails`] | for an error shape of your own |
//! | [`settings`], [`options`] | the client's | leases and all else about the lock |
//! | [`policy`], [`routes`] | none | to have the configuration say all this, with reload |
//! | [`held_extension`] | no | for handlers in other tasks that want their [`HeldLock`](crate::HeldLock) |
//!
//! In a configuration these are `wait`, `max_waiters` and `max_hold` of a policy or of `[lock.defaults]`, and
//! `http = { methods = "all but GET, OPTIONS", max_body_hold = "1h", … }` of a policy; `wait = "forever"` and
//! `max_body_hold = "unlimited"` have no end. A wait and a number of waiters that are set for the client, as its
//! options or in `[lock.defaults]`, count in place of the layer's defaults.
//!
//! A request that has its own deadline, as a [`RequestDeadline`] or gRPC's `grpc-timeout`, waits no
//! longer than that.
//!
//! # Clients that leave
//!
//! A server drops the request of a client that has left; the request then leaves the line, and its handler
//! never runs. But a server of HTTP/1.1 reads the connection only as far as the request's body is polled, and
//! what it does not read it does not notice. So while a request waits, the layer reads its body: 64 KiB at once
//! ([`read_ahead`]), and then up to 1 MiB every 200 ms, 16 MiB at most, out of the 64 MiB that all waiting
//! requests of a layer share ([`read_ahead_pool`]). The end of a connection comes behind everything that the
//! client has sent, so in the middle of an upload it is noticed when the buffers of both systems are read, most
//! often within 200 ms. The handler gets these bytes, trailers and errors unchanged, and then the rest.
//! The first 20 ms of a wait leave the body alone: a request whose lock is free or that is refused at once is
//! handed on, or refused, unread.
//!
//! | the client leaves while its request waits | |
//! |---|---|
//! | its body was read, or it has none | given up within 100 ms |
//! | before it has sent the whole body | given up; a client that still reads is answered with 400 |
//! | over HTTP/2, as gRPC clients do | given up, whatever its body |
//! | it has sent more than is read, or the shared bytes are used up | **unnoticed**: the handler runs in its turn, and finds the body cut off if the rest was still on its way |
//! | it has sent its next request already (HTTP/1.1 pipelining) | **unnoticed**: hyper reads no further before the first answer |
//! | it closes only its sending half | given up: hyper takes it for gone, unless its server is told `half_close` |
//!
//! Where uploads are larger and a departed client's handler must not run, raise [`read_ahead`], or have the
//! handler read the body before its first write.
//!
//! A server answers `Expect: 100-continue` when the body is first polled. So a client that waits is asked for
//! its body after 20 ms, and may still be refused when the wait is over. Limits such as axum's
//! `DefaultBodyLimit` count as they do without a wait.
//!
//! What tells of the client is an error of the body, wherever it comes from: one of another layer's body, for
//! example a decoder's, that has an [`io::Error`](std::io::Error) of kind `UnexpectedEof` or `ConnectionReset`
//! (or of another that says that a connection is gone) in it counts as an upload that broke off, while the
//! request waits. Any other error is the handler's, a `TimedOut` too.
//!
//! axum's body can be read ahead; other types have to be named with [`request_body`], and are left alone
//! otherwise. [`on_disconnect`] is about handlers that have their lock already: a request that waits is given
//! up in any case.
//!
//! # When the lock is let go
//!
//! With [`HoldUntil::Auto`], when the handler returns, if the body of its response is all there: at its
//! end already, or so after the one or two frames that can be taken out of it without waiting, as with
//! text, JSON and unary gRPC. A known length alone does not count: that of a proxied body is known while
//! it is still on its way. Any other body is held: polled inside the hold as the handler was, until it
//! ends, fails or is dropped. Answers that have no body (to HEAD, and 101, 204, 304) are never held.
//!
//! Either way the release is over before the client can see the end of the answer, unless the store
//! takes longer than [`release_timeout`]: the last frame, or the end, is kept back for it.
//!
//! With [`HoldUntil::Body`] also a body that is there is held until it has been sent, to within what the server
//! and the systems of both sides have in their buffers. A large frame goes out in pieces of 64 KiB for that,
//! since a server takes a frame of any size at once; the last piece goes out when the lock is free.
//!
//! If the hold is lost while the body is sent, or the body is not sent within [`max_body_hold`] or
//! [`max_hold`], or it panics, or the grace of [`shutdown`] is over, it ends with a [`LockBodyError`]; a server
//! then cuts the HTTP/1.1 connection or resets the HTTP/2 stream, so that no client takes a part for the whole.
//! The lock is given back then also if the server does not poll the body, because the client does not read. A
//! fixed lease, which cannot have a `max_hold`, ends it as well.
//!
//! Bodies are not boxed: [`LockBody`] has the inner one as it is, which has to be `Unpin` for that. A
//! body that is held costs a few allocations, any other none.
//!
//! # Upgraded connections
//!
//! The connection of a web socket is not part of the request: whatever [`hold`] says, the lock is free when
//! the client has the 101. It has protected the handler that gave that answer, and nothing that is said over
//! the connection, nor does its loss end the connection. What has to be alone there takes a lock of its own,
//! in the task that has the connection, for as long as a message takes:
//!
//! ```
//! use lock_runtime::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "room:{room}", wait = "2s")]
//! async fn on_message(room: u64, text: &str) -> Result<(), LockError> {
//!     // No other connection of any process is here for this room.
//!     Ok(())
//! }
//! ```
//!
//! Web sockets begin with a GET, which a layer locks only if [`methods`] names it; over HTTP/2 with CONNECT,
//! which a layer locks unless it is told otherwise.
//!
//! # Policies
//!
//! [`policy`] takes numbers, key and answers from the client's configuration at each request, so that a
//! reload has effect with the next one; what the builder says itself comes first, unless the
//! configuration has `override = "config"`. [`LockLayer::routes`](crate::LockLayer::routes) takes the
//! routes as well, for a whole router; [`routes`] says which of the router's routes they are about. A
//! layer without a client of its own follows, at each request, the configuration of the current one.
//!
//! Where a policy is not enforced (`enforce = 0`, or the share of calls that it spares), the request runs in
//! any case, and the log says what would have held it up. It takes the lock if it is free; for the store
//! it waits 50 ms at most, and not at all once an answer was overdue, until the store answers again. Its
//! handler may run without the lock, so what it takes should be an `Option` of a
//! [`HeldLock`](crate::HeldLock). What is wrong before there is a policy, such as a missing client, is
//! refused as ever.
//!
//! # Routes
//!
//! A configured route is told by method and path, and of several that fit, the one with the most fixed
//! text from the left. `{id}` is one segment and `{*rest}`, at the end, all that are left, at least one:
//! `/admin/{*rest}` is every path below `/admin`, and not `/admin` itself. Of two routes that match the same
//! paths the first one that locks the method is taken; a later one that it leaves nothing is an error when the
//! configuration is loaded. Fixed text is compared
//! decoded. A thousand routes cost a request no more than a few.
//!
//! Where axum's router has matched, nested or not, a route has to speak of the router's as well:
//!
//! | configured | the router has | |
//! |---|---|---|
//! | `/orders/{id}` | `/orders/{order}` | locked: names do not matter |
//! | `/orders/mine` | `/orders/{id}` | locked: a part of the router's route |
//! | `/files/{dir}/{file}` | `/files/{*path}` | locked, likewise |
//! | `/admin/{*rest}` | `/admin/users/{id}` | locked: all that is below |
//! | `/orders/{id}` | `/orders/special` | **not locked**: the router tells it apart from orders |
//! | `/orders/{id}` | `/orders/{id}/` | **not locked**: a slash at the end is another path |
//!
//! If a request is not locked because of the last line but one, and by no other route, the log has a
//! warning with both patterns, once for each two of them (and for 1024 at most): list `/orders/special`
//! as well if it is to be locked. Where no router has matched, as in a fallback, the path decides.
//!
//! # Answers
//!
//! | what happened | status | `type` |
//! |---|---|---|
//! | somebody else has the lock, and the layer was not to wait | 409 | `/problems/lock-busy` |
//! | it waited, and the lock is still held | 503 | `/problems/lock-timeout` |
//! | the request's own deadline came first | 503 | `/problems/lock-deadline` |
//! | too many requests wait for the lock already | 503 | `/problems/lock-overloaded` |
//! | the store cannot be reached or fails, or the client is shut down | 503 | `/problems/lock-unavailable` |
//! | the request lacks what its key is made of | 400 | `/problems/lock-key-missing` |
//! | what the key is made of is malformed, or the key too long | 400 | `/problems/lock-key-invalid` |
//! | the client left before its body was complete, while it waited | 400 | `/problems/lock-body-incomplete` |
//! | the hold was lost before the handler was done | 500 | `/problems/lock-lost` |
//! | there is no client, no such policy, or the layer is in the wrong place | 500 | `/problems/lock-misconfigured` |
//! | the hold was lost while the body was sent | | the connection breaks |
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
//!
//! [`busy`] changes the 409, to 429 the 503 of those who waited as well. A [`RefusalResponder`] changes
//! everything: it is given a [`Refusal`], which has the kind, the status and when to come back.
//!
//! Requests whose content type is gRPC's get trailers only, `grpc-status` and `grpc-message`:
//!
//! | what happened | code |
//! |---|---|
//! | busy | 10 `ABORTED`; as 423, 9 `FAILED_PRECONDITION`; as 503, 14 `UNAVAILABLE` |
//! | as 429 | 8 `RESOURCE_EXHAUSTED` |
//! | waited, too many waiters, no store | 14 `UNAVAILABLE` |
//! | the request's own deadline | 4 `DEADLINE_EXCEEDED` |
//! | key missing or invalid | 3 `INVALID_ARGUMENT` |
//! | the client left before its body was complete | 1 `CANCELLED` |
//! | lost | 13 `INTERNAL`, and not `ABORTED`, which says that it can be tried again |
//! | misconfigured | 13 `INTERNAL` |
//! | the hold was lost while messages were sent | the stream is reset, which clients see as 13 `INTERNAL` |
//!
//! `grpc-retry-pushback-ms` is their `Retry-After`. The layer goes around a tonic server as around any other:
//!
//! ```
//! # fn routes(orders: tonic::service::Routes) -> Result<(), Box<dyn std::error::Error>> {
//! let layer = lock_tower::LockLayer::http().key("order:{header.x-order}").build()?;
//! // As with `tonic::transport::Server::builder().layer(layer).add_service(orders)`.
//! let app = orders.into_axum_router().layer(layer);
//! # let _ = app;
//! # Ok(())
//! # }
//! ```
//!
//! A tonic server that is told of a deadline by `grpc-timeout` has a timer of its own around its layers, and
//! tonic's channel has one too; these say `CANCELLED`, and whichever is first, the request waits no longer.
//! What is to be locked is in the message and not in the metadata? Then the handler locks by itself, and with
//! the feature `tonic` answers as the layer would: [`status_of`], [`LockStatus`].
//!
//! [`extension`]: HttpLockLayerBuilder::extension
//! [`key_fn`]: HttpLockLayerBuilder::key_fn
//! [`route`]: HttpLockLayerBuilder::route
//! [`wait`]: HttpLockLayerBuilder::wait
//! [`max_waiters`]: HttpLockLayerBuilder::max_waiters
//! [`kind`]: HttpLockLayerBuilder::kind
//! [`max_body_hold`]: HttpLockLayerBuilder::max_body_hold
//! [`shutdown`]: lock_runtime::LockClient::shutdown
//! [`methods`]: HttpLockLayerBuilder::methods
//! [`all_methods`]: HttpLockLayerBuilder::all_methods
//! [`all_methods_but`]: HttpLockLayerBuilder::all_methods_but
//! [`read_ahead_pool`]: HttpLockLayerBuilder::read_ahead_pool
//! [`safe_methods`]: HttpLockLayerBuilder::safe_methods
//! [`on_missing`]: HttpLockLayerBuilder::on_missing
//! [`busy`]: HttpLockLayerBuilder::busy
//! [`hold`]: HttpLockLayerBuilder::hold
//! [`max_hold`]: HttpLockLayerBuilder::max_hold
//! [`on_disconnect`]: HttpLockLayerBuilder::on_disconnect
//! [`release_timeout`]: HttpLockLayerBuilder::release_timeout
//! [`responder`]: HttpLockLayerBuilder::responder
//! [`settings`]: HttpLockLayerBuilder::settings
//! [`options`]: HttpLockLayerBuilder::options
//! [`policy`]: HttpLockLayerBuilder::policy
//! [`routes`]: HttpLockLayerBuilder::routes
//! [`held_extension`]: HttpLockLayerBuilder::held_extension
//! [`read_ahead`]: HttpLockLayerBuilder::read_ahead
//! [`request_body`]: HttpLockLayerBuilder::request_body
//! [`Wait::Never`]: lock_runtime::Wait::Never
//! [`Wait::Forever`]: lock_runtime::Wait::Forever

mod answer {
    pub(crate) mod grpc;
    pub(crate) mod problem;
    pub(crate) mod refusal;
    #[cfg(feature = "tonic")]
    pub(crate) mod status;
}
mod call {
    pub(crate) mod body;
    pub(crate) mod future;
    mod reaper;
    pub(crate) mod service;
    mod serving;
}
mod error;
mod frames;
mod layer;
mod request {
    pub(crate) mod key;
    pub(crate) mod read_ahead;
    pub(crate) mod route;
    pub(crate) mod template;
}

pub use answer::problem::{ProblemDetails, RefusalResponder};
pub use answer::refusal::{Refusal, RefusalKind};
#[cfg(feature = "tonic")]
pub use answer::status::{LockStatus, status_of};
pub use call::body::LockBody;
pub use call::future::HttpLockFuture;
pub use call::service::{HttpLockService, RequestDeadline};
pub use error::{BuildError, KeyError, LockBodyError};
pub use layer::HttpLockLayer;
pub use layer::builder::HttpLockLayerBuilder;
pub use lock_runtime::policy::{
    BusyStatus, HoldUntil, Methods, OnDisconnect, OnMissingKey, SafeMethods,
};
pub use request::key::KeyExtractor;
pub use request::read_ahead::ReadAheadBody;
