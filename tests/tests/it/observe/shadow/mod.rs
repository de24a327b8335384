//! Shadow mode (`enforce`): calls whose policy is not enforced run at once, are counted, and leave nothing.

mod drops;
mod hot;
mod layer;
mod logs;
mod nested;
mod outages;
mod probes;

use metrics::LocalRecorderGuard;

pub(crate) use crate::observe::recorder::Kept;
pub(crate) use crate::observe::scenario::*;

/// How long one call may wait for the store, and only the first of an outage does.
pub(crate) const A_LOOK: Duration = ms(50);

/// One look, one release, and the rest for a busy machine: a fifth of what a look each would come to.
pub(crate) const FIFTY_CALLS: Duration = A_LOOK.saturating_mul(10);

/// A probe that is under way, the rest after it, the next one; and a busy machine.
pub(crate) const NOTICED: Duration = secs(2);

const CONFIG: &str = "
    [lock.policies]
    trial = { enforce = false, wait = '60s', key = 'job:{header.x-job}' }
    brief = { enforce = false, lease = '1s' }
    acked = { enforce = false, replicas = { acks = 1, timeout = '5s' } }
";

pub(crate) async fn connect(url: &str) -> LockClient {
    let config = LockConfig::from_toml(CONFIG).unwrap();
    LockClient::builder().config(config).connect(url).await.unwrap()
}

#[distributed_lock(key = "job:{id}", policy = "trial", client = client)]
pub(crate) async fn job(client: &LockClient, id: u64) -> Result<bool, LockError> {
    Ok(!client.admin().held().is_empty())
}

pub(crate) fn counted(seen: &Kept, outcome: &str) -> u32 {
    seen.sum("lock_acquire_total", &[("outcome", outcome)]) as u32
}

/// A server, a client of it, and what is counted.
pub(crate) struct Scenario {
    pub(crate) seen: Kept,
    pub(crate) server: RedisServer,
    pub(crate) client: LockClient,
}

/// The scenario of these tests; the counts end with the guard.
pub(crate) async fn start() -> (Scenario, LocalRecorderGuard<'static>) {
    let (seen, here) = Kept::here();
    let server = RedisServer::start().await;
    let client = connect(&server.url()).await;
    (Scenario { seen, server, client }, here)
}
