//! Clusters for the cases: made once, lent to one case after the other.

use std::sync::PoisonError;

use async_trait::async_trait;

use super::world::{Kind, Peer, World, has_subscribers, holders_on};
use crate::prelude::*;

/// Those that no task has.
static IDLE: Mutex<Vec<RedisCluster>> = Mutex::new(Vec::new());

const MASTERS: usize = 3;

/// A cluster, empty at first, for one case alone.
pub(crate) struct Cluster {
    /// `None` once it is given back.
    cluster: Option<RedisCluster>,
    kind: Kind,
}

impl Cluster {
    pub(crate) async fn borrow(kind: Kind) -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cluster = match idle {
            Some(cluster) => cluster,
            None => RedisCluster::start().await,
        };
        for at in 0..MASTERS {
            let client = cluster.node(at).client();
            eventually(secs(20), "its last holder is gone", async || {
                let info: String = client.get(&["INFO", "clients"]).await;
                info.lines().any(|line| line == "connected_clients:1")
            })
            .await;
            client.cmd(&["FLUSHALL"]).await;
        }
        Self { cluster: Some(cluster), kind }
    }

    fn cluster(&self) -> &RedisCluster {
        self.cluster.as_ref().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.cluster.take());
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
