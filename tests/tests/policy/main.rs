//! Locks configured by a file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]
#![allow(clippy::result_large_err, reason = "the error of a loader")]

mod attribute;
mod bad_files;
mod clients;
mod formats;
mod names;
mod precedence;
mod reload;
mod secrets;
mod sites;

use std::time::Duration;

use lock_runtime::policy::{ConfigError, LockConfig, Policy};
use lock_runtime::store::MemoryStore;
use lock_runtime::{Lease, LockClient, LockError, LockKind, LockOptions, Wait, distributed_lock};
use lock_tests::{Log, RedisServer};
use lock_tower::LockLayer;
use tokio::time::{Instant, timeout};

/// Reads a TOML file.
fn read(text: &str) -> Result<LockConfig, ConfigError> {
    LockConfig::from_toml(text)
}

/// A client in memory with this configuration.
fn client(text: &str) -> LockClient {
    LockClient::builder().config(read(text).unwrap()).in_memory().unwrap()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
