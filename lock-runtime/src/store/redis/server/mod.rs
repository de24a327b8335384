//! One server: its address, its TLS, a connection to it, and the meaning of its errors.

pub(crate) mod address;
pub(crate) mod errors;
pub(crate) mod frames;
pub(crate) mod shared_stream;
pub(crate) mod slot;
#[cfg(feature = "tls-rustls")]
pub(crate) mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use self::address::install_crypto_provider;
use self::errors::{connect_error_of, server_error, was_closed};
use self::shared_stream::SharedStream;
#[cfg(feature = "tls-rustls")]
pub(crate) use self::tls::TlsOptions;
use crate::error::StoreError;

/// How long connecting may take.
pub(crate) fn connect_timeout() -> Duration {
    short_limit(Duration::from_secs(2))
}

/// A short time limit: fifty times as long in a process whose instructions valgrind counts, which slows it down so much. Only
/// builds with debug assertions, or with `--cfg in_valgrind`, look whether it is one.
pub(crate) fn short_limit(limit: Duration) -> Duration {
    static IN_VALGRIND: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("LOCK_IN_VALGRIND").is_some());
    match cfg!(any(debug_assertions, in_valgrind)) && *IN_VALGRIND {
        true => limit * 50,
        false => limit,
    }
}

/// How long a server may take to report why it closes a connection.
const REASON_TIMEOUT: Duration = Duration::from_millis(200);

/// There are no TLS options without the feature.
#[cfg(not(feature = "tls-rustls"))]
pub(crate) enum TlsOptions {}

/// A connection to a server, after its handshake.
pub(crate) struct Opened {
    pub(crate) connection: MultiplexedConnection,
    /// Its stream, if a request may pass the client library's task by.
    pub(crate) shared: Option<Shared>,
}

/// The stream of a connection, and the task that reads and writes it. Clones share both; the last one ends the task.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) stream: Arc<SharedStream>,
    _task: Arc<Task>,
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects to this server.
pub(crate) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
    limit: Duration,
) -> Result<MultiplexedConnection, StoreError> {
    install_crypto_provider(client);
    let connecting = client.get_multiplexed_async_connection_with_config(config);
    in_time(client, limit, connecting).await
}

/// Connects to this server for many requests.
pub(crate) async fn open(
    client: &Client,
    config: &AsyncConnectionConfig,
    limit: Duration,
) -> Result<Opened, StoreError> {
    let info = client.get_connection_info();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            in_time(client, limit, Box::pin(open_tcp(info, host, *port, config))).await
        }
        // Over TLS, the stream would need its task to read before it can write.
        _ => Ok(Opened { connection: connect(client, config, limit).await?, shared: None }),
    }
}

async fn in_time<T>(
    client: &Client,
    limit: Duration,
    connecting: impl Future<Output = RedisResult<T>>,
) -> Result<T, StoreError> {
    let connected = timeout(limit, connecting).await;
    let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut).into());
    let info = client.get_connection_info();
    connected.unwrap_or_else(late).map_err(|error| connect_error_of(error, info))
}

/// Connects as the client library does, and keeps the stream.
async fn open_tcp(
    info: &ConnectionInfo,
    host: &str,
    port: u16,
    config: &AsyncConnectionConfig,
) -> RedisResult<Opened> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address").into());
    }
    // The first that answers: others may be unreachable from here, and say so late.
    let settings = info.tcp_settings();
    let connecting = addresses.into_iter().map(|address| Box::pin(connect_tcp(address, settings)));
    let (stream, _) = select_ok(connecting).await?;
    let (stream, of_task) = SharedStream::new(stream);
    let redis = info.redis_settings();
    let (connection, task) =
        MultiplexedConnection::new_with_config(redis, of_task, config.clone()).await?;
    let task = Arc::new(Task(tokio::spawn(task).abort_handle()));
    Ok(Opened { connection, shared: Some(Shared { stream, _task: task }) })
}

async fn connect_tcp(address: SocketAddr, settings: &TcpSettings) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        SockRef::from(&stream).set_tcp_keepalive(keepalive)?;
    }
    Ok(stream)
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
        Ok(Some(error)) => Err(server_error(error, format_args!("{host}:{port}"))),
        _ => outcome,
    }
}
