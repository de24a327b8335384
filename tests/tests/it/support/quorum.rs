//! Servers of a quorum, a lock on a majority of them, and on how many of them a key is.

use lock_runtime::quorum::QuorumBuilder;

use crate::prelude::*;

pub(crate) async fn servers(count: usize) -> Vec<RedisServer> {
    join_all((0..count).map(|_| RedisServer::start())).await
}

/// A proxy before each server.
pub(crate) async fn proxies(servers: &[RedisServer]) -> Vec<Proxy> {
    join_all(servers.iter().map(|server| Proxy::start(server.port()))).await
}

pub(crate) async fn quorum_of(servers: &[RedisServer]) -> Quorum {
    let builder = Quorum::builder().without_restart_guard();
    builder.connect(servers.iter().map(RedisServer::url)).await.unwrap()
}

pub(crate) async fn through(builder: QuorumBuilder, proxies: &[Proxy]) -> Quorum {
    builder.connect(proxies.iter().map(Proxy::url)).await.unwrap()
}

/// On how many servers the key is.
pub(crate) async fn on(servers: &[RedisServer], key: &str) -> usize {
    let found = servers.iter().map(async |server| server.client().exists(key).await);
    join_all(found).await.into_iter().filter(|found| *found).count()
}
