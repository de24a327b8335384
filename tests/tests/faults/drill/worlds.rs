//! The servers that a drill uses: one, a master with sentinels, a cluster, several for a quorum.

use futures_util::future::join_all;
use lock_tests::RedisCluster;
use lock_tests::redis_server::{RedisServerBuilder, Sentinels};

use crate::prelude::*;

/// Servers, and how the parties of a drill connect to them.
pub(crate) trait World {
    /// The configuration of the clients without a proxy.
    fn near(&self) -> String;

    /// The configuration of the client behind the proxy.
    fn far(&self) -> String {
        self.near()
    }

    /// The servers that may have locks and answer.
    fn servers(&self) -> Vec<&RedisServer>;

    /// Closes connections to the servers that clients have given up.
    fn close(&mut self) {}
}

/// A server, and a proxy before it for one client.
pub(crate) struct Alone {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
}

impl Alone {
    pub(super) async fn start(server: RedisServerBuilder) -> Self {
        let server = server.start().await;
        let proxy = Proxy::start(server.port()).await;
        Self { server, proxy }
    }
}

impl World for Alone {
    fn near(&self) -> String {
        format!("[lock]\nurl = {:?}", self.server.url())
    }

    fn far(&self) -> String {
        // With the password of the server.
        let (server, proxy) = (self.server.port().to_string(), self.proxy.port().to_string());
        format!("[lock]\nurl = {:?}", self.server.url().replace(&server, &proxy))
    }

    fn servers(&self) -> Vec<&RedisServer> {
        vec![&self.server]
    }

    fn close(&mut self) {
        // It keeps connections to the server open that its client has given up.
        self.proxy.reset_all();
    }
}

/// A master, its replicas, and three sentinels.
pub(crate) struct Failover {
    /// The first is the master to begin with.
    pub(crate) nodes: Vec<RedisServer>,
    pub(crate) sentinels: Sentinels,
    /// The servers that have ended for good.
    pub(crate) dead: Vec<usize>,
    /// What the configuration of the clients says of all locks.
    pub(crate) defaults: &'static str,
}

impl Failover {
    /// What the sentinels call the master.
    pub(crate) const NAME: &str = "locks";

    /// A master with these settings, and so many replicas with the same.
    pub(crate) async fn start(server: RedisServerBuilder, replicas: usize) -> Self {
        let mut nodes = vec![server.clone().start().await];
        for _ in 0..replicas {
            nodes.push(server.clone().replica_of(nodes[0].port()).start().await);
        }
        nodes[0].wait_for_replicas(replicas).await;
        let sentinels = Sentinels::builder(Self::NAME).start(&nodes[0], replicas).await;
        Self { nodes, sentinels, dead: Vec::new(), defaults: "" }
    }

    /// Waits until a sentinel names another master than the first.
    pub(crate) async fn promoted(&self) -> &RedisServer {
        let port = self.sentinels.wait_for_promotion(self.nodes[0].port(), &[0, 1, 2]).await;
        self.nodes.iter().find(|server| server.port() == port).unwrap()
    }
}

impl World for Failover {
    fn near(&self) -> String {
        let (master, nodes, defaults) = (Self::NAME, self.sentinels.urls(), self.defaults);
        let sentinel = format!("sentinel = {{ master = {master:?}, nodes = {nodes:?} }}");
        format!("[lock]\n{sentinel}\n[lock.defaults]\n{defaults}")
    }

    fn servers(&self) -> Vec<&RedisServer> {
        let alive = |(at, node)| (!self.dead.contains(&at)).then_some(node);
        self.nodes.iter().enumerate().filter_map(alive).collect()
    }
}

/// A cluster.
pub(crate) struct Slots {
    pub(crate) cluster: RedisCluster,
    /// The numbers of the nodes that have slots and answer.
    pub(crate) alive: Vec<usize>,
}

impl Slots {
    /// A cluster whose first three nodes are masters.
    pub(crate) fn new(cluster: RedisCluster) -> Self {
        Self { cluster, alive: vec![0, 1, 2] }
    }
}

impl World for Slots {
    fn near(&self) -> String {
        let nodes: Vec<_> = self.servers().iter().map(|node| node.url()).collect();
        format!("[lock]\ncluster = {nodes:?}")
    }

    fn servers(&self) -> Vec<&RedisServer> {
        self.alive.iter().map(|at| self.cluster.node(*at)).collect()
    }
}

/// Independent servers, of which a majority counts, and a proxy before each for one client.
pub(crate) struct Masters {
    pub(crate) nodes: Vec<RedisServer>,
    pub(crate) proxies: Vec<Proxy>,
    restart_guard: String,
}

impl Masters {
    /// So many servers. One that has started less than `restart_guard` ago does not count, as the configuration writes
    /// it; `"none"` for none.
    pub(crate) async fn start(count: usize, restart_guard: &str) -> Self {
        let nodes = join_all((0..count).map(|_| RedisServer::start())).await;
        let proxies = join_all(nodes.iter().map(|node| Proxy::start(node.port()))).await;
        Self { nodes, proxies, restart_guard: restart_guard.to_owned() }
    }

    fn config(&self, nodes: &[String]) -> String {
        format!(
            "[lock]\nquorum = {nodes:?}\nrestart_guard = {:?}\ndefaults.lease = \"1s\"",
            self.restart_guard
        )
    }
}

impl World for Masters {
    fn near(&self) -> String {
        self.config(&self.nodes.iter().map(RedisServer::url).collect::<Vec<_>>())
    }

    fn far(&self) -> String {
        self.config(&self.proxies.iter().map(Proxy::url).collect::<Vec<_>>())
    }

    fn servers(&self) -> Vec<&RedisServer> {
        self.nodes.iter().collect()
    }

    fn close(&mut self) {
        self.proxies.iter().for_each(Proxy::reset_all);
    }
}
