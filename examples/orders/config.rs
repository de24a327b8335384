//! The lock configuration: read at the start, and again at every SIGHUP.

use std::collections::BTreeSet;
use std::env;

use figment::Figment;
use figment::providers::{Env, Format, Toml};
use lock_runtime::LockClient;
use lock_runtime::policy::{LockConfig, Policy};
use lock_tower::LockLayer;

use crate::Failure;

/// The configuration if `CONFIG` names no file.
const BUILT_IN: &str = include_str!("orders.toml");

/// Reads the file; `REDIS_URL` overrides it, and `MYAPP_LOCK_…` overrides both.
pub(crate) fn load() -> Result<LockConfig, Failure> {
    let file = match env::var_os("CONFIG") {
        Some(path) => Figment::new().merge(Toml::file_exact(path)),
        None => Figment::new().merge(Toml::string(BUILT_IN)),
    };
    let redis = env::var("REDIS_URL").ok().map(|url| ("lock.url", url));
    let variables = Env::prefixed("MYAPP_LOCK_")
        .map(|key| format!("lock.{}", key.as_str().replace("__", ".")).into());
    let all = redis.into_iter().fold(file, Figment::merge).merge(variables);
    // Its errors name the file or variable that is wrong, and show no password.
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
    // Checked before it is in effect: an annotated function must not lose its policy.
    new.check(lock_runtime::site::sites())?;
    // The layer must have a key for each route.
    LockLayer::routes(client)?.check(client, &new)?;
    client.reload(new.clone())?;
    Ok(new)
}

/// The policies that differ, and the routes if they do.
fn changes(old: &LockConfig, new: &LockConfig) -> Vec<String> {
    let find = |config: &LockConfig, name: &str| -> Option<Policy> {
        config.policies().find(|policy| policy.name() == name).cloned()
    };
    let names: BTreeSet<_> = old.policies().chain(new.policies()).map(Policy::name).collect();
    let differ = |name: &&str| find(old, name) != find(new, name);
    let mut changed: Vec<_> =
        names.into_iter().filter(differ).map(|name| format!("lock.policies.{name}")).collect();
    if old.defaults() != new.defaults() {
        changed.push("lock.defaults".to_owned());
    }
    if old.routes() != new.routes() {
        changed.push("lock.routes".to_owned());
    }
    changed
}
