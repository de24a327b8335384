//! What most faults need.
#![allow(unused_imports, reason = "no fault needs all of it")]
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use futures_util::future::join_all;
pub(crate) use lock_runtime::error::{BusyReason, LossCause, StoreErrorKind};
pub(crate) use lock_runtime::options::Replicas;
pub(crate) use lock_runtime::policy::LockConfig;
pub(crate) use lock_runtime::{
    FencingToken, Lease, LockClient, LockError, LockGuard, LockOptions, Wait,
};
pub(crate) use lock_tests::crew::{Habits, Job, LOCKS};
pub(crate) use lock_tests::history::{May, Recorder, Share, Violation};
pub(crate) use lock_tests::redis_server::ClientType;
pub(crate) use lock_tests::witness::Witness;
pub(crate) use lock_tests::{
    Proxy, RawClient, RedisCluster, RedisServer, Ttl, Worker, eventually, patience, take, test_with,
};
pub(crate) use tokio::time::{Instant, sleep, timeout};

pub(crate) use crate::drill::{
    ANSWER, Alone, Drill, Failover, Idle, Kept, LEASE, Masters, Slots, WAITER_LEASE, World, drill,
    refusal, refused,
};
pub(crate) use crate::each::{
    all_are_renewed, checked, hold_each, listeners, locks_worker, own_name, quiet_client,
    release_each, soon_free,
};

/// More than anything that has to happen takes on a busy machine.
pub(crate) const SOON: Duration = secs(20);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Options with a lease that the watchdog renews.
pub(crate) fn watched(lease: Duration) -> LockOptions {
    LockOptions::new().lease(Lease::Watchdog(lease))
}

/// Options with a lease that nothing renews.
pub(crate) fn fixed(lease: Duration) -> LockOptions {
    LockOptions::new().lease(Lease::Fixed(lease))
}

/// Options that wait so long for a busy lock.
pub(crate) fn waits(wait: impl Into<Wait>) -> LockOptions {
    LockOptions::new().wait(wait)
}

/// The kinds of locks of which one task at a time has one.
pub(crate) const EXCLUSIVE: [&str; 3] = ["mutex", "fair", "write"];

/// The kind of the store's error, and the code that the server gave.
///
/// Panics when the store is not to blame.
pub(crate) fn kind_and_text(error: &LockError) -> (StoreErrorKind, String) {
    match error {
        LockError::Store(error) => (error.kind(), error.to_string()),
        other => panic!("{other:?}"),
    }
}
