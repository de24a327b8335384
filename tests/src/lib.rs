//! What the tests stand on: servers to talk to, faults to inject, and ways to wait and to judge.
//!
//! In the order in which a test meets them:
//!
//! - [`redis_server`]: a throw-away `redis-server` on a free port or a unix socket,
//! - [`redis_cluster`]: a throw-away cluster of them, whose slots can be moved,
//! - [`raw_client`]: a side channel to it, to look at keys without the library under test,
//! - [`proxy`]: a TCP proxy between client and server that delays, drops, resets, duplicates,
//! - [`scripted_server`]: a server that answers as a test says,
//! - [`leash`]: a child process that ends with the test process,
//! - [`process`]: a worker in a process of its own, which can be stopped and killed,
//! - [`preload`]: what the system tells a process, changed: the time of day, addresses of hosts,
//! - [`bad_config`]: configurations with mistakes,
//! - [`mod@eventually`]: waiting for a condition, with a bound,
//! - [`spawn`]: a task,
//! - [`poll_count`]: dropping a future at each of its await points,
//! - [`log`]: what the program under test logs,
//! - [`history`]: what every process did and when, and the rules that must have held,
//! - `take`: acquiring a lock of each kind by a word for it,
//! - `witness`: a task that uses a lock and records all of it,
//! - `crew`: tasks that use locks of every kind that way,
//! - [`sampler`]: what only the server can tell of them meanwhile,
//! - [`left_at_end`]: what locks leave on a server.
//!
//! A check that does not hold panics and says what was waited for: these are test tools. Nothing
//! here skips: a test that needs a server that is not there fails and says how to get one.
//! Signals and unix sockets make this a crate for unix systems.
#![allow(clippy::missing_panics_doc, reason = "each panic has its sentence, without a heading")]

pub mod bad_config;
#[cfg(feature = "workers")]
pub mod crew;
pub mod eventually;
mod fair_queue;
pub mod history;
pub mod leash;
mod left;
pub mod log;
pub mod poll_count;
pub mod preload;
pub mod process;
pub mod proxy;
pub mod raw_client;
pub mod redis_cluster;
pub mod redis_server;
pub mod sampler;
pub mod scripted_server;
#[cfg(feature = "workers")]
mod take;
mod task;
#[cfg(feature = "workers")]
pub mod witness;

pub use eventually::{eventually, patience};
pub use leash::Leash;
pub use left::left_at_end;
pub use log::Log;
pub use process::Worker;
pub use proxy::Proxy;
pub use raw_client::{RawClient, Ttl};
pub use redis_cluster::RedisCluster;
pub use redis_server::RedisServer;
pub use sampler::Sampler;
pub use scripted_server::ScriptedServer;
#[cfg(feature = "workers")]
pub use take::take;
pub use task::spawn;

/// A test that starts something and works with it: `test_with!(name, start(), async |it| { … })`.
#[macro_export]
macro_rules! test_with {
    ($name:ident, $start:expr, $body:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $crate::work_with($start, $body).await;
        }
    };
}

/// Runs the body of a [`test_with!`].
pub async fn work_with<W>(start: impl Future<Output = W>, body: impl AsyncFnOnce(W)) {
    body(start.await).await;
}

/// The manuals of the macros: their examples need what a compiler plug-in cannot depend on.
#[cfg(doctest)]
mod manuals {
    #[doc = include_str!("../../lock-macros/src/manual.md")]
    mod distributed_lock {}

    #[doc = include_str!("../../lock-macros/src/key_part/manual.md")]
    mod key_part {}

    #[doc = include_str!("../../lock-macros/README.md")]
    mod readme {}
}
