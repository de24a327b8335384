//! One server: its address, its TLS, a connection to it, and the meaning of its errors.

pub(crate) mod address;
pub(crate) mod errors;
#[cfg(feature = "tls-rustls")]
pub(crate) mod tls;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::address::install_crypto_provider;
use self::errors::{connect_error, server_error, was_closed};
#[cfg(feature = "tls-rustls")]
pub(crate) use self::tls::TlsOptions;
use crate::error::StoreError;

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server may take to report why it closes a connection.
const REASON_TIMEOUT: Duration = Duration::from_millis(200);

/// There are no TLS options without the feature.
#[cfg(not(feature = "tls-rustls"))]
pub(crate) enum TlsOptions {}

/// Connects to this server.
pub(crate) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
    limit: Duration,
) -> Result<MultiplexedConnection, StoreError> {
    install_crypto_provider(client);
    let connecting = client.get_multiplexed_async_connection_with_config(config);
    let connected = timeout(limit, connecting).await;
    let late = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    let address = client.get_connection_info().addr();
    connected.unwrap_or_else(late).map_err(|error| connect_error(error, address))
}

/// Replaces the error of a connection that the server closed at once by the reason that the server gives. The
/// client library drops an answer that comes before its first request, so this opens a connection and only reads.
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
    let reason = async {
        let mut reply = Vec::new();
        let stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
        stream.take(256).read_to_end(&mut reply).await.ok()?;
        let reply = String::from_utf8(reply).ok()?;
        let (code, detail) = reply.trim_end().strip_prefix('-')?.split_once(' ')?;
        Some(redis::make_extension_error(code.to_owned(), Some(detail.to_owned())))
    };
    match timeout(REASON_TIMEOUT, reason).await {
        Ok(Some(error)) => Err(server_error(error)),
        _ => outcome,
    }
}
