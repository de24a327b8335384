//! A store that answers late, or not at all: renewals, and callers that do not wait.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "../handed_on/mod.rs"]
mod handed_on;
#[path = "../kinds/mod.rs"]
mod kinds;

mod late_answers;
mod outages;
mod renewals;
mod tries;

use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockOptions};
use lock_tests::{Proxy, RedisServer};

pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn watched(lease: Duration) -> LockOptions {
    LockOptions::builder().lease(Lease::Watchdog(lease)).build().unwrap()
}

/// A server behind a proxy, and a client of it that waits long for each answer.
pub(crate) async fn far_world(command_timeout: Duration) -> (RedisServer, Proxy, LockClient) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = LockClient::builder().command_timeout(command_timeout);
    let client = builder.connect(&proxy.url()).await.unwrap();
    (server, proxy, client)
}
