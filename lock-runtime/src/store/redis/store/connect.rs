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
    /// [`LockClientBuilder::connect_sentinel`](crate::LockClientBuilder::connect_sentinel) documents it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if an address is invalid, or a server cannot be reached or refuses.
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
