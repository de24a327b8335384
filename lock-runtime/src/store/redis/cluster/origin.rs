//! The addresses that a cluster is found by. Their credentials and TLS are used for all nodes.

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, Value,
};
use tokio::time::timeout;

use super::slots::{NodeAddress, Range, ranges};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::requests::answers::surprise;
use crate::store::redis::server::errors::{Cause, config_error, connect_error, server_error};
use crate::store::redis::server::{TlsOptions, address, connect, connect_timeout, explained};

const NO_NODES: &str = "a cluster of no nodes; name one or more";

/// One of the addresses, with its credentials and TLS.
#[derive(Clone)]
struct Origin {
    info: ConnectionInfo,
    at: NodeAddress,
}

impl Origin {
    fn new(url: &str, tls: Option<&TlsOptions>) -> Result<Self, StoreError> {
        let info = address::client(url, tls)?.get_connection_info().clone();
        let at = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                NodeAddress { host: host.clone(), port: *port }
            }
            _ => {
                return Err(config_error(
                    "the nodes of a cluster have hosts and ports, no sockets",
                ));
            }
        };
        if info.redis_settings().db() != 0 {
            let message = "a cluster has no database but 0; take the number off the address";
            return Err(config_error(message));
        }
        Ok(Self { info, at })
    }

    /// A client for the node at `at`, with the credentials and TLS of this address.
    fn client(&self, at: &NodeAddress) -> Result<Client, StoreError> {
        let client = address::elsewhere(&self.info, at.host.clone(), at.port);
        client.map_err(|error| connect_error(error, at))
    }

    /// Asks for the slots over a connection of its own.
    async fn ask(&self) -> Result<Vec<Range>, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect_timeout()))
            .set_response_timeout(Some(connect_timeout()));
        let asking = async {
            let client = self.client(&self.at)?;
            let connected = connect(&client, &config, connect_timeout()).await;
            let mut connection = explained(&client, connected).await?;
            let answer = connection.send_packed_command(&cluster_slots()).await;
            read(answer.and_then(Value::extract_error), &self.at)
        };
        let timed_out = || std::io::Error::from(std::io::ErrorKind::TimedOut).into();
        let late = || connect_error(timed_out(), &self.at);
        timeout(connect_timeout(), asking).await.unwrap_or_else(|_| Err(late()))
    }
}

/// All the addresses.
pub(super) struct Origins(Vec<Origin>);

impl Origins {
    pub(super) fn new<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, StoreError> {
        let origins = urls.into_iter().map(|url| Origin::new(url.as_ref(), tls));
        let origins: Vec<_> = origins.collect::<Result<_, _>>()?;
        if origins.is_empty() { Err(config_error(NO_NODES)) } else { Ok(Self(origins)) }
    }

    /// A client for a node, with the credentials of its own address if that is one of these, else of the first.
    pub(super) fn client(&self, node: &NodeAddress) -> Result<Client, StoreError> {
        let origin = self.0.iter().find(|origin| origin.at == *node).or(self.0.first());
        origin.ok_or_else(|| config_error(NO_NODES))?.client(node)
    }

    /// Asks all addresses for the slots; the first answer counts.
    pub(super) async fn ask(&self) -> Result<Vec<Range>, StoreError> {
        let mut asked: FuturesUnordered<_> = self.0.iter().map(Origin::ask).collect();
        let mut worst: Option<StoreError> = None;
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(ranges) => return Ok(ranges),
                // A permanent error says more than that a node is away.
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
        Err(worst.map_or_else(|| config_error(none), away))
    }
}

pub(super) fn cluster_slots() -> redis::Cmd {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg("SLOTS");
    cmd
}

/// Reads the answer of the node `asked` to CLUSTER SLOTS.
pub(super) fn read(
    answer: Result<Value, RedisError>,
    asked: &NodeAddress,
) -> Result<Vec<Range>, StoreError> {
    let answer = answer.map_err(|error| {
        if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) {
            let message = "the server is not in cluster mode; connect to it as to one server";
            return config_error(message).with_source(Cause(error));
        }
        let is_answer = !error.is_io_error() && error.kind() != ErrorKind::Parse;
        if is_answer { server_error(error, asked) } else { connect_error(error, asked) }
    })?;
    let read = ranges(&answer, asked).ok_or_else(|| surprise(&answer.clone().into()))?;
    if read.is_empty() {
        let message = "the node knows of no slots; make the cluster first, or wait for it to form";
        return Err(StoreError::new(StoreErrorKind::NotReady, message));
    }
    Ok(read)
}
