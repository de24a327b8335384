//! Distributed locks for async Rust, on Redisson's keys.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod client;
mod clock;
mod error;
mod fence;
mod gate;
mod guard;
mod key;
mod lease;
mod mutex;
mod options;
#[doc(hidden)]
pub mod private;
pub mod scope;
mod stand;
pub mod store;

pub use acquire::Acquire;
pub use client::{LockClient, LockClientBuilder, Shutdown};
pub use clock::{Clock, Tick};
pub use error::{BusyReason, LockError, LossCause, StoreError, StoreErrorKind};
pub use fence::{FenceGate, FencingToken, StaleToken};
pub use guard::{LockGuard, Release, Run, RunOwned};
pub use key::{IntoLockKey, KeyPart, KeyPartWriter, LockKey, LockKeyBuilder, MAX_KEY_BYTES};
#[cfg(feature = "macros")]
pub use lock_macros::distributed_lock;
pub use mutex::Mutex;
pub use options::{
    DEFAULT_LEASE, Lease, LockOptions, LockOptionsBuilder, MAX_LEASE, MIN_LEASE, OnLost, Wait,
};
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::RedisStore;
pub use store::{LockKind, Store};
