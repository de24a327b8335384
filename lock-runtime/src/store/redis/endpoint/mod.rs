//! What a link connects to: one server for ever, or whichever the sentinels name.

pub(crate) mod sentinel;

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::error::StoreError;
use crate::store::redis::endpoint::sentinel::{Named, Sentinels};
use crate::store::redis::server::address::prepare_to_connect;
use crate::store::redis::server::errors::{connect_error, server_error, was_closed};

/// See the module.
#[derive(Clone)]
pub(crate) struct Endpoint {
    names: Names,
    /// Told when a connection has been made by any link that has this source.
    reached: Arc<Notify>,
}

/// Who names the server.
#[derive(Clone)]
enum Names {
    Server(Arc<Client>),
    Sentinels(Arc<Sentinels>),
}

impl From<Client> for Endpoint {
    fn from(client: Client) -> Self {
        Self { names: Names::Server(Arc::new(client)), reached: Arc::default() }
    }
}

impl From<Sentinels> for Endpoint {
    fn from(sentinels: Sentinels) -> Self {
        Self { names: Names::Sentinels(Arc::new(sentinels)), reached: Arc::default() }
    }
}

impl Endpoint {
    /// Connects to the server, within `limit` once it is known which. Of one that sentinels named,
    /// its name, which is given up for a newer one while the connection is being made.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<(MultiplexedConnection, Option<Named>), StoreError> {
        let connected = match &self.names {
            Names::Server(client) => (connect(client, config, limit).await?, None),
            Names::Sentinels(sentinels) => {
                let (connection, named) = sentinels.connect(config, limit).await?;
                (connection, Some(named))
            }
        };
        self.reached.notify_waiters();
        Ok(connected)
    }

    /// The outcome of the first attempt to connect, with what the server says about it.
    pub(crate) async fn explained<T>(
        &self,
        outcome: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &self.names {
            Names::Server(client) => explained(client, outcome).await,
            Names::Sentinels(_) => outcome,
        }
    }

    /// What the server was named last, if it is one that is named.
    pub(crate) fn named(&self) -> Option<Named> {
        match &self.names {
            Names::Server(_) => None,
            Names::Sentinels(sentinels) => sentinels.named(),
        }
    }

    /// Looks for ever whether another server is named, and says so.
    pub(crate) async fn follow(&self, renamed: impl Fn()) {
        match &self.names {
            Names::Server(_) => std::future::pending().await,
            Names::Sentinels(sentinels) => sentinels.follow(renamed).await,
        }
    }

    /// Ends what [`follow`](Self::follow) has opened.
    pub(crate) fn rest(&self) {
        if let Names::Sentinels(sentinels) = &self.names {
            sentinels.rest();
        }
    }

    /// Waits before the next attempt to connect, no longer than until another server is named or, if wanted,
    /// until another link has reached the server.
    pub(crate) async fn pause(&self, pause: Duration, ends_when_reached: bool) {
        let renamed = async {
            match &self.names {
                Names::Server(_) => std::future::pending().await,
                Names::Sentinels(sentinels) => sentinels.renamed().await,
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = renamed => {}
            () = self.reached.notified(), if ends_when_reached => {}
        }
    }
}

/// How long a server may take to say why it closes a connection.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What a server that closed the connection has to say about it. The client library takes no answer that comes before
/// its first request, so this is a connection that asks for nothing.
pub(crate) async fn explained<T>(
    client: &Client,
    outcome: Result<T, StoreError>,
) -> Result<T, StoreError> {
    let (Err(error), ConnectionAddr::Tcp(host, port)) =
        (&outcome, client.get_connection_info().addr())
    else {
        return outcome;
    };
    if !was_closed(error) {
        return outcome;
    }
    let last_words = async {
        let mut words = Vec::new();
        let stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
        stream.take(256).read_to_end(&mut words).await.ok()?;
        let words = String::from_utf8(words).ok()?;
        let (code, detail) = words.trim_end().strip_prefix('-')?.split_once(' ')?;
        Some(redis::make_extension_error(code.to_owned(), Some(detail.to_owned())))
    };
    match timeout(LAST_WORDS, last_words).await {
        Ok(Some(error)) => Err(server_error(error)),
        _ => outcome,
    }
}

/// Connects to this server.
pub(crate) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
    limit: Duration,
) -> Result<MultiplexedConnection, StoreError> {
    prepare_to_connect(client);
    let connecting = client.get_multiplexed_async_connection_with_config(config);
    let connected = timeout(limit, connecting).await;
    let late = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    connected.unwrap_or_else(late).map_err(connect_error)
}
