//! The lock configuration: read at the start, and again at every SIGHUP.

use std::collections::BTreeSet;
use std::env;

use figment::Figment;
use figment::providers::{Env, Format, Toml};
use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;

use crate::Failure;

/// The configuration if `CONFIG` names no file.
const BUILT_IN: &str = include_str!("orders.toml");

/// Reads the file; `REDIS_URL` overrides it, and `MYAPP_LOCK__…` overrides both.
pub(crate) fn load() -> Result<LockConfig, Failure> {
    let file = match env::var_os("CONFIG") {
        Some(path) => Figment::new().merge(Toml::file_exact(path)),
        None => Figment::new().merge(Toml::string(BUILT_IN)),
    };
    let redis = env::var("REDIS_URL").ok().map(|url| ("lock.url", url));
    let variables = Env::prefixed("MYAPP_").split("__");
    let all = redis.into_iter().fold(file, Figment::merge).merge(variables);
    // Its errors name the file or variable that is wrong, and show no part of an address.
    Ok(LockConfig::from_figment(&all)?)
}

/// Puts the current file and variables into effect, or keeps the old configuration.
pub(crate) fn reload(client: &LockClient) {
    let old = client.config().unwrap_or_default();
    match try_reload(client) {
        Ok(new) => tracing::info!(changed = ?changes(&old, &new), "configuration read again"),
        Err(reason) => {
            tracing::error!("the configuration stays as it was, the new one is refused: {reason}");
        }
    }
}

fn try_reload(client: &LockClient) -> Result<LockConfig, Failure> {
    let new = load()?;
    // It is refused as a whole if an annotated function or a layer could not follow it.
    client.reload(new.clone())?;
    Ok(new)
}

/// The policies that differ, and the defaults if they do.
fn changes(old: &LockConfig, new: &LockConfig) -> Vec<String> {
    let names: BTreeSet<_> = old.policies().chain(new.policies()).map(|(name, _)| name).collect();
    let differ = |name: &&str| old.policy(name).ok() != new.policy(name).ok();
    let mut changed: Vec<_> =
        names.into_iter().filter(differ).map(|name| format!("lock.policies.{name}")).collect();
    if old.defaults() != new.defaults() {
        changed.push("lock.defaults".to_owned());
    }
    changed
}
