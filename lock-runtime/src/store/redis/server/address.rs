//! From an address to a client of the client library.

use std::time::Duration;

use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError,
    RedisResult,
};

use super::TlsOptions;
use super::errors::{Cause, config_error};
use crate::error::{StoreError, StoreErrorKind};

/// The system probes a connection that was silent for so long; routers take longer to forget it.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new().with_time(Duration::from_secs(30));

/// A client for `url`, with `tls` in force and never without TLS if there are TLS options. Sends nothing yet.
pub(crate) fn client(url: &str, tls: Option<&TlsOptions>) -> Result<Client, StoreError> {
    let info = parse(url)?;
    #[cfg(feature = "tls-rustls")]
    if let Some(tls) = tls {
        if !uses_tls(&info) {
            return Err(config_error(
                "there are TLS options, but the address does not use TLS; write rediss://host:port",
            ));
        }
        let certificates = tls.checked()?;
        return Client::build_with_tls(info, certificates).map_err(|error| unusable(url, error));
    }
    let _ = tls;
    Client::open(info).map_err(|error| unusable(url, error))
}

/// A client for another server, with the credentials, database and TLS of `model`.
pub(crate) fn elsewhere(model: &ConnectionInfo, host: String, port: u16) -> RedisResult<Client> {
    let addr = match model.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(model.clone().set_addr(addr))
}

/// True if the client library can read the address.
#[cfg(feature = "policy")]
pub(crate) fn is_address(url: &str) -> bool {
    url.into_connection_info().is_ok()
}

fn parse(url: &str) -> Result<ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(|error| unusable(url, error))?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = info.tcp_settings().clone().set_nodelay(true).set_keepalive(KEEPALIVE);
    if uses_tls(&info) && cfg!(not(feature = "tls-rustls")) {
        // Refused also if another crate has switched on the client library's TLS: without a crypto
        // provider it would panic.
        let message = "`rediss://` needs the feature `tls-rustls` of lock-runtime";
        return Err(StoreError::new(StoreErrorKind::Config, message));
    }
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp))
}

fn uses_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

fn unusable(url: &str, error: RedisError) -> StoreError {
    if url == "memory:" {
        return config_error(
            "the address \"memory:\" is for the `lock.url` of a configuration; for locks of this process alone, \
             make the client with `LockClient::in_memory()`",
        );
    }
    // The message quotes no part of the address: where it is malformed, any part may be the password.
    let unusable = config_error(
        "the address cannot be used; expected redis://host:port, rediss://host:port with feature `tls-rustls`, or \
         unix:///path, with special characters of a password percent-encoded",
    );
    // The detail quotes the address.
    if error.detail().is_some() { unusable } else { unusable.with_source(Cause(error)) }
}

/// Gives rustls a crypto provider if the program has not installed one: the client library panics without one when
/// it connects. Only called before connecting, so that reading an address does not choose for the program.
pub(crate) fn install_crypto_provider(client: &Client) {
    #[cfg(feature = "tls-rustls")]
    if uses_tls(client.get_connection_info()) {
        // An error means that the program has already installed one, which is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    #[cfg(not(feature = "tls-rustls"))]
    let _ = client;
}

/// True if `url` names a port.
pub(crate) fn has_port(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = host.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.is_empty() && is_number(port))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(all(test, feature = "tls-rustls"))]
mod tests {
    use super::*;

    /// The program may still install its own provider after it has read its configuration.
    #[test]
    fn reading_an_address_installs_no_crypto_provider() {
        client("rediss://localhost:6380", None).unwrap();
        client("rediss://localhost:6380", Some(&TlsOptions::new())).unwrap();
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }
}
