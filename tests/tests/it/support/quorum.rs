//! Servers of a quorum, a lock on a majority of them, and on how many of them a key is.

use lock_runtime::LockClientBuilder;

use crate::prelude::*;

pub(crate) async fn servers(count: usize) -> Vec<RedisServer> {
    join_all((0..count).map(|_| RedisServer::start())).await
}

/// A proxy before each server.
pub(crate) async fn proxies(servers: &[RedisServer]) -> Vec<Proxy> {
    join_all(servers.iter().map(|server| Proxy::start(server.port()))).await
}

pub(crate) async fn quorum_of(servers: &[RedisServer]) -> LockClient {
    let builder = LockClient::builder();
    builder.connect_quorum(servers.iter().map(RedisServer::url), RestartGuard::Off).await.unwrap()
}

pub(crate) async fn through(builder: LockClientBuilder, proxies: &[Proxy]) -> LockClient {
    builder.connect_quorum(proxies.iter().map(Proxy::url), RestartGuard::Off).await.unwrap()
}

/// On how many servers the key is.
pub(crate) async fn on(servers: &[RedisServer], key: &str) -> usize {
    let found = servers.iter().map(async |server| server.client().exists(key).await);
    join_all(found).await.into_iter().filter(|found| *found).count()
}
