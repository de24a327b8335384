//! Connecting, dropped at every await point: no connection stays.

use lock_runtime::client::TlsOptions;
use lock_runtime::policy::LockConfig;
use lock_tests::{RedisServer, eventually};

use crate::prelude::*;

/// More than closing a connection takes on a busy machine.
const SOON: Duration = secs(20);

/// How many polls a future may need less or more than it does mostly: two answers may come at once, or one in two parts.
const MORE_OR_LESS: usize = 1;

/// A future that connects to a server at an address, successfully or not.
type Connecting = fn(String) -> BoxFuture<'static, ()>;

macro_rules! connecting {
    ($($future:literal, $polls:literal polls: |$url:ident| $make:expr;)*) => {
        /// All of them, by the names of the public API.
        pub(crate) const FUTURES: &[&str] = &[$($future),*];

        const CONNECTING: &[(&str, usize, Connecting)] = &[$(
            ($future, $polls, |$url: String| Box::pin(async move { drop($make.await) })),
        )*];
    };
}

connecting! {
    "LockClient::connect", 5 polls: |url| LockClient::connect(&url);
    "LockClient::from_config", 5 polls: |url| LockClient::from_config(config(&url));
    "LockClientBuilder::connect", 5 polls: |url| LockClient::builder().connect(&url);
    "LockClientBuilder::connect_cluster", 7 polls: |url| LockClient::builder().connect_cluster([url]);
    "LockClientBuilder::connect_sentinel", 9 polls: |url| {
        LockClient::builder().connect_sentinel("locks", [url])
    };
    "LockClientBuilder::connect_config", 5 polls: |url| LockClient::builder().connect_config(config(&url));
    "LockClientBuilder::connect_quorum", 3 polls: |url| {
        LockClient::builder().connect_quorum([url], RestartGuard::Off)
    };
    "LockClientBuilder::connect", 5 polls: |url| async move {
        LockClient::builder().tls(TlsOptions::new()).connect(&tls_url(&url)).await
    };
    "LockClientBuilder::connect_sentinel", 5 polls: |url| async move {
        let builder = LockClient::builder().tls(TlsOptions::new());
        builder.connect_sentinel("rediss://locks", [tls_url(&url)]).await
    };
    "LockClientBuilder::connect_cluster", 5 polls: |url| async move {
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
    for (future, expected, connect) in CONNECTING {
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
        let differ = polls.abs_diff(*expected);
        assert!(differ <= MORE_OR_LESS, "{future}: {polls} polls, not {expected}");
    }
}
