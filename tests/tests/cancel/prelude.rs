//! What these tests use; also by the store that they share with another test program.
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use futures_util::FutureExt;
pub(crate) use futures_util::future::BoxFuture;
pub(crate) use lock_runtime::client::RestartGuard;
pub(crate) use lock_runtime::clock::Clock;
pub(crate) use lock_runtime::store::{
    AcquireReply, AcquireRequest, LatchRequest, MemoryStore, Ownership, ReleaseReply,
    ReleaseRequest, RenewRequest, Store, StoreFuture, Subscription, Target,
};
pub(crate) use lock_runtime::{
    FencingToken, Lease, LockClient, LockError, LockGuard, LockKey, LockKind, LockOptions,
};
pub(crate) use lock_tests::poll_count::{Polled, poll_then_drop};
pub(crate) use tokio::task::JoinHandle;
pub(crate) use tokio::time::{sleep, timeout};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
