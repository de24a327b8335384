//! Connecting, dropped at every await point: no connection stays.

use lock_runtime::client::TlsOptions;
use lock_runtime::policy::LockConfig;
use lock_tests::{RedisServer, eventually};

use crate::prelude::*;

/// More than closing a connection takes on a busy machine.
const SOON: Duration = secs(20);

/// Fewer polls than any of them needs: it connects, and says something to the server.
const FLOOR: usize = 2;

/// A future that connects to a server at an address, successfully or not.
type Connecting = fn(String) -> BoxFuture<'static, ()>;

macro_rules! connecting {
    ($($future:literal: |$url:ident| $make:expr;)*) => {
        /// All of them, by the names of the public API.
        pub(crate) const FUTURES: &[&str] = &[$($future),*];

        const CONNECTING: &[(&str, Connecting)] = &[$(
            ($future, |$url: String| Box::pin(async move { drop($make.await) })),
        )*];
    };
}

connecting! {
    "LockClient::connect": |url| LockClient::connect(&url);
    "LockClient::from_config": |url| LockClient::from_config(config(&url));
    "LockClientBuilder::connect": |url| LockClient::builder().connect(&url);
    "LockClientBuilder::connect_cluster": |url| LockClient::builder().connect_cluster([url]);
    "LockClientBuilder::connect_sentinel": |url| {
        LockClient::builder().connect_sentinel("locks", [url])
    };
    "LockClientBuilder::connect_config": |url| LockClient::builder().connect_config(config(&url));
    "LockClientBuilder::connect_quorum": |url| {
        LockClient::builder().connect_quorum([url], RestartGuard::Off)
    };
    "LockClientBuilder::connect": |url| async move {
        LockClient::builder().tls(TlsOptions::new()).connect(&tls_url(&url)).await
    };
    "LockClientBuilder::connect_sentinel": |url| async move {
        let builder = LockClient::builder().tls(TlsOptions::new());
        builder.connect_sentinel("rediss://locks", [tls_url(&url)]).await
    };
    "LockClientBuilder::connect_cluster": |url| async move {
        LockClient::builder().tls(TlsOptions::new()).connect_cluster([tls_url(&url)]).await
    };
}

fn config(url: &str) -> LockConfig {
    LockConfig::from_toml(&format!("lock.url = '{url}'")).unwrap()
}

fn tls_url(url: &str) -> String {
    url.replacen("redis://", "rediss://", 1)
}

/// A server that is no sentinel, has no cluster and no TLS is enough: each of these futures opens a connection, and those
/// that are refused afterwards must close it, too.
#[tokio::test]
async fn a_connection_dropped_at_every_await_is_closed() {
    let server = RedisServer::start().await;
    for (future, connect) in CONNECTING {
        let connections = async || server.client().get::<String>(&["CLIENT", "LIST"]).await;
        let ours = async || connections().await.lines().count() - 1;
        eventually(SOON, "the connections before", async || ours().await == 0).await;
        let mut polls = 0;
        loop {
            let polled = timeout(SOON, poll_then_drop(connect(server.url()), polls)).await;
            let polled = polled.unwrap_or_else(|_| panic!("{future} hangs after {polls} polls"));
            let what = format!("{future} dropped after {polls} polls: its connections are closed");
            eventually(SOON, &what, async || ours().await == 0).await;
            if let Polled::Completed(()) = polled {
                break;
            }
            polls += 1;
        }
        assert!(polls >= FLOOR, "{future}: only {polls} polls");
    }
}
