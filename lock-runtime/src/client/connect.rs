//! The ways to make a client: one server, sentinels, a cluster, the memory of this process.

use std::sync::Arc;

#[cfg(feature = "__internals")]
use super::RestartGuard;
use super::{LockClient, LockClientBuilder};
use crate::error::LockError;
#[cfg(feature = "redis")]
use crate::error::{StoreError, check_runtime};
use crate::store::Store;
use crate::store::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::store::redis::{ClusterStore, ConnectionName, RedisStore, TlsOptions};

impl LockClientBuilder {
    /// Connects to one Redis server, version 7.0 or later: see [`LockClient::connect`] for the address.
    ///
    /// One connection carries all requests and notifications (RESP3), and is replaced whenever it breaks.
    ///
    /// # Permissions
    ///
    /// A dedicated user needs, for keys and channels under any prefix, these commands, which the scripts call as
    /// well:
    ///
    /// ```text
    /// ACL SETUSER locks on >SECRET ~* resetchannels &* -@all
    ///   +evalsha +script|load +ping +subscribe +unsubscribe +publish +wait +scan
    ///   +exists +type +del +pttl +pexpire +pexpireat +persist +rename +time +get +set +incrby +decr
    ///   +hexists +hget +hgetall +hkeys +hmget +hrandfield +hset +hdel
    ///   +lindex +llen +lpop +lpos +lrange +lrem +rpush
    ///   +zadd +zcard +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zrevrange +zscore
    /// ```
    ///
    /// For mutexes alone, the first line, without `wait` and `scan`, and `pttl pexpire pexpireat hexists hset hdel del time
    /// get set incrby` are enough. `wait` is for locks that ask for replicas, `type` for
    /// [`inspect`](crate::admin::Admin::inspect) and
    /// [`force_release`](crate::admin::Admin::force_release). For operators' tools alone are `scan`, which
    /// [lists the names in use](crate::admin::Admin::survey), and the channels of messages between clients, which `&*`
    /// contains: without them everything else works.
    /// With `+client|setname` connections have the name of [`LockClient::id`](crate::LockClient::id) in `CLIENT LIST`; with
    /// `+client|list`, a [survey](crate::admin::Survey) reads these names where a holder does not answer.
    /// With a [restart guard](super::RestartGuard), `+info` as well, which also has
    /// `connect` warn of a server that evicts keys; with
    /// [sentinels](Self::connect_sentinel), `+role`.
    ///
    /// # One address of a cluster
    ///
    /// Some services show a whole cluster as one address. Such an address works: scripts have the names of one slot from the first
    /// answer on that tells it, and a warning says so once. The names of one multi-lock need a common hash tag there.
    ///
    /// # Servers for locks
    ///
    /// Use `maxmemory-policy noeviction`: an evicted lock is a lost one. Each name leaves one small counter, which
    /// expires a day after its last use; it keeps fencing tokens growing.
    ///
    /// # Errors
    ///
    /// As [`LockClient::connect`], and [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting
    /// is invalid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    #[cfg(feature = "redis")]
    pub async fn connect(self, url: &str) -> Result<LockClient, LockError> {
        self.check()?;
        check_runtime()?;
        let store = RedisStore::connect_as(self.connection_name(), url, self.tls_options()).await?;
        self.on(Arc::new(store))
    }

    /// Connects to the master that Redis Sentinel reports, and follows it through failovers.
    ///
    /// `master` is the sentinels' name of it or, if it needs credentials, another database or TLS, an address
    /// with the name in place of a host and without a port: `redis://user:password@locks/2`, `rediss://locks`.
    /// `nodes` are the addresses of the sentinels, preferably all: `redis://[user:password@]host[:port]`, with
    /// the *sentinels'* credentials, or `rediss://`; the default port is 26379. Over `rediss://` a server's
    /// certificate must be for the address that the sentinels announce, which is an IP address unless they are
    /// configured with `sentinel announce-hostnames yes`.
    ///
    /// All sentinels are asked at once whenever a connection is made, and about once a second while it lasts;
    /// the answer with the highest configuration epoch counts, and the server itself must confirm that it is a
    /// master. The connection to an idle master is checked once a second, or more often if the sentinels
    /// replace it after less than eight seconds of silence. The client needs `+sentinel|master
    /// +sentinel|get-master-addr-by-name` on the sentinels, and for fast notification `+subscribe` and the
    /// channels `+switch-master` and `+promoted-slave`.
    ///
    /// # What a failover does to locks
    ///
    /// The connection is closed as soon as a sentinel reports another master, even if the old one still
    /// answers, and before that if the master is silent for so long that the sentinels may replace it (their
    /// `down-after-milliseconds`; set it to at least a second). The outcome of requests under way is then
    /// unknown, and they are repeated. Waiters continue at the new master. Callers wait for it as for any store
    /// that is down, within [`store_patience`](Self::store_patience): set that to more than
    /// a failover takes.
    ///
    /// Redis replicates asynchronously, so the new master may not know the last locks that the old one granted.
    /// Their holders learn that from their next renewal, at most a third of the lease later
    /// ([`LossCause::NotOwner`](crate::error::LossCause::NotOwner)); another client may have the lock by then.
    /// Nor may it know the last releases, so each client makes its releases of the last three seconds once more.
    /// And until an old master that is cut off learns that it was replaced, it may grant locks to clients that
    /// are cut off with it. Protections, from the cheapest to the safest:
    ///
    /// - `min-replicas-to-write 1` and a low `min-replicas-max-lag` on the servers: a master without replicas
    ///   stops granting;
    /// - [`replicas`](crate::LockOptions::replicas): a lock counts once a replica has it, and
    ///   Sentinel promotes an up-to-date replica if there is one;
    /// - [fencing tokens](crate::FencingToken), checked by the resource: they grow across a failover, so the
    ///   resource refuses the earlier holder.
    ///
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid.
    /// - [`LockError::Store`] at once if an address or the name is wrong, no sentinel or not the master can be
    ///   reached, or one of the servers refuses the credentials. Once connected, the client reconnects by itself,
    ///   forever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lock_runtime::LockError> {
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::builder()
    ///     .store_patience(Duration::from_secs(30)) // longer than a failover takes
    ///     .connect_sentinel("locks", ["redis://one", "redis://two", "redis://three"])
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub async fn connect_sentinel<U: AsRef<str>>(
        self,
        master: &str,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<LockClient, LockError> {
        self.check()?;
        check_runtime()?;
        let (name, tls) = (self.connection_name(), self.tls_options());
        let store = RedisStore::connect_sentinel_as(name, master, nodes, tls).await?;
        self.on(Arc::new(store))
    }

    /// Connects to a Redis Cluster, version 7.0 or later, through the first of these nodes that answers: `redis://` or, with
    /// the feature `tls-rustls`, `rediss://` addresses. Each lock is kept at the master that has its slot.
    ///
    /// The other nodes are reached at the addresses that they announce, with the credentials and TLS of the addresses
    /// given. Each master has two connections, one for commands and one for notifications, and a third if locks ask for
    /// replicas.
    ///
    /// # Several names in one lock
    ///
    /// The names of one [`multi_lock`](crate::LockClient::multi_lock) must be in one slot: give them a common hash
    /// tag, as in `{order:7}:stock` and `{order:7}:invoice`. All other kinds of locks always have their keys in one
    /// slot.
    ///
    /// # Fail-over
    ///
    /// A cluster copies to its replicas after it has answered. When a master dies, **the replica that replaces it
    /// may not know its last grants**, and another client may get the lock while the holder still runs. The same
    /// can happen to grants of a master that is cut off from the others, for up to their `cluster-node-timeout`. A
    /// holder whose lock was lost in this way learns it from its next renewal, up to a third of the lease later.
    /// With [`replicas`](crate::LockOptions::replicas) a hold counts only once replicas have
    /// confirmed it, which makes this rare; [fencing tokens](crate::FencingToken), checked by the protected
    /// resource, make it harmless. A replica that did not get the last counter continues from its own clock, so
    /// tokens grow if the clocks of a master and its replicas differ by less than the failover takes.
    ///
    /// Until the replica has taken over, locks of those slots fail or wait as with one server that is down. To
    /// survive a failover, set [`store_patience`](Self::store_patience) to more than
    /// `cluster-node-timeout` and an election take, and leases to more than that. Locks of other slots are not
    /// affected if the servers have `cluster-require-full-coverage no`; with `yes`, the default, a cluster answers
    /// no requests meanwhile.
    ///
    /// # Moving slots
    ///
    /// Held locks stay held and are renewed while their slot moves to another node; waiters keep their
    /// subscriptions at the node that has the slot. A request that needs several keys of a lock at once waits until
    /// all of them are at one node: most acquires, and every request about read/write locks and several names at
    /// once. So move slots quickly: a hold of several names, a reader or a permit whose keys stay divided for
    /// longer than its lease is lost, and acquires fail after
    /// [`store_patience`](Self::store_patience).
    ///
    /// Move a slot on only when all nodes know of its last move; `redis-cli --cluster check` compares their
    /// slots, and `CLUSTER NODES` shows their epochs. A node that gets a slot before it has heard of the
    /// epoch of the node that gives it may choose a lower one. The servers then take the slot back and delete
    /// its keys, the locks among them. A holder learns of that by
    /// [`LossCause::NotOwner`](crate::error::LossCause::NotOwner).
    ///
    /// # Redisson
    ///
    /// Notifications are sent with `SPUBLISH`, as with Redisson 3.22 and later on servers of version 7. Older
    /// versions, and those with `shardedSubscriptionMode` off, exclude each other with these clients but notice
    /// their releases only by polling.
    ///
    /// # Permissions
    ///
    /// The permissions that [`connect`](Self::connect) needs of one server, without `subscribe`, `unsubscribe` and
    /// `publish`, and
    ///
    /// ```text
    ///   +cluster|slots +asking +ssubscribe +sunsubscribe +spublish
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid.
    /// - [`LockError::Store`] at once if there is no address, an address is invalid or names a database, no
    ///   node can be reached, or the node is not in cluster mode or refuses the credentials. Once connected,
    ///   the client follows the cluster and reconnects by itself, forever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lock_runtime::LockError> {
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::builder()
    ///     .store_patience(Duration::from_secs(20)) // longer than a failover takes
    ///     .connect_cluster(["redis://one:7000", "redis://two:7000", "redis://three:7000"])
    ///     .await?;
    /// let guard = client.mutex("order:42").lock().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub async fn connect_cluster<U: AsRef<str>>(
        self,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<LockClient, LockError> {
        self.check()?;
        check_runtime()?;
        let store =
            ClusterStore::connect_as(self.connection_name(), nodes, self.tls_options()).await?;
        self.on(Arc::new(store))
    }

    /// A store that is not connected yet, for one of several servers.
    #[cfg(feature = "redis")]
    pub(crate) fn prepare(
        &self,
        url: &str,
        name: &ConnectionName,
    ) -> Result<RedisStore, StoreError> {
        RedisStore::prepare(url, self.tls_options(), name.clone())
    }

    #[cfg(feature = "redis")]
    fn tls_options(&self) -> Option<&TlsOptions> {
        #[cfg(feature = "tls-rustls")]
        return self.tls.as_ref();
        #[cfg(not(feature = "tls-rustls"))]
        None
    }

    /// Creates a client of one Redis server that may not be running yet: see [`LockClient::connect_lazy`].
    ///
    /// # Errors
    ///
    /// As [`LockClient::connect_lazy`], and [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a
    /// setting is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::builder().namespace("shop").connect_lazy("redis://127.0.0.1:6379")?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[cfg(feature = "redis")]
    pub fn connect_lazy(self, url: &str) -> Result<LockClient, LockError> {
        let store = self.prepare(url, &self.connection_name())?;
        store.connect_soon();
        self.on(Arc::new(store))
    }

    /// Creates a client of a new in-memory store.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid.
    pub fn in_memory(self) -> Result<LockClient, LockError> {
        self.on(Arc::new(MemoryStore::new()))
    }

    /// Creates a client of this in-memory store, for tests: clients of clones of one store share their locks, and each acts
    /// as a process of its own.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let one = LockClient::builder().memory(store.clone())?;
    /// let other = LockClient::builder().memory(store)?;
    /// let guard = one.mutex("job").lock().await?;
    /// assert!(other.mutex("job").try_lock().await?.is_none());
    /// # drop(guard);
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(self, store: MemoryStore) -> Result<LockClient, LockError> {
        self.on(Arc::new(store))
    }

    pub(crate) fn on(self, store: Arc<dyn Store>) -> Result<LockClient, LockError> {
        self.check()?;
        let settings = self.settings()?;
        Ok(self.build(store, settings))
    }
}

/// What the tests of the workspace build clients of.
#[cfg(feature = "__internals")]
impl LockClientBuilder {
    /// Creates a client of this store.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid.
    #[doc(hidden)]
    pub fn store(self, store: impl Store) -> Result<LockClient, LockError> {
        self.on(Arc::new(store))
    }

    /// Creates a client of a quorum of these stores, one for each server.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid, or there are no stores.
    #[doc(hidden)]
    pub fn quorum_of(
        self,
        stores: impl IntoIterator<Item = Arc<dyn Store>>,
        guard: RestartGuard,
    ) -> Result<LockClient, LockError> {
        self.on_quorum(stores.into_iter().collect(), guard)
    }
}
