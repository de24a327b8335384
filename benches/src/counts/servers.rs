//! The servers of a load that are not counted by callgrind, and what they count themselves.

use futures_util::future::join_all;
use lock_tests::{RedisCluster, RedisServer};

/// The masters of the cluster.
const MASTERS: usize = 3;

/// One server, or a cluster of three masters.
pub(super) enum Servers {
    One(Box<RedisServer>),
    Cluster(RedisCluster),
}

/// What servers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Served {
    /// Calls of commands, those out of scripts too.
    pub(super) commands: u64,
    /// How often a server found requests to read. Requests that share a write of the client share a read.
    pub(super) reads: u64,
}

impl Servers {
    pub(super) fn urls(&self) -> Vec<String> {
        match self {
            Self::One(server) => vec![server.url()],
            Self::Cluster(cluster) => cluster.urls(),
        }
    }

    /// The counts of all servers together, without those of this question.
    pub(super) async fn served(&self) -> Served {
        let nodes = match self {
            Self::One(server) => vec![&**server],
            Self::Cluster(cluster) => (0..MASTERS).map(|at| cluster.node(at)).collect(),
        };
        let served = join_all(nodes.into_iter().map(of_one)).await;
        let sum = |count: fn(&Served) -> u64| served.iter().map(count).sum();
        Served { commands: sum(|it| it.commands), reads: sum(|it| it.reads) }
    }
}

async fn of_one(server: &RedisServer) -> Served {
    let calls = server.command_calls().await;
    let info: String = server.client().get(&["INFO", "stats"]).await;
    let reads = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
    Served {
        commands: calls.iter().filter(|(name, _)| *name != "info").map(|(_, calls)| calls).sum(),
        reads: reads.and_then(|reads| reads.trim().parse().ok()).unwrap_or_default(),
    }
}
