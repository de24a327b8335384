//! What most tests use: the library's everyday names, servers and proxies, short durations, options.
//!
//! A test file begins with `use crate::prelude::*;` and imports only what is particular to it.
//! A test whose bound has another reason than a busy machine has a constant of its own for it.

pub(crate) use std::cell::RefCell;
pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::convert::Infallible;
pub(crate) use std::error::Error;
pub(crate) use std::fs;
pub(crate) use std::future::pending;
pub(crate) use std::net::SocketAddr;
pub(crate) use std::num::NonZeroU32;
pub(crate) use std::panic::AssertUnwindSafe;
pub(crate) use std::path::Path;
pub(crate) use std::pin::{Pin, pin};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::task::{Context, Poll};
pub(crate) use std::time::Duration;

pub(crate) use futures_util::future::{BoxFuture, join_all};
pub(crate) use futures_util::{FutureExt, poll};
pub(crate) use lock_runtime::client::RestartGuard;
pub(crate) use lock_runtime::clock::Clock;
pub(crate) use lock_runtime::error::{BusyReason, LossCause, StoreError, StoreErrorKind};
pub(crate) use lock_runtime::options::{OnLost, Replicas};
pub(crate) use lock_runtime::policy::LockConfig;
pub(crate) use lock_runtime::store::{
    AcquireReply, AcquireRequest, HoldKind, LatchRequest, MemoryStore, OwnerId, Ownership,
    RedisStore, ReleaseReply, ReleaseRequest, RenewRequest, Store, StoreFuture, Subscription,
    Target, TlsOptions, client_id,
};
pub(crate) use lock_runtime::{
    AnyLock, FencingToken, Lease, LockClient, LockClientBuilder, LockError, LockGuard, LockKey,
    LockKind, LockOptions, MultiLock, MultiMember, RwLock, Semaphore, Wait, distributed_lock,
};
pub(crate) use lock_tests::history::History;
pub(crate) use lock_tests::poll_count::{Polled, drop_at_every_await, poll_then_drop};
pub(crate) use lock_tests::raw_client::SURVEYS;
pub(crate) use lock_tests::redis_server::{ClientType, Sentinels};
pub(crate) use lock_tests::{
    Log, Proxy, RawClient, RedisCluster, RedisServer, Ttl, Worker, eventually, patience, test_with,
};
pub(crate) use tokio::sync::{Notify, mpsc, watch};
pub(crate) use tokio::task::JoinHandle;
pub(crate) use tokio::time::{Instant, sleep, timeout};

pub(crate) use crate::support::kinds::{KINDS, take, take_named};

/// More than anything that has to happen takes on a busy machine, and less than a lease of 30 s.
pub(crate) const SOON: Duration = secs(20);

/// Waits until the condition holds, at most for [`SOON`].
macro_rules! soon {
    ($what:expr, $condition:expr) => {
        lock_tests::eventually(crate::prelude::SOON, $what, async || $condition).await
    };
}
pub(crate) use soon;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Waits until the server has nothing of the lock but its fencing counter and Redisson's note of an unlock.
///
/// A key with an end may not wait for it: each has to go before, however busy the machine is. A release is not told from the end
/// of a lease that is shorter than [`TELLING`].
pub(crate) async fn nothing_left(server: &RedisServer, name: &str) {
    let (raw, start) = (server.client(), Instant::now());
    let mut first_end = SOON * 100;
    for key in left_of(&raw, name).await {
        if let Ttl::Left(ends) = raw.pttl(&key).await
            && ends >= TELLING
        {
            first_end = first_end.min(ends);
        }
    }
    let bound = SOON.min(first_end * 4 / 5);
    eventually(bound, "nothing is left", async || left_of(&raw, name).await.is_empty()).await;
    assert!(start.elapsed() < first_end, "{name} went only with its lease of {first_end:?}");
}

/// What the server has of the lock.
pub(crate) async fn left_of(raw: &RawClient, name: &str) -> Vec<String> {
    let tag = format!("{{{name}}}");
    let kept = ["redisson_lock_token:", "redisson_unlock_latch:"];
    let mut keys = raw.keys().await;
    keys.retain(|key| {
        key == name || key.contains(&tag) && !kept.iter().any(|prefix| key.starts_with(prefix))
    });
    keys
}

/// The shortest lease whose end is told from a release that is late.
const TELLING: Duration = secs(1);

/// So many permits.
pub(crate) fn some(permits: u32) -> NonZeroU32 {
    NonZeroU32::new(permits).unwrap()
}

/// Options with a lease that the watchdog renews.
pub(crate) fn watched(lease: Duration) -> LockOptions {
    leased(Lease::Watchdog(lease))
}

/// Options with a lease that nothing renews.
pub(crate) fn fixed(lease: Duration) -> LockOptions {
    leased(Lease::Fixed(lease))
}

pub(crate) fn leased(lease: Lease) -> LockOptions {
    LockOptions::new().lease(lease)
}

/// Options that wait so long for a busy lock.
pub(crate) fn waits(wait: impl Into<Wait>) -> LockOptions {
    LockOptions::new().wait(wait)
}

/// What is left of an expiry.
pub(crate) fn left(ttl: Ttl) -> Duration {
    match ttl {
        Ttl::Left(left) => left,
        other => panic!("no expiry: {other:?}"),
    }
}

/// What a client connects to: a server, or a proxy before it.
pub(crate) trait Reachable {
    fn url(&self) -> String;
}

impl Reachable for RedisServer {
    fn url(&self) -> String {
        self.url()
    }
}

impl Reachable for Proxy {
    fn url(&self) -> String {
        self.url()
    }
}

/// A client of the server, as another process would have it.
pub(crate) async fn connect(to: &impl Reachable) -> LockClient {
    LockClient::connect(&to.url()).await.unwrap()
}

/// A server and a client of it.
pub(crate) async fn world() -> (RedisServer, LockClient) {
    let server = RedisServer::start().await;
    let client = connect(&server).await;
    (server, client)
}

/// A server and two clients of it, as two processes would have them.
pub(crate) async fn world_of_two() -> (RedisServer, LockClient, LockClient) {
    let (server, client) = world().await;
    let other = connect(&server).await;
    (server, client, other)
}

/// A server and a proxy before it.
pub(crate) async fn proxied() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    (server, proxy)
}

/// A client behind a proxy of its own.
pub(crate) async fn behind_proxy(server: &RedisServer) -> (Proxy, LockClient) {
    let proxy = Proxy::start(server.port()).await;
    let client = connect(&proxy).await;
    (proxy, client)
}

/// A server, a proxy before it, and a client behind the proxy.
pub(crate) async fn far_world() -> (RedisServer, Proxy, LockClient) {
    let server = RedisServer::start().await;
    let (proxy, client) = behind_proxy(&server).await;
    (server, proxy, client)
}

/// Ends the client's connection, and returns when the client knows; it gets no new one until the proxy passes.
pub(crate) async fn cut_off(proxy: &Proxy, client: &LockClient) {
    proxy.refuse();
    proxy.reset_all();
    // Until then a request may still be written to the dead connection. This one takes no lock.
    soon!("the reset is noticed", {
        let error = client.admin().inspect("probe").await.err();
        error.as_ref().and_then(store_kind) == Some(StoreErrorKind::Unavailable)
    });
}

/// Releases all of them at the same time.
pub(crate) async fn release_all(guards: impl IntoIterator<Item = LockGuard>) {
    let released = join_all(guards.into_iter().map(LockGuard::release));
    for outcome in timeout(SOON, released).await.expect("a release hangs") {
        outcome.unwrap();
    }
}

/// What the tasks return, in their order. All of them have to end.
pub(crate) async fn joined<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let ended = timeout(6 * SOON, join_all(tasks)).await.expect("a task hangs");
    ended.into_iter().map(|task| task.expect("a task panicked")).collect()
}

/// What the store said, where the store is to blame.
pub(crate) fn store_kind(error: &LockError) -> Option<StoreErrorKind> {
    match error {
        LockError::Store(error) => Some(error.kind()),
        _ => None,
    }
}

/// What the store said and in which words; nothing but the store may be to blame.
pub(crate) fn kind_and_sentence(error: LockError) -> (StoreErrorKind, String) {
    match error {
        LockError::Store(error) => (error.kind(), error.to_string()),
        other => panic!("{other:?}"),
    }
}

/// A server behind a proxy, and a client of it that waits so long for each answer.
pub(crate) async fn far_world_with(timeout: Duration) -> (RedisServer, Proxy, LockClient) {
    let (server, proxy) = proxied().await;
    let builder = LockClient::builder().command_timeout(timeout);
    let client = builder.connect(&proxy.url()).await.unwrap();
    (server, proxy, client)
}
