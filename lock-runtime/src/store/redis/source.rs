//! What a link connects to: one server for ever, or whichever the sentinels name.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::time::{sleep, timeout};

use super::errors::connect_error;
use super::sentinel::{Named, Sentinels};
use crate::error::StoreError;

/// See the module.
#[derive(Clone)]
pub(super) enum Source {
    Server(Arc<Client>),
    Sentinels(Arc<Sentinels>),
}

impl From<Client> for Source {
    fn from(client: Client) -> Self {
        Self::Server(Arc::new(client))
    }
}

impl Source {
    /// Connects to the server, within `limit` once it is known which. Of one that sentinels named,
    /// its name, which is given up for a newer one while the connection is being made.
    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<(MultiplexedConnection, Option<Named>), StoreError> {
        match self {
            Self::Server(client) => Ok((connect(client, config, limit).await?, None)),
            Self::Sentinels(sentinels) => {
                let (connection, named) = sentinels.connect(config, limit).await?;
                Ok((connection, Some(named)))
            }
        }
    }

    /// What the server was named last, if it is one that is named.
    pub(super) fn named(&self) -> Option<Named> {
        match self {
            Self::Server(_) => None,
            Self::Sentinels(sentinels) => sentinels.named(),
        }
    }

    /// Looks for ever whether another server is named, and says so.
    pub(super) async fn follow(&self, renamed: impl Fn()) {
        match self {
            Self::Server(_) => std::future::pending().await,
            Self::Sentinels(sentinels) => sentinels.follow(renamed).await,
        }
    }

    /// Ends what [`follow`](Self::follow) has opened.
    pub(super) fn rest(&self) {
        if let Self::Sentinels(sentinels) = self {
            sentinels.rest();
        }
    }

    /// Waits before the next attempt to connect, no longer than until another server is named.
    pub(super) async fn pause(&self, pause: Duration) {
        match self {
            Self::Server(_) => sleep(pause).await,
            Self::Sentinels(sentinels) => {
                let _ = timeout(pause, sentinels.renamed()).await;
            }
        }
    }
}

/// Connects to this server.
pub(super) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
    limit: Duration,
) -> Result<MultiplexedConnection, StoreError> {
    let connecting = client.get_multiplexed_async_connection_with_config(config);
    let connected = timeout(limit, connecting).await;
    let late = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    connected.unwrap_or_else(late).map_err(connect_error)
}
