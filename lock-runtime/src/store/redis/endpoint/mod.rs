//! Which server a link connects to: always the same one, or the master that the sentinels name.

pub(crate) mod sentinel;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use redis::{AsyncConnectionConfig, Client};
use tokio::sync::Notify;
use tokio::time::sleep;

use self::sentinel::{Master, Sentinels};
use crate::error::StoreError;
use crate::store::redis::server::{self, Opened};

/// The server that a link connects to: a fixed one, or the master that the sentinels report.
#[derive(Clone)]
pub(crate) struct Endpoint {
    discovery: Discovery,
    /// Notified when any link with this endpoint has connected.
    reached: Arc<Notify>,
}

/// How to find the server.
#[derive(Clone)]
enum Discovery {
    Single(Arc<Client>),
    Sentinels(Arc<Sentinels>),
}

impl From<Client> for Endpoint {
    fn from(client: Client) -> Self {
        Self { discovery: Discovery::Single(Arc::new(client)), reached: Arc::default() }
    }
}

impl From<Sentinels> for Endpoint {
    fn from(sentinels: Sentinels) -> Self {
        Self { discovery: Discovery::Sentinels(Arc::new(sentinels)), reached: Arc::default() }
    }
}

impl Endpoint {
    /// Connects to the server, within `limit` once it is known. With sentinels, also returns the master that they
    /// name, and starts again if they name another one meanwhile.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<(Opened, Option<Master>), StoreError> {
        let connected = match &self.discovery {
            Discovery::Single(client) => (server::open(client, config, limit).await?, None),
            Discovery::Sentinels(sentinels) => {
                let (connection, master) = sentinels.connect(config, limit).await?;
                (connection, Some(master))
            }
        };
        self.reached.notify_waiters();
        Ok(connected)
    }

    /// The outcome of the first attempt to connect, with the server's reason for an error.
    pub(crate) async fn explained<T>(
        &self,
        outcome: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &self.discovery {
            Discovery::Single(client) => server::explained(client, outcome).await,
            Discovery::Sentinels(_) => outcome,
        }
    }

    /// The address of the server, without credentials; with sentinels, what is known of the master.
    pub(crate) fn address(&self) -> String {
        match &self.discovery {
            Discovery::Single(client) => client.get_connection_info().addr().to_string(),
            Discovery::Sentinels(sentinels) => match sentinels.master() {
                Some(master) => master.address(),
                None => "the master, which no sentinel names".to_owned(),
            },
        }
    }

    /// The number of the database.
    pub(crate) fn database(&self) -> i64 {
        match &self.discovery {
            Discovery::Single(client) => client.get_connection_info().redis_settings().db(),
            Discovery::Sentinels(sentinels) => sentinels.database(),
        }
    }

    fn sentinels(&self) -> Option<&Sentinels> {
        match &self.discovery {
            Discovery::Single(_) => None,
            Discovery::Sentinels(sentinels) => Some(sentinels),
        }
    }

    /// The master that the sentinels named last.
    pub(crate) fn master(&self) -> Option<Master> {
        self.sentinels()?.master()
    }

    /// Asks the sentinels forever and calls `changed` when they name another master.
    pub(crate) async fn follow(&self, changed: impl Fn()) {
        match self.sentinels() {
            None => std::future::pending().await,
            Some(sentinels) => sentinels.follow(changed).await,
        }
    }

    /// Closes the connections that [`follow`](Self::follow) opened.
    pub(crate) fn disconnect(&self) {
        self.sentinels().into_iter().for_each(Sentinels::disconnect);
    }

    /// Pauses before the next attempt to connect. The sentinels' naming another master ends the pause, and so does
    /// another link's connecting to the server, if `ends_when_reached`.
    pub(crate) async fn pause(&self, pause: Duration, ends_when_reached: bool) {
        let changed = OptionFuture::from(self.sentinels().map(Sentinels::changed));
        tokio::select! {
            () = sleep(pause) => {}
            Some(()) = changed => {}
            () = self.reached.notified(), if ends_when_reached => {}
        }
    }
}
