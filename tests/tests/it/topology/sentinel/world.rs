//! A master, its replicas, and three sentinels.

use crate::prelude::*;

/// More than a fail-over takes on a busy machine.
pub(crate) const FAILOVER: Duration = secs(30);

/// What the sentinels call the master.
pub(crate) const NAME: &str = "locks";

pub(crate) struct World {
    /// The first is the master to begin with.
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) sentinels: Sentinels,
}

impl World {
    pub(crate) async fn new(replicas: usize) -> Self {
        let master = RedisServer::start().await;
        let mut servers = vec![master];
        for _ in 0..replicas {
            servers.push(RedisServer::builder().replica_of(servers[0].port()).start().await);
        }
        servers[0].wait_for_replicas(replicas).await;
        let sentinels = Sentinels::builder(NAME).start(&servers[0], replicas).await;
        Self { servers, sentinels }
    }

    pub(crate) fn master(&self) -> &RedisServer {
        &self.servers[0]
    }

    /// The server that has been promoted, once any sentinel says so.
    pub(crate) async fn promoted(&self) -> &RedisServer {
        let port = self.sentinels.wait_for_promotion(self.master().port(), &[0, 1, 2]).await;
        let promoted = self.servers.iter().find(|server| server.port() == port).unwrap();
        reach(promoted).await;
        promoted
    }

    pub(crate) async fn client(&self) -> LockClient {
        self.client_of(builder()).await
    }

    pub(crate) async fn client_of(&self, builder: LockClientBuilder) -> LockClient {
        builder.connect_sentinel(NAME, self.sentinels.urls()).await.unwrap()
    }
}

/// Patience for a fail-over.
pub(crate) fn builder() -> LockClientBuilder {
    LockClient::builder().store_patience(FAILOVER)
}

/// Outlives a fail-over without a renewal, and is renewed often enough to be told of its loss.
pub(crate) fn long() -> LockOptions {
    watched(FAILOVER)
}

/// Sentinels cut off the clients of a server whose role they change, the side channel as well.
pub(crate) async fn reach(server: &RedisServer) {
    let _ = server.client().try_cmd(&["PING"]).await;
}

/// Waits until a client of ours has come to this server and asked for its role, which sentinels do not.
pub(crate) async fn wait_for_client(server: &RedisServer) {
    reach(server).await;
    let asked = async || server.command_calls().await.contains_key("role");
    eventually(FAILOVER, "the client is at the new master", asked).await;
}
