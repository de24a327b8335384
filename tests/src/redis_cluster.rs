//! A throw-away Redis Cluster on loopback: three masters, or one, and replicas if wanted.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use crate::eventually::eventually;
use crate::redis_server::RedisServer;

/// How long the nodes may take to know each other.
const FORM_BOUND: Duration = Duration::from_secs(30);

/// How many slots there are.
const SLOTS: u16 = 16_384;

/// A node counts as dead after so many milliseconds without an answer.
const NODE_TIMEOUT: &str = "1000";

/// A cluster whose nodes end when it is dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    masters: usize,
}

impl RedisCluster {
    /// Three masters without replicas.
    ///
    /// Panics when it does not come up.
    pub async fn start() -> Self {
        Self::form(3, 0, 0).await
    }

    /// Three masters and a replica of each, which takes over when its master dies.
    ///
    /// Panics when it does not come up.
    pub async fn with_replicas() -> Self {
        Self::form(3, 3, 0).await
    }

    /// Three masters, and behind them so many that have no slots yet.
    ///
    /// Panics when it does not come up.
    pub async fn with_spares(spares: usize) -> Self {
        Self::form(3, 0, spares).await
    }

    /// One master that has every slot, so that its address serves all commands, and so many replicas of it.
    ///
    /// Panics when it does not come up.
    pub async fn of_one(replicas: usize) -> Self {
        Self::form(1, replicas, 0).await
    }

    async fn form(masters: usize, replicas: usize, spares: usize) -> Self {
        let nodes = join_all((0..masters + replicas + spares).map(|_| node())).await;
        let this = Self { nodes, masters };
        this.assign().await;
        this.meet().await;
        let count = this.nodes.len().to_string();
        eventually(FORM_BOUND, "all nodes know each other", async || {
            this.all_say("CLUSTER", "INFO", &format!("cluster_known_nodes:{count}")).await
        })
        .await;
        for at in 0..replicas {
            let master: String = this.node(at % masters).client().get(&["CLUSTER", "MYID"]).await;
            let replica = this.node(masters + at).client();
            // A node is known by another name until it has answered.
            eventually(FORM_BOUND, "the replica knows its master", async || {
                replica.try_cmd(&["CLUSTER", "REPLICATE", &master]).await.is_ok()
            })
            .await;
        }
        this.wait_until_whole().await;
        for at in 0..replicas {
            let replica = this.node(masters + at).client();
            eventually(FORM_BOUND, "the replica follows", async || {
                let info: String = replica.get(&["INFO", "replication"]).await;
                info.contains("master_link_status:up")
            })
            .await;
        }
        this
    }

    /// Gives each master a third, with an epoch of its own, so that none has to be agreed on.
    async fn assign(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let epoch = (at + 1).to_string();
            node.client().cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        let count = u16::try_from(self.masters).expect("a handful");
        for (at, node) in (0..).zip(self.nodes.iter().take(self.masters)) {
            let (first, last) = (SLOTS / count * at, SLOTS / count * (at + 1) - 1);
            let last = if at + 1 == count { SLOTS - 1 } else { last };
            let (first, last) = (first.to_string(), last.to_string());
            node.client().cmd(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
        }
    }

    async fn meet(&self) {
        let first = self.node(0).client();
        for node in &self.nodes[1..] {
            first.cmd(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string()]).await;
        }
    }

    async fn all_say(&self, word: &str, topic: &str, expected: &str) -> bool {
        let said = self.nodes.iter().map(async |node| {
            let info: String = node.client().get(&[word, topic]).await;
            info.lines().any(|line| line == expected)
        });
        join_all(said).await.into_iter().all(|said| said)
    }

    /// Waits until every node has heard of a master for each slot.
    ///
    /// Panics when that is not so within 30 s.
    pub async fn wait_until_whole(&self) {
        // Without full coverage, a node is ok before it has heard who has the other slots.
        let every_slot = format!("cluster_slots_ok:{SLOTS}");
        eventually(FORM_BOUND, "every node serves every slot", async || {
            self.all_say("CLUSTER", "INFO", "cluster_state:ok").await
                && self.all_say("CLUSTER", "INFO", &every_slot).await
        })
        .await;
    }

    /// Waits until all nodes know of all earlier moves, as `redis-cli --cluster reshard` checks.
    ///
    /// A target that has not heard of the epoch in which the source got the slot may choose a lower one for
    /// itself. Redis then takes the slot back from it and deletes the keys that it has just been given.
    async fn wait_until_agreed(&self) {
        eventually(FORM_BOUND, "all nodes agree on slots and epochs", async || {
            let views = join_all(self.nodes.iter().map(view)).await;
            views.windows(2).all(|pair| pair[0] == pair[1])
        })
        .await;
    }

    /// A node: masters come first, each with its replica as many places further on.
    ///
    /// Panics when there is none of that number.
    pub fn node(&self, at: usize) -> &RedisServer {
        &self.nodes[at]
    }

    /// The addresses of all nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// The slot of a name, as the server computes it.
    ///
    /// Panics when no node answers.
    pub async fn slot(&self, name: &str) -> u16 {
        for node in &self.nodes {
            if let Ok(Value::Int(slot)) = node.client().try_cmd(&["CLUSTER", "KEYSLOT", name]).await
            {
                return u16::try_from(slot).expect("there are no more slots than that");
            }
        }
        panic!("no node of the cluster answers");
    }

    /// The number of the master that has a slot, as that master sees it.
    ///
    /// Panics when none has it.
    pub async fn owner(&self, slot: u16) -> usize {
        for (at, node) in self.nodes.iter().enumerate() {
            let client = node.client();
            let Ok(Value::Array(ranges)) = client.try_cmd(&["CLUSTER", "SLOTS"]).await else {
                continue;
            };
            let id: String = client.get(&["CLUSTER", "MYID"]).await;
            if ranges.iter().any(|range| is_owner(&id, range, slot)) {
                return at;
            }
        }
        panic!("no node has slot {slot}");
    }

    /// So many names whose slots this master has.
    ///
    /// Panics when it does not answer.
    pub async fn names_at(&self, at: usize, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for name in (0..).map(|n| format!("over:{n}")) {
            if names.len() == count {
                break;
            }
            if self.owner(self.slot(&name).await).await == at {
                names.push(name);
            }
        }
        names
    }

    /// The side channel to the node that has the name's slot.
    pub async fn owner_of(&self, name: &str) -> &RedisServer {
        self.node(self.owner(self.slot(name).await).await)
    }

    /// Moves a slot to another master, key by key, as an operator does it; `meanwhile` runs when only the
    /// keys named `first` have gone. Starts once all nodes agree on who has which slot, and since when.
    ///
    /// Panics when a node refuses, or the nodes do not come to agree.
    pub async fn move_slot(
        &self,
        slot: u16,
        to: usize,
        first: &[&str],
        meanwhile: impl Future<Output = ()>,
    ) {
        self.wait_until_agreed().await;
        let from = self.owner(slot).await;
        let (source, target) = (self.node(from).client(), self.node(to).client());
        let source_id: String = source.get(&["CLUSTER", "MYID"]).await;
        let target_id: String = target.get(&["CLUSTER", "MYID"]).await;
        let slot = &*slot.to_string();
        target.cmd(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &source_id]).await;
        source.cmd(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &target_id]).await;
        let port = self.node(to).port().to_string();
        for key in first {
            source.cmd(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).await;
        }
        meanwhile.await;
        loop {
            let keys: Vec<String> = source.get(&["CLUSTER", "GETKEYSINSLOT", slot, "1000"]).await;
            if keys.is_empty() {
                break;
            }
            for key in &keys {
                source.cmd(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).await;
            }
        }
        for node in [&target, &source] {
            node.cmd(&["CLUSTER", "SETSLOT", slot, "NODE", &target_id]).await;
        }
        for at in 0..self.masters {
            let told = ["CLUSTER", "SETSLOT", slot, "NODE", &target_id];
            let _ = self.node(at).client().try_cmd(&told).await;
        }
    }
}

async fn node() -> RedisServer {
    let node = RedisServer::builder()
        .arg("--cluster-enabled", "yes")
        .arg("--cluster-node-timeout", NODE_TIMEOUT)
        .arg("--cluster-replica-validity-factor", "0")
        // Or all slots would be down until a replica has taken over.
        .arg("--cluster-require-full-coverage", "no")
        .arg("--cluster-announce-ip", "127.0.0.1");
    node.start().await
}

/// What a node knows of each: its id, its epoch and its slots.
async fn view(node: &RedisServer) -> Vec<String> {
    let nodes: String = node.client().get(&["CLUSTER", "NODES"]).await;
    let known = nodes.lines().map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        // In brackets are slots on their way, which only the node itself tells of.
        let slots = fields.iter().skip(8).filter(|slots| !slots.starts_with('['));
        let known = [fields.first(), fields.get(6)].into_iter().flatten().chain(slots);
        known.copied().collect::<Vec<_>>().join(" ")
    });
    let mut known: Vec<_> = known.collect();
    known.sort();
    known
}

/// True if that range has the slot and its master has the id.
fn is_owner(id: &str, range: &Value, slot: u16) -> bool {
    let Value::Array(parts) = range else { return false };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else {
        return false;
    };
    let has = (*first..=*last).contains(&i64::from(slot));
    has && matches!(master.get(2), Some(Value::BulkString(master)) if master == id.as_bytes())
}
