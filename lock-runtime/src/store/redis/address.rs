//! From an address to a client of the library that can connect to it.

use std::time::Duration;

use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

#[cfg(feature = "tls-rustls")]
use super::tls::TlsOptions;
use crate::error::{StoreError, StoreErrorKind};

/// How long the connection may be silent before the system probes it: less than routers take to
/// forget one.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new().with_time(Duration::from_secs(30));

/// A client for `url`; nothing is sent yet.
pub(super) fn client(url: &str) -> Result<Client, StoreError> {
    Client::open(parse(url)?).map_err(|error| unusable(url).with_source(error))
}

/// As [`client`], with `tls` in force; never without TLS.
#[cfg(feature = "tls-rustls")]
pub(super) fn client_with_tls(url: &str, tls: &TlsOptions) -> Result<Client, StoreError> {
    let info = parse(url)?;
    if !uses_tls(&info) {
        let message = format!(
            "there are TLS options, but the address {:?} is not one of TLS; write rediss://host:port",
            without_credentials(url)
        );
        return Err(StoreError::new(StoreErrorKind::Config, message));
    }
    let certificates = tls.checked()?;
    Client::build_with_tls(info, certificates).map_err(|error| unusable(url).with_source(error))
}

fn parse(url: &str) -> Result<ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(|error| unusable(url).with_source(error))?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = info.tcp_settings().clone().set_nodelay(true).set_keepalive(KEEPALIVE);
    if uses_tls(&info) {
        prepare_tls()?;
    }
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp))
}

fn uses_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

fn unusable(url: &str) -> StoreError {
    let message = format!(
        "the address {:?} cannot be used; expected redis://host:port, rediss://host:port with \
         feature `tls-rustls`, or unix:///path, with special characters of a password \
         percent-encoded",
        without_credentials(url)
    );
    StoreError::new(StoreErrorKind::Config, message)
}

#[cfg(feature = "tls-rustls")]
fn prepare_tls() -> Result<(), StoreError> {
    // Already installed by the program: its choice stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

/// Refused here even if another crate has switched on the client library's TLS: without a crypto
/// provider it would panic.
#[cfg(not(feature = "tls-rustls"))]
fn prepare_tls() -> Result<(), StoreError> {
    let message = "`rediss://` needs the feature `tls-rustls` of lock-runtime";
    Err(StoreError::new(StoreErrorKind::Config, message))
}

/// The address with everything before the host and after the path left out, because it may be a
/// password. A password's own `#`, `?` or `/` must not end the search for its `@`.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let path_only = |shown: &str| shown.split(['?', '#']).next().unwrap_or_default().to_owned();
    let (hidden, shown) = match rest.rsplit_once('@') {
        // A path has no credentials before it; what has an `@` comes behind.
        _ if rest.starts_with('/') => ("", path_only(rest)),
        Some((_, host)) => ("…@", path_only(host)),
        // A forgotten `@`: a password and nothing else.
        None if rest.starts_with(':') => ("…", String::new()),
        None => ("", path_only(rest)),
    };
    format!("{scheme}{hidden}{shown}")
}
