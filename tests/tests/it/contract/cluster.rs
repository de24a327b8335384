//! Clusters for the cases: made once, lent to one case after the other.

use std::sync::PoisonError;

use async_trait::async_trait;

use super::world::{Kind, Peer, World, client_of, has_subscribers, holders_on};
use crate::prelude::*;

/// Clusters of a size that no task has.
type Idle = Mutex<Vec<RedisCluster>>;

const MASTERS: usize = 3;

/// A cluster, empty at first, for one case alone.
pub(crate) struct Cluster {
    /// `None` once it is given back.
    cluster: Option<RedisCluster>,
    idle: &'static Idle,
    kind: Kind,
}

/// A cluster of one node, whose clients take its address for that of a single server (S-40).
pub(crate) struct OneAddress(Cluster);

impl Cluster {
    pub(crate) async fn borrow(kind: Kind) -> Self {
        static IDLE: Idle = Mutex::new(Vec::new());
        Self::borrow_from(&IDLE, MASTERS, RedisCluster::start(), kind).await
    }

    async fn borrow_from(
        idle: &'static Idle,
        masters: usize,
        start: impl Future<Output = RedisCluster>,
        kind: Kind,
    ) -> Self {
        let lent = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cluster = match lent {
            Some(cluster) => cluster,
            None => start.await,
        };
        for at in 0..masters {
            let client = cluster.node(at).client();
            eventually(secs(20), "its last holder is gone", async || {
                let info: String = client.get(&["INFO", "clients"]).await;
                info.lines().any(|line| line == "connected_clients:1")
            })
            .await;
            client.cmd(&["FLUSHALL"]).await;
        }
        Self { cluster: Some(cluster), idle, kind }
    }

    fn cluster(&self) -> &RedisCluster {
        self.cluster.as_ref().unwrap()
    }
}

impl OneAddress {
    pub(crate) async fn borrow(kind: Kind) -> Self {
        static IDLE: Idle = Mutex::new(Vec::new());
        Self(Cluster::borrow_from(&IDLE, 1, RedisCluster::of_one(0), kind).await)
    }

    fn server(&self) -> &RedisServer {
        self.0.cluster().node(0)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.cluster.take());
    }
}

#[async_trait(?Send)]
impl World for Cluster {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        let client = builder.connect_cluster([self.cluster().node(0).url()]).await.unwrap();
        Peer::of(client, self.kind)
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        holders_on(self.cluster().owner_of(name).await, self.kind, name).await
    }

    async fn is_subscribed(&self, name: &str) -> bool {
        let at = (0..MASTERS).map(|at| has_subscribers(self.cluster().node(at), name));
        join_all(at).await.contains(&true)
    }
}

#[async_trait(?Send)]
impl World for OneAddress {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        client_of(self.server(), builder, self.0.kind).await
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        holders_on(self.server(), self.0.kind, name).await
    }

    async fn is_subscribed(&self, name: &str) -> bool {
        has_subscribers(self.server(), name).await
    }

    /// More than one block of tokens serves, and fewer than elsewhere: each waiter's sign of life is a script of its own.
    fn crowd(&self) -> usize {
        300
    }
}
