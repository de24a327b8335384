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

/// Reads what figment has put together.
fn from_figment(figment: &figment::Figment) -> Result<LockConfig, ConfigError> {
    LockConfig::from_figment(figment)
}
