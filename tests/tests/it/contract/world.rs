//! Where the cases run, and on which kind of lock.

use std::ops::Deref;
use std::sync::PoisonError;

pub(crate) use lock_runtime::admin::WaitInfo;
use lock_runtime::block_on;
use tokio::task::block_in_place;

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
pub(crate) struct World {
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// True if the calls of its clients block.
    pub(super) blocks: bool,
}

/// What keeps the locks.
#[allow(clippy::large_enum_variant, reason = "each case has one")]
pub(super) enum Place {
    Memory(MemoryStore),
    Redis(RedisServer),
    /// A cluster of one node, whose clients take its address for that of a single server (S-40).
    OneAddress(Lent),
    Cluster(Lent),
    /// Three servers, a majority of which keeps each lock (S-29).
    Three(Vec<RedisServer>),
}

impl Place {
    pub(super) fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    pub(super) async fn redis() -> Self {
        Self::Redis(RedisServer::start().await)
    }

    pub(super) async fn one_address() -> Self {
        Self::OneAddress(Lent::borrow(1).await)
    }

    pub(super) async fn cluster() -> Self {
        Self::Cluster(Lent::borrow(MASTERS).await)
    }

    pub(super) async fn three_servers() -> Self {
        Self::Three(crate::support::quorum::servers(3).await)
    }

    fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(server) => vec![server],
            Self::OneAddress(cluster) => vec![cluster.node(0)],
            Self::Cluster(cluster) => (0..MASTERS).map(|at| cluster.node(at)).collect(),
            Self::Three(servers) => servers.iter().collect(),
        }
    }
}

impl World {
    /// A client as another process would have it.
    pub(crate) async fn client(&self) -> Peer {
        self.client_with(LockClient::builder()).await
    }

    /// The same, with settings of its own.
    pub(crate) async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        let client = match self.blocks {
            true => block_in_place(|| block_on(self.connect(builder))),
            false => self.connect(builder).await,
        };
        Peer { client: client.unwrap(), kind: self.kind, blocks: self.blocks }
    }

    async fn connect(&self, builder: LockClientBuilder) -> Result<LockClient, LockError> {
        let urls = self.place.servers().into_iter().map(RedisServer::url);
        match &self.place {
            Place::Memory(store) if self.kind == Kind::OneServer => {
                builder.quorum_of([Arc::new(store.peer()) as Arc<dyn Store>], RestartGuard::Off)
            }
            Place::Memory(store) => builder.store(store.peer()),
            Place::Cluster(cluster) => builder.connect_cluster([cluster.node(0).url()]).await,
            Place::Redis(_) | Place::OneAddress(_) if self.kind != Kind::OneServer => {
                builder.connect(&self.place.servers()[0].url()).await
            }
            _ => builder.connect_quorum(urls, RestartGuard::Off).await,
        }
    }

    /// Hold counts by owner, as the store shows them.
    pub(crate) async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        match &self.place {
            Place::Memory(store) => store.holders(name).0,
            Place::Cluster(cluster) => self.holders_on(cluster.owner_of(name).await, name).await,
            // What two of them say, with the higher count: the third may hear later of either.
            Place::Three(servers) => {
                let shown = servers.iter().map(|server| self.holders_on(server, name));
                let mut counts = BTreeMap::<String, Vec<u32>>::new();
                for (owner, count) in join_all(shown).await.into_iter().flatten() {
                    counts.entry(owner).or_default().push(count);
                }
                let known = counts.into_iter().filter(|(_, counts)| counts.len() >= 2);
                known.map(|(owner, counts)| (owner, counts.into_iter().max().unwrap())).collect()
            }
            place => self.holders_on(place.servers()[0], name).await,
        }
    }

    async fn holders_on(&self, server: &RedisServer, name: &str) -> Vec<(String, u32)> {
        let raw = server.client();
        if self.kind == Kind::OnePermit {
            let (key, now) = (format!("{{{name}}}:timeout"), raw.time_millis().await.to_string());
            let held: Vec<String> = raw.get(&["ZRANGEBYSCORE", &key, &now, "+inf"]).await;
            return held.into_iter().map(|owner| (owner, 1)).collect();
        }
        let hash = raw.hgetall(name).await.into_iter();
        let counts = hash.filter(|(field, _)| field != "mode");
        counts.map(|(owner, count)| (owner, count.parse().unwrap())).collect()
    }

    /// Waits until a waiter listens for the lock's release, at each server of a majority.
    pub(crate) async fn subscribed(&self, name: &str) {
        if let Place::Memory(_) = self.place {
            // Nothing there takes time but what waits.
            return sleep(ms(50)).await;
        }
        let pattern = format!("*{{{name}}}*");
        let listens = async |server: &RedisServer| {
            let raw = server.client();
            let shared: Vec<String> = raw.get(&["PUBSUB", "CHANNELS", &pattern]).await;
            let of_shards: Vec<String> = raw.get(&["PUBSUB", "SHARDCHANNELS", &pattern]).await;
            !shared.is_empty() || !of_shards.is_empty()
        };
        soon!("a waiter listens", {
            let all = join_all(self.place.servers().into_iter().map(listens)).await;
            if let Place::Three(_) = self.place {
                !all.contains(&false)
            } else {
                all.contains(&true)
            }
        });
    }

    /// Waits until no task holds the lock, no longer than a few round trips take.
    pub(crate) async fn free_soon(&self, name: &str) {
        let free = async || self.holders(name).await.is_empty();
        eventually(promptly(), "the lock is free", free).await;
    }

    /// At how many awaits an acquire of a free lock waits for the store, at least.
    pub(crate) fn awaits_of_an_acquire(&self) -> usize {
        usize::from(!matches!(self.place, Place::Memory(_)))
    }

    /// How many waiters make a long line: more than one block of tokens serves, and fewer where each is a thread that lists
    /// all others as it joins, or its sign of life a script of its own.
    pub(crate) fn crowd(&self) -> usize {
        if self.blocks || matches!(self.place, Place::OneAddress(_)) { 300 } else { 1_000 }
    }
}

/// Far less than any lease used here, and plenty for a few round trips on a busy machine.
pub(crate) fn promptly() -> Duration {
    lock_tests::patience(ms(700))
}

/// The shortest watchdog lease used here: three renewals fit well, on a busy machine too.
pub(crate) const SHORT: Duration = ms(900);

const MASTERS: usize = 3;

/// Clusters of one node, and of more, that no case has.
static IDLE: [Mutex<Vec<RedisCluster>>; 2] = [Mutex::new(Vec::new()), Mutex::new(Vec::new())];

/// A cluster, empty at first, for one case alone: made once, and lent to one case after the other.
pub(super) struct Lent {
    /// `None` once it is given back.
    cluster: Option<RedisCluster>,
    masters: usize,
}

impl Lent {
    fn idle(masters: usize) -> std::sync::MutexGuard<'static, Vec<RedisCluster>> {
        IDLE[usize::from(masters > 1)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn borrow(masters: usize) -> Self {
        let lent = Self::idle(masters).pop();
        let cluster = match lent {
            Some(cluster) => cluster,
            None if masters == 1 => RedisCluster::of_one(0).await,
            None => RedisCluster::start().await,
        };
        for at in 0..masters {
            let client = cluster.node(at).client();
            soon!("its last holder is gone", {
                let info: String = client.get(&["INFO", "clients"]).await;
                info.lines().any(|line| line == "connected_clients:1")
            });
            client.cmd(&["FLUSHALL"]).await;
        }
        Self { cluster: Some(cluster), masters }
    }
}

impl Deref for Lent {
    type Target = RedisCluster;

    fn deref(&self) -> &RedisCluster {
        self.cluster.as_ref().unwrap()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        Self::idle(self.masters).extend(self.cluster.take());
    }
}
