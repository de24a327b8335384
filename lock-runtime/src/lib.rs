//! Distributed locks for async Rust, on Redisson's keys.
//!
//! A lock in Redis (or in memory, for tests) runs a piece of code in one place at a time across every process
//! that shares the store:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use lock_runtime::{LockClient, LockError, distributed_lock};
//! use std::time::Duration;
//!
//! #[distributed_lock(key = "order:{order_id}", wait = "2s")]
//! async fn pay(order_id: u64) -> Result<&'static str, LockError> {
//!     // No other task of any process is past this line for this order.
//!     Ok("paid")
//! }
//!
//! // `LockClient::connect("redis://127.0.0.1").await?` for Redis.
//! let client = LockClient::in_memory();
//! client.install();
//! assert_eq!(pay(42).await?, "paid");
//! // The last line of `main`: waits up to five seconds for releases that are still under way.
//! client.shutdown(Duration::from_secs(5)).await;
//! # Ok::<_, LockError>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The attribute is short for this code:
//!
//! ```
//! # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
//! client.mutex("order:42").run(async { /* the work */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A dropped guard, including that of an annotated call, releases its lock in the background. A runtime that
//! ends first leaves the lock in the store until its lease ends, and the log reports how many releases were
//! pending; [`LockClient::shutdown`] at the end of `main` waits for them.
//!
//! # Which lock do I need
//!
//! | You want | Use | What it costs |
//! |---|---|---|
//! | one task at a time for a name | [`Mutex`] | a round trip to acquire, one to release; none for re-entry and for a hand-off inside the process |
//! | the same, served in the order of arrival across processes | [`FairMutex`] | as a mutex, but every waiter asks the store and keeps its place in a queue there |
//! | many readers or one writer | [`RwLock`] | as a mutex; readers of one process share a hold |
//! | at most *n* tasks at a time | [`Semaphore`] | as a mutex |
//! | several names, all or none | [`MultiLock`] | as one mutex: all names are in one command; in a cluster they share a slot |
//! | a kind that is known only when the program runs | [`AnyLock`] | as that kind |
//! | to wait until a number of events has happened | [`CountDownLatch`] | a round trip for each event; nothing is held |
//! | a lock that outlives the failure of any one server | a mutex of a client that [`connect_quorum`](LockClientBuilder::connect_quorum) made | the round trips of a mutex to each of several independent servers at once; mutexes only |
//! | a lock that outlives a failover | a mutex with [`replicas`](LockOptions::replicas) | a round trip between the servers for each acquire |
//! | a scheduled job that one of several processes runs | a mutex with [`Wait::None`] and [`at_least`](LockOptions::at_least) | as a mutex |
//! | a lock around each request of a service | the crate `lock-tower` | as the kind that it takes |
//!
//! Do without a lock where something simpler is enough:
//!
//! - All contenders are tasks of one process: use `tokio::sync::Mutex`.
//! - The data has one home that can compare and write at once: use a transaction, a unique constraint or an update
//!   that checks a version there. That holds even when a process is paused, which no lease does.
//! - The work may run twice without harm: let it. A lock then saves work only, and an error of the store need not
//!   stop the work.
//! - Work is to be shared out, each piece to one worker: use a queue.
//! - Calls are to be limited per second: use a rate limiter. A lock limits how many run at a time.
//!
//! # What is promised
//!
//! - **The body never runs past its lease.** [`LockGuard::run`] checks the deadline before every poll and drops
//!   the body when it has passed, without help from Redis or a renewal. The deadline is counted from before the
//!   request was sent, on a clock that keeps counting while the machine sleeps.
//! - **Nothing leaks on cancellation.** Dropping any future or guard, anywhere, leaves no lock in the store for
//!   longer than a round trip or, if the store cannot be reached, one lease. Each name leaves a small counter
//!   that expires a day after its last use.
//! - **Re-entry and hand-off inside a process cost no round trip.** One contender per key and process
//!   goes to Redis, however many tasks wait; they are served first in, first out.
//! - **Every hold has a fencing token** that keeps growing even if Redis loses its data.
//!
//! # What is not
//!
//! A lease is not mutual exclusion in an asynchronous network: a process that is paused between the check of
//! its deadline and a write, a failover to a replica that does not have the lock yet, or a step of the server's
//! clock can let two holders overlap. Where overlap must not do damage, send [`LockGuard::token`] to the
//! resource and let it refuse older ones ([`FencingToken`], [`fence::FenceGate`]). Locks are advisory: any
//! client that can write the keys can break them.
//!
//! # Reading order
//!
//! [`LockClient`] creates a [`Mutex`]; locking it with its [`LockOptions`] returns a [`LockGuard`] or a
//! [`LockError`]. Less common types are in modules: [`client`], [`options`], [`guard`], [`error`], [`key`],
//! [`fence`]. Through [`scope`], re-entry finds the holds that enclose it. `ARCHITECTURE.md` explains the parts in between.
//!
//! # Features
//!
//! - `blocking`: [`block_on`], `blocking_lock`, `run_blocking` and their like, for code without async, and the
//!   [`distributed_lock`] attribute on a plain `fn`.
//! - `chrono-04`, `jiff-02`, `time-03`: [`KeyPart`] for the dates and times of these crates.
//! - `figment-010`: `LockConfig::from_figment`, for files that environment variables override.
//! - `lock-order`: `Admin::lock_order`, which finds locks that are acquired inside of each other in different
//!   orders. For tests and development.
//! - `macros` (default): the [`distributed_lock`] attribute and `#[derive(KeyPart)]`.
//! - `metrics`: the metrics in [`observe::METRICS`], for the recorder of the crate `metrics`.
//! - `policy` (default): locks that a file configures, in the module `policy`.
//! - `redis` (default): [`LockClient::connect`], and [`LockGuard::redis`], a command that runs only under its hold. Without
//!   it, locks live in memory.
//! - `serde`: [`FencingToken`] implements `Serialize` and `Deserialize`; `policy` turns it on.
//! - `sites`: a list of all annotated functions and, with `policy`, `Admin::check_sites` which a program calls when it
//!   starts.
//! - `survey` (default): [`Admin::survey`](admin::Admin::survey), which asks all processes who holds and who waits.
//! - `tls-rustls`: `rediss://` addresses, verified against Mozilla's root certificates or, with
//!   `TlsOptions`, against your own; client certificates.
//! - `toml` (default): `LockConfig::from_toml` and `from_toml_file`.
//! - `tracing` (default): the spans of [`observe`]. Events are there without it.
//!
//! The client's background work (renewal, release, reconnecting) runs as tasks of the tokio runtime that first
//! uses it; the runtime needs its time driver, and its I/O driver for Redis. A client that outlives a runtime
//! restarts them on the next one that uses it.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod __layer_v1;
pub mod acquire;
pub mod admin;
pub mod client;
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod clock;
pub mod error;
pub mod fence;
#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzz;
pub mod guard;
pub mod key;
pub mod observe;
pub mod options;
#[cfg(feature = "policy")]
pub mod policy;
#[doc(hidden)]
pub mod private;
pub mod scope;
pub mod site;
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod store;

mod any_lock;
mod backoff;
#[cfg(feature = "blocking")]
mod blocking;
#[cfg(not(feature = "__internals"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "what the tests of the workspace use, with the feature `__internals`"
)]
mod clock;
mod fair_mutex;
mod latch;
mod lease;
mod liveness;
mod multi_lock;
mod mutex;
mod opaque;
#[cfg(feature = "blocking")]
mod own_runtime;
mod owned_hold;
#[cfg(feature = "policy")]
mod place;
#[cfg(any(feature = "redis", feature = "survey"))]
mod process;
mod queue;
mod rw_lock;
mod semaphore;
mod shadow;
#[cfg(not(feature = "__internals"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "what the tests of the workspace use, with the feature `__internals`"
)]
mod store;

pub use any_lock::AnyLock;
pub use client::{LockClient, LockClientBuilder};
pub use error::LockError;
pub use fair_mutex::FairMutex;
pub use fence::FencingToken;
pub use guard::LockGuard;
pub use key::{KeyPart, LockKey};
pub use latch::CountDownLatch;
#[cfg(feature = "macros")]
pub use lock_macros::{KeyPart, distributed_lock};
pub use multi_lock::{MultiLock, MultiMember};
pub use mutex::Mutex;
pub use options::{Lease, LockKind, LockOptions, Wait};
#[cfg(feature = "blocking")]
pub use own_runtime::block_on;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use store::MemoryStore;

// In a message about a function with the attribute, the compiler shows the shortest path of an item: this makes it the name.
#[doc(hidden)]
pub use private::v1::{AsClient, CallSpec, ErrorReturn, FromLockError, NoError, SkipReturn};

/// The types that users name in structs and move between tasks are `Send` where they must be.
const _: () = {
    const fn send_and_static<T: Send + 'static>() {}
    const fn sync<T: Sync>() {}
    send_and_static::<LockClient>();
    sync::<LockClient>();
    send_and_static::<Mutex>();
    sync::<Mutex>();
    send_and_static::<acquire::Acquire>();
    send_and_static::<acquire::Reached>();
    send_and_static::<LockGuard>();
    sync::<LockGuard>();
    send_and_static::<guard::Release>();
    send_and_static::<LockError>();
    sync::<LockError>();
    send_and_static::<acquire::Acquire<Option<LockGuard>>>();
    send_and_static::<guard::RunOwned<std::future::Ready<()>>>();
    send_and_static::<guard::Run<'static, std::future::Ready<()>>>();
    send_and_static::<guard::TryRun<std::future::Ready<()>>>();
};

/// The examples of the README.
#[cfg(all(doctest, feature = "macros", feature = "redis"))]
#[doc = include_str!("../README.md")]
mod readme {}
