//! Where the cases run.

use std::time::Duration;

use futures_util::future::join_all;
use lock_runtime::{LockClient, LockClientBuilder, MemoryStore, Quorum};
use lock_tests::RedisServer;

/// Locks that several processes share.
pub(crate) trait World {
    /// A client as another process would have it, with settings of its own.
    async fn client_with(&self, builder: LockClientBuilder) -> LockClient;

    /// Hold counts by owner, as the store shows them.
    async fn holders(&self, name: &str) -> Vec<(String, u32)>;

    /// A client as another process would have it.
    async fn client(&self) -> LockClient {
        self.client_with(LockClient::builder()).await
    }

    /// Waits until nobody holds the lock, no longer than a few round trips take.
    async fn free_soon(&self, name: &str) {
        lock_tests::eventually(SOON, "the lock is free", async || {
            self.holders(name).await.is_empty()
        })
        .await;
    }
}

/// Far less than any lease used here, and plenty for a few round trips on a busy machine.
pub(crate) const SOON: Duration = Duration::from_millis(700);

/// The shortest watchdog lease used here: three renewals fit well, on a busy machine too.
pub(crate) const SHORT: Duration = Duration::from_millis(900);

/// The in-memory store.
pub(crate) struct Memory(MemoryStore);

impl Memory {
    pub(crate) fn new() -> Self {
        Self(MemoryStore::new())
    }
}

impl World for Memory {
    async fn client_with(&self, builder: LockClientBuilder) -> LockClient {
        builder.store(self.0.peer()).unwrap()
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        self.0.holders(name).0
    }
}

/// A Redis server of its own.
pub(crate) struct Redis {
    server: RedisServer,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        Self { server: RedisServer::start().await }
    }
}

impl World for Redis {
    async fn client_with(&self, builder: LockClientBuilder) -> LockClient {
        builder.connect(&self.server.url()).await.unwrap()
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        let hash = self.server.client().hgetall(name).await;
        hash.into_iter().map(|(owner, count)| (owner, count.parse().unwrap())).collect()
    }
}

/// Three Redis servers, a majority of which keeps each lock (S-29).
pub(crate) struct Three {
    servers: Vec<RedisServer>,
}

impl Three {
    pub(crate) async fn start() -> Self {
        Self { servers: join_all((0..3).map(|_| RedisServer::start())).await }
    }
}

impl World for Three {
    async fn client_with(&self, builder: LockClientBuilder) -> LockClient {
        let urls = self.servers.iter().map(RedisServer::url);
        Quorum::builder().client(builder).connect(urls).await.unwrap().client().clone()
    }

    /// What two of them say, with the higher count: the third may hear later of either.
    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        let hashes = self.servers.iter().map(async |server| server.client().hgetall(name).await);
        let mut counts = std::collections::BTreeMap::<String, Vec<u32>>::new();
        for (owner, count) in join_all(hashes).await.into_iter().flatten() {
            counts.entry(owner).or_default().push(count.parse().unwrap());
        }
        let known = counts.into_iter().filter(|(_, counts)| counts.len() >= 2);
        known.map(|(owner, counts)| (owner, counts.into_iter().max().unwrap())).collect()
    }
}
