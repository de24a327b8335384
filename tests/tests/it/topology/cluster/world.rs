//! What the tests have in common.

use tokio::sync::OnceCell;

use crate::prelude::*;

/// More than a busy machine takes for a few round trips.
pub(crate) const PROMPTLY: Duration = secs(5);

/// A waiter that has only polling left does not come before.
pub(crate) const POLL_CAP: Duration = secs(30);

static SHARED: OnceCell<RedisCluster> = OnceCell::const_new();

/// One that the tests that break nothing share, each with names of its own.
pub(crate) async fn shared() -> &'static RedisCluster {
    SHARED.get_or_init(RedisCluster::start).await
}

/// A client as another process would have it, which finds the cluster by one node.
pub(crate) async fn client(cluster: &RedisCluster) -> LockClient {
    client_with(cluster, LockClient::builder()).await
}

pub(crate) async fn client_with(cluster: &RedisCluster, builder: LockClientBuilder) -> LockClient {
    builder.poll_cap(POLL_CAP).connect_cluster([cluster.node(1).url()]).await.unwrap()
}

/// When a hold ends unless it is renewed.
pub(crate) struct End(Instant);

impl End {
    pub(crate) fn of(guard: &LockGuard) -> Self {
        Self(Instant::now() + guard.remaining())
    }

    /// True if the hold has been renewed since.
    pub(crate) fn has_moved(&self, guard: &LockGuard) -> bool {
        Self::of(guard).0 > self.0 + ms(100)
    }
}
