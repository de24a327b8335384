//! A store that answers late, or not at all: renewals, and callers that do not wait.

mod late_answers;
mod outages;
mod renewals;
mod tries;

use crate::prelude::*;

/// A server behind a proxy, and a client of it that waits long for each answer.
pub(crate) async fn far_world(command_timeout: Duration) -> (RedisServer, Proxy, LockClient) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = LockClient::builder().command_timeout(command_timeout);
    let client = builder.connect(&proxy.url()).await.unwrap();
    (server, proxy, client)
}
