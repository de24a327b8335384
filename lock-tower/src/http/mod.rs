//! Locks around HTTP requests: keys are made from the request, and refusals are answered as responses.
//!
//! [`LockLayer::http`](crate::LockLayer::http) starts the builder of a layer for any
//! `Service<http::Request<B>>` that is `Clone + Send` and answers with an `http::Response`. The error type stays
//! the inner service's, so the layer fits where no error is allowed, as in an axum router.
//!
//! # Example
//!
//! Without a router, tell the layer the route that its key refers to:
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
//!     .key("order:{path.id:u64}")
//!     .route("/orders/{id}/pay")
//!     .client(locks.clone())
//!     .options(LockOptions::new().wait(Wait::None))
//!     .build()?;
//! let service = ServiceBuilder::new().layer(layer).service(service_fn(pay));
//!
//! let request = || Request::post("/orders/42/pay").body(Full::default());
//! let paid = service.clone().oneshot(request()?).await?;
//! assert_eq!(paid.status(), StatusCode::OK);
//!
//! let other_holder = locks.mutex("order:42").lock().await?;
//! let refused = service.oneshot(request()?).await?;
//! assert_eq!(refused.status(), StatusCode::CONFLICT);
//! # drop(other_holder);
//! # async fn pay(_: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
//! #     Ok(Response::new(Full::from("paid")))
//! # }
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Keys
//!
//! | placeholder | value |
//! |---|---|
//! | `{path.id}` | a parameter of the route: of the router's with the feature `axum-08`, or of [`route`] |
//! | `{path.id:u64}` | the same as a number, so that `/orders/42` and `/orders/042` are one lock; see below |
//! | `{route}` | the pattern of the route: one lock for all its requests |
//! | `{method}` | the method |
//! | `{query.q}` | a query parameter, decoded |
//! | `{header.x-tenant}` | a header |
//! | `{ext.tenant}` | a request extension that [`extension`] names |
//!
//! Values of `path`, `query` and `header` are the text of the request. If the handler parses the value, write its type
//! behind a colon: `u8` to `u128`, `i8` to `i128`, `usize`, `isize` or `uuid`. It is parsed with `FromStr`, as axum's
//! extractors do, and the key has what [`KeyPart`](lock_runtime::KeyPart) writes for the type. A value that is none of its
//! type is answered with 400.
//!
//! `{method}` is GET for a HEAD request if GET is locked as well.
//!
//! If clients choose the keys, as with a header, each new key costs the store 100 to 200 bytes for its fencing
//! counter, for a day. Shorten that with `LockClientBuilder::token_ttl` or `token_ttl` in `[lock]`, to an hour at
//! least, and limit the request rate of each client in an outer layer, for example with the crate
//! `tower_governor`. Add the client's identity to the key, by `{ext.…}`, so that clients cannot lock each other
//! out.
//!
//! A closure ([`key_fn`]) makes keys that a template cannot. A template with an unknown
//! placeholder is an error when the layer is built.
//!
//! # Options
//!
//! | option | default | change it |
//! |---|---|---|
//! | [`wait`] | 10 s | to refuse sooner or later; with [`Wait::None`] a busy lock is answered with 409 at once, with [`Wait::Forever`] never |
//! | [`max_waiters`] | 1 024 for each lock and process | to shed load earlier, or to admit more waiters |
//! | [`read_ahead`] | 64 KiB for each waiting request, 16 MiB for all of them | to notice more clients that leave, or to save memory |
//! | [`request_body`] | axum's `Body` | for services without axum |
//! | [`kind`] | a mutex | to `Fair` for first come, first served, across processes |
//! | [`methods`], [`all_methods_but`], [`all_methods`] | all but GET, HEAD, OPTIONS, TRACE | if other methods only read, or some of these write |
//! | [`share_safe_methods`] | no: GET and HEAD run without a lock | so that no request reads half-written data |
//! | [`skip_missing_key`] | no: 400 | if the client may omit the key, as with an idempotency key |
//! | [`busy`] | 409 | to 423 if clients know about the lock, 429 if the key names the caller, 503 |
//! | [`hold`] | `Auto` | to `Response` for streams that need no lock, `Body` to hold the lock for every body |
//! | [`max_body_hold`] | 30 s | to a shorter time against slow readers, to a longer one for long streams |
//! | [`max_hold`] | none | to limit handlers too |
//! | [`finish_on_disconnect`] | no | for handlers that must not stop half way |
//! | [`release_timeout`] | 250 ms | longer for a slow store, shorter for quick answers |
//! | [`responder`] | [`LockResponse::into_http`] | for answers of your own |
//! | [`options`] | the client's | for leases and everything else about the lock |
//! | [`policy`], [`routes`] | none | to take all this from the configuration, with reload |
//!
//! In a configuration these are `wait`, `max_waiters` and `max_hold` of a policy or of `[lock.defaults]`, and
//! `http = { methods = "all but GET, OPTIONS", max_body_hold = "1h", … }` of a policy; `wait = "forever"` and
//! `max_body_hold = "unlimited"` set no limit. A `wait` or `max_waiters` of the client's options or of
//! `[lock.defaults]` replaces the layer's default.
//!
//! A request with its own deadline, a [`RequestDeadline`] or gRPC's `grpc-timeout`, waits no longer than that.
//!
//! # Clients that leave
//!
//! When a client leaves, its server drops the request; the request then leaves the queue, and its handler never
//! runs. But an HTTP/1.1 server reads the connection only while the request's body is polled, and notices nothing
//! that it does not read. So while a request waits, the layer reads its body: 64 KiB ([`read_ahead`]), as long as all
//! waiting requests of the layer have no more than 16 MiB together; past that, others wait unread. The end of a
//! connection comes behind everything that the client has sent, so in the middle of a larger upload the layer does not
//! notice it. The
//! handler gets these bytes, trailers and errors unchanged, and then the rest. The layer does not read the body in
//! the first 20 ms of a wait, so a request whose lock is free, or that is refused at once, is passed on or refused
//! unread.
//!
//! | the client leaves while its request waits | the request |
//! |---|---|
//! | its body was read, or it has none | is dropped within 100 ms |
//! | before it has sent the whole body | is dropped; a client that still reads is answered with 400 |
//! | over HTTP/2, as gRPC clients do | is dropped, whatever its body |
//! | it has sent more than is read, or the request waits unread | **is not dropped**: the handler runs, and finds the body cut off if the rest was still on its way |
//! | it has sent its next request already (HTTP/1.1 pipelining) | **is not dropped**: hyper reads no further before the first answer |
//! | it closes only its sending half | is dropped: hyper treats the client as gone, unless its server has `half_close` |
//!
//! If uploads are larger and the handler of a departed client must not run, raise [`read_ahead`], or let the
//! handler read the body before its first write.
//!
//! A server answers `Expect: 100-continue` when the body is first polled. A waiting client therefore sends its
//! body after 20 ms, and may still be refused after the wait. Limits such as axum's `DefaultBodyLimit` count as
//! they do without a wait.
//!
//! The layer learns that a client has left from an error of the body, which may come from another layer's body,
//! such as a decoder. The error counts if it contains an [`io::Error`](std::io::Error) of kind `UnexpectedEof`,
//! `ConnectionReset` or another kind for a closed connection. Any other error, `TimedOut` too, is passed on to
//! the handler.
//!
//! axum's body can be read ahead. Name other types with [`request_body`]; bodies of unknown types are not read.
//! [`finish_on_disconnect`] is about handlers that hold their lock: a waiting request is dropped in any case.
//!
//! # When the lock is released
//!
//! With [`HoldUntil::Auto`], when the handler returns, if the body of its response is complete in memory: if it has
//! ended, or ends after one or two frames that are ready, as with text, JSON and unary gRPC. A known length is not
//! enough: the length of a proxied body is known while the body is still on its way. Any other body holds the
//! lock: it is polled under the guard, as the handler was, until it ends, fails or is dropped. Answers without a
//! body (to HEAD, and 101, 204, 304) never hold the lock.
//!
//! In both cases the release ends before the client can see the end of the answer, unless the store takes longer
//! than [`release_timeout`]: the layer keeps the last frame, or the end, back until then.
//!
//! With [`HoldUntil::Body`] a body that is complete in memory holds the lock too, until it has been sent, apart
//! from what is in the buffers of the server and of both systems.
//!
//! A body ends with a [`LockBodyError`] if the hold is lost while it is sent, if it is not sent within
//! [`max_body_hold`] or [`max_hold`], if it panics, or if the grace of [`shutdown`] is over. The server then cuts
//! the HTTP/1.1 connection or resets the HTTP/2 stream, so that no client takes a part for the whole. The lock is
//! released even if the server does not poll the body because the client does not read. A fixed lease, which
//! cannot have a `max_hold`, also ends the body.
//!
//! Bodies are not boxed: [`LockBody`] contains the inner body, which has to be `Unpin`. A body that holds the lock
//! costs a few allocations, any other body none.
//!
//! # Upgraded connections
//!
//! The connection of a web socket is not part of the request: whatever [`hold`] says, the lock is free when the
//! client has the 101. The lock protects the handler that gave this answer. It does not protect the messages on
//! the connection, and its loss does not end the connection. If messages need a lock, acquire one for each
//! message in the task that has the connection:
//!
//! ```
//! use lock_runtime::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "room:{room}", wait = "2s")]
//! async fn on_message(room: u64, text: &str) -> Result<(), LockError> {
//!     // No other connection of any process handles a message of this room now.
//!     Ok(())
//! }
//! ```
//!
//! Web sockets begin with a GET, which a layer locks only if [`methods`] names it; over HTTP/2 they begin with
//! CONNECT, which a layer locks by default.
//!
//! # Policies
//!
//! [`policy`] takes settings, key and answers from the client's configuration at each request, so that a reload
//! takes effect with the next request. The builder's own settings override the policy.
//! [`LockLayer::routes`](crate::LockLayer::routes) takes the routes from the
//! configuration too, for a whole router; the next section says how they relate to the router's routes. A layer
//! without a client follows the configuration of the current client at each request.
//!
//! If a policy is not enforced for a request (`enforce = false`), the request runs anyway, and the log records
//! what would have blocked it. The request acquires the lock if the lock is free. It waits for the store's answer
//! for 50 ms at most, and not at all while a previous answer is overdue. Its handler may run without the lock, so
//! it should take an `Option` of a [`HeldLock`](crate::HeldLock). Errors before there is a policy, such as a
//! missing client, are refused as usual.
//!
//! # Routes
//!
//! A configured route matches by method and path, as axum's router matches it, with the crate `matchit`: `{id}` is one
//! segment, and `{*rest}`, at the end, is the rest of the path, at least one segment. Of several routes that lock the
//! method and match the path, the most specific one counts, whatever the router's own routes are: `/orders/{id}` in the
//! file is every request for such a path, also where the router has a route `/orders/special`. Fixed text is compared
//! decoded. A path that no configured route matches is looked up by the text of the route that axum's router has
//! matched, in case an outer service has rewritten the path.
//!
//! | configured | the request | is |
//! |---|---|---|
//! | `/orders/{id}` | `/orders/7`, by the router's `/orders/{order}` | locked: names do not matter |
//! | `/orders/mine` | `/orders/mine`, by the router's `/orders/{id}` | locked |
//! | `/orders/{id}` | `/orders/special`, by the router's `/orders/special` | locked |
//! | `/admin/{*rest}` | `/admin/users/7` | locked: everything below |
//! | `/orders/{id}` | `/orders/7/` | not locked: a slash at the end is another path |
//!
//! Of two routes that match the same paths, the first one that locks the method counts. A route of the router whose
//! path is spelt nearly as a configured one, and not matched by it, is logged once.
//!
//! A request that no route of axum's router matched is passed on, so that 404 stays the router's answer. So is what
//! goes to a service behind `fallback_service`: add the layer to the routes of that service, by `route_layer`. If the key of a
//! layer needs a parameter that the matched route does not have, the answer is 500, and the layer logs an error with its
//! first request for that route.
//!
//! # Answers
//!
//! | what happened | status | `type` |
//! |---|---|---|
//! | another holder has the lock, and the layer does not wait | 409 | `/problems/lock-busy` |
//! | the request waited, and the lock is still held | 503 | `/problems/lock-timeout` |
//! | the request's own deadline passed first | 503 | `/problems/lock-deadline` |
//! | too many requests wait for the lock already | 503 | `/problems/lock-overloaded` |
//! | the store cannot be reached or fails, or the client is shut down | 503 | `/problems/lock-unavailable` |
//! | the request is missing a value that the key needs | 400 | `/problems/lock-key-missing` |
//! | such a value is malformed, or the key is too long | 400 | `/problems/lock-key-invalid` |
//! | the client left before its body was complete, while it waited | 400 | `/problems/lock-body-incomplete` |
//! | the hold was lost before the handler ended | 500 | `/problems/lock-lost` |
//! | there is no client, no such policy, or the layer is in the wrong place | 500 | `/problems/lock-misconfigured` |
//! | the hold was lost while the body was sent | | the connection breaks |
//!
//! Answers are problem details (RFC 9457) and never cached:
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
//! `"executed":false` says that the handler has not run, so that the client can send the same request again,
//! whatever its method. After a loss it is absent: the handler was cut off, and how far it came is unknown.
//! Therefore the status is then 500, which proxies do not retry.
//!
//! `Retry-After`, with 409 and 503, is the rest of the holder's lease if that is fixed, else how long requests of the
//! layer have held their locks on average, and two seconds if the store fails; at least one second, plus up to a quarter
//! of random jitter. No answer shows the key, the owner id or a token. The log shows the key, in `tracing` events: at
//! `error` for what an operator has to fix, at `warn` for what passes, at `debug` for the rest.
//!
//! A handler that locks by itself gives the same answers with [`LockResponse`], into which a
//! [`LockError`](lock_runtime::LockError) converts.
//!
//! [`busy`] changes the 409; with 429 it also changes the 503 of requests that waited. A [`RefusalResponder`]
//! makes the whole answer from a [`LockResponse`], which has the kind, the status and `retry_after`, and the request's
//! head.
//!
//! Requests with gRPC's content type get trailers only, `grpc-status` and `grpc-message`:
//!
//! | what happened | code |
//! |---|---|
//! | busy | 10 `ABORTED`; as 423, 9 `FAILED_PRECONDITION`; as 503, 14 `UNAVAILABLE` |
//! | any refusal with 429 | 8 `RESOURCE_EXHAUSTED` |
//! | timeout, too many waiters, no store | 14 `UNAVAILABLE` |
//! | the request's own deadline | 4 `DEADLINE_EXCEEDED` |
//! | key missing or invalid | 3 `INVALID_ARGUMENT` |
//! | the client left before its body was complete | 1 `CANCELLED` |
//! | lost | 13 `INTERNAL`, and not `ABORTED`, which invites a retry |
//! | misconfigured | 13 `INTERNAL` |
//! | the hold was lost while messages were sent | the stream is reset, which clients see as 13 `INTERNAL` |
//!
//! `grpc-retry-pushback-ms` is their `Retry-After`. The layer wraps a tonic server as any other service:
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
//! A tonic server has a timer of its own around its layers for `grpc-timeout`, and so has tonic's channel; both
//! answer `CANCELLED`. Whichever timer fires first ends the request's wait. If the key is in the message and not
//! in the metadata, let the handler lock by itself; with the feature `tonic-014` it answers as the layer would:
//! [`status_of`].
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
//! [`share_safe_methods`]: HttpLockLayerBuilder::share_safe_methods
//! [`skip_missing_key`]: HttpLockLayerBuilder::skip_missing_key
//! [`busy`]: HttpLockLayerBuilder::busy
//! [`hold`]: HttpLockLayerBuilder::hold
//! [`max_hold`]: HttpLockLayerBuilder::max_hold
//! [`finish_on_disconnect`]: HttpLockLayerBuilder::finish_on_disconnect
//! [`release_timeout`]: HttpLockLayerBuilder::release_timeout
//! [`responder`]: HttpLockLayerBuilder::responder
//! [`options`]: HttpLockLayerBuilder::options
//! [`policy`]: HttpLockLayerBuilder::policy
//! [`routes`]: HttpLockLayerBuilder::routes
//! [`read_ahead`]: HttpLockLayerBuilder::read_ahead
//! [`request_body`]: HttpLockLayerBuilder::request_body
//! [`Wait::None`]: lock_runtime::Wait::None
//! [`Wait::Forever`]: lock_runtime::Wait::Forever

mod answer;
mod body;
mod body_hold;
mod builder;
mod checks;
mod error;
mod future;
mod grpc;
mod held_body;
mod http_settings;
mod kept;
mod key;
mod layer;
mod methods;
mod plan;
mod plan_cache;
mod read_ahead;
mod refusal_kind;
mod response;
mod route;
mod route_table;
mod router;
mod service;
mod settings;
mod template;
mod told;
mod value_type;
mod values;
mod waiting_body;

pub use answer::RefusalResponder;
pub use body::LockBody;
pub use builder::HttpLockLayerBuilder;
pub use checks::check;
pub use error::{KeyError, LockBodyError};
pub use future::HttpLockFuture;
#[cfg(feature = "tonic-014")]
pub use grpc::status_of;
pub use layer::HttpLockLayer;
pub use refusal_kind::RefusalKind;
pub use response::LockResponse;
pub use service::{HttpLockService, RequestDeadline};
pub use settings::HoldUntil;
