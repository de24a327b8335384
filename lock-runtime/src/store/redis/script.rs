//! Lua scripts: one file each, sent by their hash, loaded where the server does not know them.

use std::sync::LazyLock;

use redis::{Cmd, RedisError, Value};
use tokio::time::Instant;

use super::link::{CallError, Link};

/// A script and its hash.
pub(super) struct Script {
    source: &'static str,
    sha: String,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!($file)));
    };
}

script!(MUTEX_ACQUIRE, "mutex_acquire.lua");
script!(MUTEX_RELEASE, "mutex_release.lua");
script!(RENEW, "renew.lua");
script!(SHOW_COUNT, "show_count.lua");

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, sha: redis::Script::new(source).get_hash().to_owned() }
    }

    /// Starts a call with `keys` keys; add the keys and then the arguments.
    pub(super) fn call(&self, keys: usize) -> Cmd {
        // Room for all arguments at once: growing would cost more than all else here.
        let mut cmd = Cmd::with_capacity(8 + 3 * keys, 128 + 128 * keys);
        cmd.arg("EVALSHA").arg(&self.sha).arg(keys);
        cmd
    }

    /// Runs a call of this script.
    ///
    /// NOSCRIPT says that nothing ran, so loading and asking again is safe at any time. It can come
    /// again if somebody flushes the scripts in between.
    pub(super) async fn run(
        &self,
        link: &Link,
        call: &Cmd,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        loop {
            match link.call(call, deadline).await {
                Err(CallError::Server(error)) if is_noscript(&error) => {
                    let mut load = redis::cmd("SCRIPT");
                    load.arg("LOAD").arg(self.source);
                    link.call(&load, deadline).await.map_err(CallError::nothing_ran)?;
                }
                result => return result,
            }
        }
    }
}

fn is_noscript(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}
