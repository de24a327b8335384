//! The addresses that a cluster is found by, and how they say that nodes are to be talked to.

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, Value,
};
use tokio::time::timeout;

use super::slots::{NodeAddress, Range, ranges};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::endpoint::{connect, explained};
use crate::store::redis::link::CONNECT_TIMEOUT;
use crate::store::redis::requests::answer::surprise;
use crate::store::redis::server::address;
use crate::store::redis::server::errors::{Cause, connect_error, server_error};
#[cfg(feature = "tls-rustls")]
use crate::store::redis::server::tls::TlsOptions;

/// One of the addresses, with its credentials and TLS.
#[derive(Clone)]
pub(super) struct Origin {
    info: ConnectionInfo,
    at: NodeAddress,
}

impl Origin {
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        Self::of(&address::client(url)?)
    }

    #[cfg(feature = "tls-rustls")]
    pub(super) fn with_tls(url: &str, tls: &TlsOptions) -> Result<Self, StoreError> {
        Self::of(&address::client_with_tls(url, tls)?)
    }

    fn of(client: &Client) -> Result<Self, StoreError> {
        let info = client.get_connection_info().clone();
        let at = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                NodeAddress { host: host.clone(), port: *port }
            }
            _ => return Err(unusable("the nodes of a cluster have hosts and ports, no sockets")),
        };
        if info.redis_settings().db() != 0 {
            let message = "a cluster has no database but 0; take the number off the address";
            return Err(unusable(message));
        }
        Ok(Self { info, at })
    }

    /// A client for the node at `at`, connected to as this one is.
    fn client(&self, at: &NodeAddress) -> Result<Client, StoreError> {
        let client = address::elsewhere(&self.info, at.host.clone(), at.port);
        client.map_err(connect_error)
    }

    /// Asks over a connection for this question alone.
    async fn ask(&self) -> Result<Vec<Range>, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(CONNECT_TIMEOUT));
        let asking = async {
            let client = self.client(&self.at)?;
            let connected = connect(&client, &config, CONNECT_TIMEOUT).await;
            let mut connection = explained(&client, connected).await?;
            let answer = connection.send_packed_command(&cluster_slots()).await;
            read(answer.and_then(Value::extract_error), &self.at)
        };
        let silent = || connect_error(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        timeout(CONNECT_TIMEOUT, asking).await.unwrap_or_else(|_| Err(silent()))
    }
}

/// All the addresses.
pub(super) struct Origins(Vec<Origin>);

impl Origins {
    pub(super) fn new(origins: Vec<Origin>) -> Result<Self, StoreError> {
        if origins.is_empty() {
            return Err(unusable("a cluster of no nodes; name one or more"));
        }
        Ok(Self(origins))
    }

    /// A client for a node: with the credentials that its own address has, if it is one of these,
    /// else with those of the first.
    pub(super) fn client(&self, node: &NodeAddress) -> Result<Client, StoreError> {
        let named = self.0.iter().find(|origin| origin.at == *node).or(self.0.first());
        let named = named.ok_or_else(|| unusable("a cluster of no nodes; name one or more"))?;
        named.client(node)
    }

    /// Who has which slots, from whoever is the first to say.
    pub(super) async fn ask(&self) -> Result<Vec<Range>, StoreError> {
        let mut asked: FuturesUnordered<_> = self.0.iter().map(Origin::ask).collect();
        let mut worst: Option<StoreError> = None;
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(ranges) => return Ok(ranges),
                // What waiting does not mend says more than that a node is away.
                Err(error) if worst.as_ref().is_none_or(|worst| worst.kind().is_transient()) => {
                    worst = Some(error);
                }
                Err(_) => {}
            }
        }
        let none = "none of the nodes of the cluster can be reached; check their addresses";
        let away = |error: StoreError| match error.kind() {
            StoreErrorKind::Unavailable if self.0.len() > 1 => {
                StoreError::new(StoreErrorKind::Unavailable, none).with_source(error)
            }
            _ => error,
        };
        Err(worst.map_or_else(|| unusable(none), away))
    }
}

pub(super) fn cluster_slots() -> redis::Cmd {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg("SLOTS");
    cmd
}

/// What a node has said.
pub(super) fn read(
    answer: Result<Value, RedisError>,
    asked: &NodeAddress,
) -> Result<Vec<Range>, StoreError> {
    let answer = answer.map_err(|error| {
        if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) {
            let message = "the server is not in cluster mode; connect to it as to one server";
            return unusable(message).with_source(Cause(error));
        }
        let is_answer = !error.is_io_error() && error.kind() != ErrorKind::Parse;
        if is_answer { server_error(error) } else { connect_error(error) }
    })?;
    let read = ranges(&answer, asked).ok_or_else(|| surprise(&answer))?;
    if read.is_empty() {
        let message = "the node knows of no slots; make the cluster first, or wait for it to form";
        return Err(StoreError::new(StoreErrorKind::NotReady, message));
    }
    Ok(read)
}

fn unusable(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Config, message)
}
