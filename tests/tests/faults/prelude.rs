//! What most faults need.
#![allow(unused_imports, reason = "no fault needs all of it")]

pub(crate) use std::time::Duration;

pub(crate) use lock_runtime::error::{LossCause, StoreErrorKind};
pub(crate) use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockOptions};
pub(crate) use lock_tests::crew::Job;
pub(crate) use lock_tests::history::{May, Violation};
pub(crate) use lock_tests::redis_server::ClientType;
pub(crate) use lock_tests::{Proxy, RawClient, RedisServer, Ttl, Worker, eventually};
pub(crate) use tokio::time::{Instant, sleep, timeout};

pub(crate) use crate::drill::{ANSWER, Drill, LEASE};
pub(crate) use crate::each::{
    all_are_renewed, hold_each, own_name, quiet_client, release_each, soon_free, watched,
};

/// More than anything that has to happen takes on a busy machine.
pub(crate) const SOON: Duration = secs(20);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
