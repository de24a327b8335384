//! Where the cases run, and on which kind of lock.

use async_trait::async_trait;
pub(crate) use lock_runtime::admin::WaitInfo;

pub(crate) use super::peer::Peer;
pub(crate) use crate::prelude::*;

/// What stands in for a mutex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    WriteSide,
    OnePermit,
    OneName,
    /// A quorum of one.
    OneServer,
}

/// Locks that several processes share.
///
/// The cases take a `dyn World`, so that each is compiled once and not for every type of world.
#[async_trait(?Send)]
pub(crate) trait World {
    /// A client as another process would have it, with settings of its own.
    async fn client_with(&self, builder: LockClientBuilder) -> Peer;

    /// Hold counts by owner, as the store shows them.
    async fn holders(&self, name: &str) -> Vec<(String, u32)>;

    /// Whether a waiter listens for the lock's release.
    async fn is_subscribed(&self, name: &str) -> bool;

    /// Waits until a waiter listens for the lock's release.
    async fn subscribed(&self, name: &str) {
        eventually(secs(20), "a waiter listens", async || self.is_subscribed(name).await).await;
    }

    /// At how many awaits an acquire of a free lock waits for the store, at least.
    fn awaits_of_an_acquire(&self) -> usize {
        1
    }

    /// How many waiters make a long line: more than one block of tokens serves.
    fn crowd(&self) -> usize {
        1_000
    }

    /// A client as another process would have it.
    async fn client(&self) -> Peer {
        self.client_with(LockClient::builder()).await
    }

    /// Waits until no task holds the lock, no longer than a few round trips take.
    async fn free_soon(&self, name: &str) {
        let free = async || self.holders(name).await.is_empty();
        eventually(promptly(), "the lock is free", free).await;
    }
}

/// Far less than any lease used here, and plenty for a few round trips on a busy machine.
pub(crate) fn promptly() -> Duration {
    lock_tests::patience(ms(700))
}

/// The shortest watchdog lease used here: three renewals fit well, on a busy machine too.
pub(crate) const SHORT: Duration = ms(900);

/// The in-memory store.
pub(crate) struct Memory(MemoryStore, Kind);

impl Memory {
    pub(crate) fn new(kind: Kind) -> Self {
        Self(MemoryStore::new(), kind)
    }
}

#[async_trait(?Send)]
impl World for Memory {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        let client = match self.1 {
            Kind::OneServer => {
                let store: Arc<dyn Store> = Arc::new(self.0.peer());
                builder.quorum_of([store], RestartGuard::Off).unwrap()
            }
            _ => builder.store(self.0.peer()).unwrap(),
        };
        Peer::of(client, self.1)
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        self.0.holders(name).0
    }

    fn awaits_of_an_acquire(&self) -> usize {
        0
    }

    /// Nothing here takes time but what waits.
    async fn is_subscribed(&self, _: &str) -> bool {
        sleep(ms(50)).await;
        true
    }
}

/// A Redis server of its own.
pub(crate) struct Redis {
    server: RedisServer,
    kind: Kind,
}

impl Redis {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self { server: RedisServer::start().await, kind }
    }
}

#[async_trait(?Send)]
impl World for Redis {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        client_of(&self.server, builder, self.kind).await
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        holders_on(&self.server, self.kind, name).await
    }

    async fn is_subscribed(&self, name: &str) -> bool {
        has_subscribers(&self.server, name).await
    }
}

/// A client that takes the address for that of a single server.
pub(crate) async fn client_of(
    server: &RedisServer,
    builder: LockClientBuilder,
    kind: Kind,
) -> Peer {
    let url = server.url();
    let client = match kind {
        Kind::OneServer => {
            let quorum = builder;
            quorum.connect_quorum([url], RestartGuard::Off).await.unwrap()
        }
        _ => builder.connect(&url).await.unwrap(),
    };
    Peer::of(client, kind)
}

/// Whether a client has subscribed to a channel of the lock at this server.
pub(crate) async fn has_subscribers(server: &RedisServer, name: &str) -> bool {
    let (client, pattern) = (server.client(), format!("*{{{name}}}*"));
    let listed = ["CHANNELS", "SHARDCHANNELS"].map(async |list| {
        let channels: Vec<String> = client.get(&["PUBSUB", list, &pattern]).await;
        !channels.is_empty()
    });
    join_all(listed).await.contains(&true)
}

/// Hold counts by owner, as a server shows them.
pub(crate) async fn holders_on(server: &RedisServer, kind: Kind, name: &str) -> Vec<(String, u32)> {
    let client = server.client();
    if kind == Kind::OnePermit {
        let (key, now) = (format!("{{{name}}}:timeout"), client.time_millis().await.to_string());
        let held: Vec<String> = client.get(&["ZRANGEBYSCORE", &key, &now, "+inf"]).await;
        return held.into_iter().map(|owner| (owner, 1)).collect();
    }
    let hash = client.hgetall(name).await.into_iter();
    let counts = hash.filter(|(field, _)| field != "mode");
    counts.map(|(owner, count)| (owner, count.parse().unwrap())).collect()
}

/// Three Redis servers, a majority of which keeps each lock (S-29).
pub(crate) struct Three {
    servers: Vec<RedisServer>,
    kind: Kind,
}

impl Three {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self { servers: join_all((0..3).map(|_| RedisServer::start())).await, kind }
    }
}

#[async_trait(?Send)]
impl World for Three {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        let urls = self.servers.iter().map(RedisServer::url);
        let quorum = builder.connect_quorum(urls, RestartGuard::Off).await.unwrap();
        Peer::of(quorum, self.kind)
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

    async fn is_subscribed(&self, name: &str) -> bool {
        let subscribed = self.servers.iter().map(|server| has_subscribers(server, name));
        join_all(subscribed).await.into_iter().all(|subscribed| subscribed)
    }
}
