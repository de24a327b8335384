//! Locks configured by a file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod attribute;
mod bad_files;
mod clients;
mod formats;
mod names;
mod precedence;
mod reload;
mod secrets;
mod sites;

use lock_runtime::policy::{ConfigError, LockConfig};

/// Reads a TOML file.
fn read(text: &str) -> Result<LockConfig, ConfigError> {
    LockConfig::from_toml(text)
}
