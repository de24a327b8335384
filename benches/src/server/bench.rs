//! One server, and the contenders on it.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_tests::RedisServer;
use rslock::LockManager;

use crate::Result;
use crate::server::contender::{Bare, Ours, OursFair, Peer};
use crate::server::drive;
use crate::timing::Timing;

/// How long every contender warms up: connections, scripts, caches, the CPU's clock.
const WARM_UP: Duration = Duration::from_millis(300);

/// The server and its clients.
pub(crate) struct Bench {
    pub(crate) server: RedisServer,
    pub(crate) timing: Timing,
    bare: Bare,
    client: LockClient,
    manager: LockManager,
}

impl Bench {
    /// Starts the server, connects and warms up.
    pub(crate) async fn start(timing: Timing) -> Result<Self> {
        let server = RedisServer::start().await;
        let url = server.url();
        let bare = Bare::connect(&url).await?;
        let client = LockClient::connect(&url).await?;
        let manager = LockManager::new(vec![url]);
        let bench = Self { server, timing, bare, client, manager };
        drive::alone(bench.bare("warm"), WARM_UP).await?;
        drive::alone(bench.ours("warm"), WARM_UP).await?;
        drive::alone(bench.peer("warm"), WARM_UP).await?;
        Ok(bench)
    }

    /// The two scripts, sent bare.
    pub(crate) fn bare(&self, name: &str) -> Bare {
        self.bare.on(&format!("bare:{name}"))
    }

    /// This library's mutex.
    pub(crate) fn ours(&self, name: &str) -> Ours {
        Ours::new(self.client.mutex(format!("ours:{name}")))
    }

    /// This library's fair mutex.
    pub(crate) fn fair(&self, name: &str) -> OursFair {
        OursFair::new(self.client.fair_mutex(format!("ours:{name}")))
    }

    /// rslock's lock.
    pub(crate) fn peer(&self, name: &str) -> Peer {
        Peer::new(self.manager.clone(), format!("peer:{name}"))
    }

    /// The number of calls of each command, inside scripts too.
    pub(crate) async fn commands(&self) -> Commands {
        Commands(self.server.command_calls().await)
    }

    /// The processor time that the server has used, in µs.
    pub(crate) async fn server_micros(&self) -> Result<f64> {
        let info: String = self.server.client().get(&["INFO", "cpu"]).await;
        let seconds = |name: &str| -> Result<f64> {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(value.ok_or("the server does not report its processor time")?.trim().parse()?)
        };
        Ok((seconds("used_cpu_user")? + seconds("used_cpu_sys")?) * 1e6)
    }

    /// The version that the server reports.
    pub(crate) async fn server_version(&self) -> String {
        let info: String = self.server.client().get(&["INFO", "server"]).await;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        version.unwrap_or("unknown").trim().to_owned()
    }

    /// Shuts the client down.
    pub(crate) async fn end(self) {
        self.client.shutdown(Duration::from_secs(1)).await;
    }
}

/// Calls of each command at one moment.
pub(crate) struct Commands(BTreeMap<String, u64>);

impl Commands {
    /// All calls since `earlier`, including those of scripts, without the benchmark's own.
    pub(crate) fn all_since(&self, earlier: &Self) -> u64 {
        self.0.keys().filter(|name| *name != "info").map(|name| self.since(earlier, name)).sum()
    }

    /// Calls of one command since `earlier`.
    pub(crate) fn since(&self, earlier: &Self, name: &str) -> u64 {
        let calls = |commands: &Self| commands.0.get(name).copied().unwrap_or_default();
        calls(self).saturating_sub(calls(earlier))
    }
}
