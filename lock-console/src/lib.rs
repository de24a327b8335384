//! A page in the browser that shows who holds which lock, since when and from which line of which program, who waits, and
//! which holders wait for each other.
//!
//! [`router`] makes an [`axum::Router`] to nest in a service's own admin port. Who may open that port is the service's affair;
//! with [`ConsoleOptions::bearer_token`] the console asks for a token by itself. `lockctl console` serves the same alone.
//!
//! ```no_run
//! use axum::Router;
//! use lock_console::ConsoleOptions;
//! use lock_runtime::LockClient;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = LockClient::connect("redis://127.0.0.1:6379").await?;
//! let admin = Router::new().nest("/locks", lock_console::router(client, ConsoleOptions::new()));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:9000").await?;
//! axum::serve(listener, admin).await?;     // the page is at http://127.0.0.1:9000/locks
//! # Ok(())
//! # }
//! ```
//!
//! # What it asks
//!
//! The console [surveys](lock_runtime::admin) all processes once a second while a page is open, however many pages there
//! are, and never otherwise. Nothing is stored.
//!
//! # Behind a proxy
//!
//! The page names its files relative to its own address, so a proxy may put a path before it or take one away. A proxy must
//! not buffer `api/events`, and is the place for TLS. Where the console has no token, name the hosts that it answers for:
//! [`ConsoleOptions::hosts`].
//!
//! # The same as JSON
//!
//! | request | answers |
//! |---|---|
//! | `GET api/survey` | a [`Survey`](lock_runtime::admin::Survey) as it serializes: durations are milliseconds, in fields that end in `_ms` |
//! | `GET api/events` | the same as Server-Sent Events: `survey` each second, `failed` with a sentence while the store does not answer |
//! | `GET api/session` | `{"allow_release": bool, "csrf": "…"}` |
//! | `POST api/release` | releases a lock: `{"name": "…", "typed": "…"}` with the header `x-csrf-token`; see [`ConsoleOptions::allow_release`] |
//!
//! An error is `{"error": "…"}` with one sentence.

mod access;
mod events;
mod options;
mod page;
mod release;
mod surveys;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use lock_runtime::LockClient;

use self::access::Access;
pub use self::options::ConsoleOptions;
use self::surveys::Surveys;

/// What all requests share.
struct Console {
    client: LockClient,
    allow_release: bool,
    access: Access,
    surveys: Arc<Surveys>,
}

/// Returns the console: its page at `/`, and its JSON under `/api/`. Nest it under any path, also in a router that has a
/// state of its own.
///
/// # Examples
///
/// ```
/// use axum::{Router, extract::State, routing::get};
/// use lock_console::ConsoleOptions;
/// use lock_runtime::LockClient;
///
/// async fn version(State(version): State<&'static str>) -> &'static str {
///     version
/// }
///
/// fn admin(client: LockClient) -> Router {
///     Router::new()
///         .route("/version", get(version))
///         .nest("/locks", lock_console::router(client, ConsoleOptions::new()))
///         .with_state("1.2.0")
/// }
/// # let _ = admin;
/// ```
pub fn router<S>(client: LockClient, options: ConsoleOptions) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let ConsoleOptions { allow_release, token, hosts } = options;
    let console = Arc::new(Console {
        surveys: Surveys::of(client.clone()),
        client,
        allow_release,
        access: Access::new(token, hosts),
    });
    let api = Router::new()
        .route("/api/survey", get(surveys::survey))
        .route("/api/events", get(events::events))
        .route("/api/session", get(access::session))
        .route("/api/release", post(release::release));
    let for_us = axum::middleware::from_fn_with_state(Arc::clone(&console), access::check_host);
    let guarded = axum::middleware::from_fn_with_state(Arc::clone(&console), access::guard);
    Router::new()
        .route("/", get(page::page))
        .route("/console.css", get(page::style))
        .route("/console.js", get(page::script))
        .merge(api)
        .layer(guarded)
        .route("/login", post(access::login))
        .layer(for_us)
        .layer(axum::middleware::map_response(page::with_security_headers))
        .with_state(console)
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
