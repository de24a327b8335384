//! What most faults need.
#![allow(unused_imports, reason = "no fault needs all of it")]

pub(crate) use std::time::Duration;

pub(crate) use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockOptions};
pub(crate) use lock_tests::history::May;
pub(crate) use lock_tests::redis_server::ClientType;
pub(crate) use lock_tests::{Proxy, RedisServer, Ttl, Worker, eventually};
pub(crate) use tokio::time::{Instant, sleep, timeout};

pub(crate) use crate::drill::{Drill, LEASE};

/// More than anything that has to happen takes on a busy machine.
pub(crate) const SOON: Duration = secs(20);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
