//! Clients that connect to the address of a configuration.

use crate::client::{LockClient, LockClientBuilder};
use crate::error::LockError;
use crate::policy::{LockAddress, LockConfig};

impl LockClient {
    /// Connects to the address of the configuration, and follows the configuration.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect_config`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let config = LockConfig::from_toml(
    ///     r#"
    ///     [lock]
    ///     url = "memory:"     # redis://127.0.0.1:6379 for Redis
    ///     [lock.policies.checkout]
    ///     wait = "2s"
    ///     "#,
    /// )?;
    /// let client = LockClient::from_config(config).await?;
    /// client.install();
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn from_config(config: LockConfig) -> Result<Self, LockError> {
        Self::builder().connect_config(config).await
    }
}

impl LockClientBuilder {
    /// Connects to the address of the configuration, and follows it, as [`config`](Self::config) does.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] if it has no address, or one of a kind that this release or this build
    ///   does not support.
    /// - As [`LockClient::connect`]; for sentinels [`LockClient::connect_sentinel`], for a cluster
    ///   [`connect_cluster`](Self::connect_cluster), and for a quorum
    ///   [`QuorumBuilder::connect`](crate::quorum::QuorumBuilder::connect).
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
    /// use lock_runtime::policy::LockConfig;
    /// use std::time::Duration;
    ///
    /// let config = LockConfig::from_toml_file("app.toml")?;
    /// let client = LockClient::builder()
    ///     .store_patience(Duration::from_secs(2))
    ///     .connect_config(config)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_config(self, config: LockConfig) -> Result<LockClient, LockError> {
        let address = config.address().cloned();
        #[cfg(feature = "redis")]
        let guard = config.restart_guard();
        let builder = self.config(config);
        let invalid = |message: &str| Err(LockError::InvalidOptions(message.to_owned()));
        match address {
            Some(LockAddress::Memory) => builder.in_memory(),
            None => invalid(
                "the configuration names no server; give one as lock.url, or \"memory:\" for locks \
                 of this process",
            ),
            #[cfg(feature = "redis")]
            Some(LockAddress::Server(url)) => builder.connect(url.as_str()).await,
            #[cfg(feature = "redis")]
            Some(LockAddress::Quorum(nodes)) => {
                let quorum = crate::quorum::Quorum::builder().configured(guard);
                let quorum = quorum.client(builder).connect(nodes).await?;
                Ok(quorum.client().clone())
            }
            #[cfg(feature = "redis")]
            Some(LockAddress::Sentinel(crate::policy::Sentinel { master, nodes })) => {
                builder.connect_sentinel(master.as_str(), nodes).await
            }
            #[cfg(feature = "redis")]
            Some(LockAddress::Cluster(nodes)) => builder.connect_cluster(nodes).await,
            #[cfg(not(feature = "redis"))]
            Some(
                LockAddress::Server(_)
                | LockAddress::Cluster(_)
                | LockAddress::Sentinel(_)
                | LockAddress::Quorum(_),
            ) => invalid(
                "this build has no Redis in it; turn on the feature `redis` of lock-runtime",
            ),
        }
    }
}
