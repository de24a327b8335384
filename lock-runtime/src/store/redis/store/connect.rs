//! Connects a store to one server, or to the master that sentinels report.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;

use super::RedisStore;
use crate::error::StoreError;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::endpoint::sentinel::Sentinels;
use crate::store::redis::link::{ConnectionName, Link};
use crate::store::redis::requests::combine::Combiner;
use crate::store::redis::requests::info::{Age, warn_of_eviction};
use crate::store::redis::requests::replicated::Replicated;
use crate::store::redis::scripts::Publish;
use crate::store::redis::server::{TlsOptions, address};

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, `rediss://…` (feature
    /// `tls-rustls`), or `unix:///path[?db=…&user=…&pass=…]`.
    ///
    /// # Errors
    ///
    /// At once, by [`StoreError::kind`]: `Config` if the address cannot be used or the server's
    /// certificate is not trusted, `Unavailable` if the server cannot be reached, `Denied` if it
    /// refuses the credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_as(ConnectionName::new(None), url, None).await
    }

    /// As [`connect`](Self::connect) to a `rediss://` address, with a private authority or a client
    /// certificate.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); also `Config` if `tls` is invalid or the address does not use TLS.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::LockClient;
    /// use lock_runtime::store::{RedisStore, TlsOptions};
    ///
    /// let tls = TlsOptions::new().root_certificate(std::fs::read("ca.pem")?);
    /// let store = RedisStore::connect_with_tls("rediss://redis.internal:6380", &tls).await?;
    /// let client = LockClient::builder().store(store)?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub async fn connect_with_tls(url: &str, tls: &TlsOptions) -> Result<Self, StoreError> {
        Self::connect_as(ConnectionName::new(None), url, Some(tls)).await
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
    /// that is down, within [`store_patience`](crate::LockClientBuilder::store_patience): set that to more than
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
    /// - [`replicas`](crate::options::LockOptionsBuilder::replicas): a lock counts once a replica has it, and
    ///   Sentinel promotes an up-to-date replica if there is one;
    /// - [fencing tokens](crate::FencingToken), checked by the resource: they grow across a failover, so the
    ///   resource refuses the earlier holder.
    ///
    /// # Errors
    ///
    /// At once, by [`StoreError::kind`]: `Config` if an address is invalid, no sentinel knows the name, or the
    /// servers at the addresses are no sentinels; `Unavailable` if no sentinel or not the master can be
    /// reached; `NotReady` if the server is no master, as in the middle of a failover; `Denied` if sentinels or
    /// master refuse the credentials. Once connected, it reconnects forever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::store::RedisStore;
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let sentinels = ["redis://one:26379", "redis://two:26379", "redis://three:26379"];
    /// let store = RedisStore::connect_sentinel("redis://:secret@locks", sentinels).await?;
    /// let client = LockClient::builder().store_patience(Duration::from_secs(30)).store(store)?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_sentinel<U: AsRef<str>>(
        master: &str,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<Self, StoreError> {
        Self::connect_sentinel_as(ConnectionName::new(None), master, nodes, None).await
    }

    /// As [`connect_sentinel`](Self::connect_sentinel), with a private authority or a client certificate, for
    /// both sentinels and master: all addresses must be `rediss://`.
    ///
    /// # Errors
    ///
    /// As [`connect_sentinel`](Self::connect_sentinel); also `Config` if `tls` is invalid or an address does
    /// not use TLS.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::store::{RedisStore, TlsOptions};
    ///
    /// let tls = TlsOptions::new().root_certificate(std::fs::read("ca.pem")?);
    /// let sentinels = ["rediss://one", "rediss://two", "rediss://three"];
    /// let store = RedisStore::connect_sentinel_with_tls("rediss://locks", sentinels, &tls).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub async fn connect_sentinel_with_tls<U: AsRef<str>>(
        master: &str,
        nodes: impl IntoIterator<Item = U>,
        tls: &TlsOptions,
    ) -> Result<Self, StoreError> {
        Self::connect_sentinel_as(ConnectionName::new(None), master, nodes, Some(tls)).await
    }

    /// As [`connect`](Self::connect), for a client whose connections have that name.
    pub(crate) async fn connect_as(
        name: ConnectionName,
        url: &str,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, StoreError> {
        Self::open(name, address::client(url, tls)?).await
    }

    /// As [`connect_sentinel`](Self::connect_sentinel), for a client whose connections have that name.
    pub(crate) async fn connect_sentinel_as<U: AsRef<str>>(
        name: ConnectionName,
        master: &str,
        nodes: impl IntoIterator<Item = U>,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, StoreError> {
        Self::open(name, Sentinels::parse(master, nodes, tls)?).await
    }

    async fn open(name: ConnectionName, endpoint: impl Into<Endpoint>) -> Result<Self, StoreError> {
        let store = Self::on(Link::new(endpoint, name, None));
        store.connect_now().await?;
        Ok(store)
    }

    /// A store on a link that need not be connected yet.
    pub(crate) fn on(link: Arc<Link>) -> Self {
        let subscriptions = match link.publish() {
            Publish::Everywhere => Arc::clone(&link),
            Publish::InSlot => link.another(),
        };
        Self {
            combiner: Combiner::new(Arc::clone(&link)),
            replicated: Replicated::new(Arc::clone(&link)),
            subscriptions,
            link,
            age: Age::default(),
            is_claimed: AtomicBool::new(false),
        }
    }

    /// A store for one of several servers, which must still be [connected](Self::connect_now).
    pub(crate) fn prepare(
        url: &str,
        tls: Option<&TlsOptions>,
        name: ConnectionName,
    ) -> Result<Self, StoreError> {
        Ok(Self::on(Link::new(address::client(url, tls)?, name, None)))
    }

    /// Connects a prepared store in the background; outside of a runtime, its first use does.
    pub(crate) fn connect_soon(&self) {
        if Handle::try_current().is_ok() {
            self.link.ensure_task();
        }
    }

    /// Connects a prepared store. After an error it goes on in the background, which logs errors.
    pub(crate) async fn connect_now(&self) -> Result<(), StoreError> {
        let connected = self.link.connect_first().await;
        self.link.ensure_task();
        if connected.is_ok() {
            warn_of_eviction(&self.link).await;
        }
        connected
    }
}
