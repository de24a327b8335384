//! A store in a Redis Cluster: a [`RedisStore`](super::RedisStore) for each master.
//!
//! The client library's cluster client sends a script again when its answer was lost, and loses subscriptions when
//! slots move. Here `topology` knows which node has which slot, `route` sends a request there and follows
//! redirections, and `subscriptions` move to the node that has the slot.
//!
//! All keys of a lock are in one slot, so each request is one script at one node, as atomic as on one server.
// S-2.

mod names;
mod origin;
mod route;
pub(super) mod slots;
mod store;
mod subscriptions;
mod topology;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use self::origin::Origins;
use self::subscriptions::ShardSubscriptions;
use self::topology::Topology;
use super::link::ConnectionName;
use super::server::TlsOptions;
use crate::error::{StoreError, StoreErrorKind};
use crate::opaque::opaque_debug;

/// How often the nodes are asked for the slots: normally, and while a slot has no node that answers.
const SCAN: Duration = Duration::from_secs(5);
const SCAN_FOR_OWNER: Duration = Duration::from_millis(200);

/// The minimum time between two such requests.
const LEAST: Duration = Duration::from_millis(50);

/// How often the subscriptions are checked without cause, and how long one may take to follow its slot.
const TICK: Duration = Duration::from_secs(1);
const FOLLOW: Duration = Duration::from_millis(800);

/// Keeps locks in a Redis Cluster, version 7.0 or later, each at the master that has its slot.
///
/// [`LockClientBuilder::connect_cluster`](crate::LockClientBuilder::connect_cluster) documents it.
pub struct ClusterStore {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// True once a client has its id.
    is_claimed: AtomicBool,
}

struct Shared {
    topology: Topology,
    subscriptions: Arc<ShardSubscriptions>,
}

impl ClusterStore {
    /// Connects to a cluster of which at least one of these nodes answers.
    ///
    /// # Errors
    ///
    /// At once, by [`StoreError::kind`]: `Config` if there is no address or one that cannot be used, names
    /// a database but 0, or is of a server that is not in cluster mode; `Unavailable` if no node, or none
    /// of the masters, can be reached; `Denied` if the credentials are refused; `NotReady` if no slots
    /// are assigned yet.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    pub async fn connect<U: AsRef<str>>(
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<Self, StoreError> {
        Self::connect_as(ConnectionName::new(None), nodes, None).await
    }

    /// As [`connect`](Self::connect) to `rediss://` addresses, with a private authority or a client
    /// certificate.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); `Config` as well if `tls` cannot be used or an address is not one
    /// of TLS.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::store::{ClusterStore, TlsOptions};
    ///
    /// let tls = TlsOptions::new().root_certificate(std::fs::read("ca.pem")?);
    /// let store = ClusterStore::connect_with_tls(["rediss://one:7000"], &tls).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub async fn connect_with_tls<U: AsRef<str>>(
        nodes: impl IntoIterator<Item = U>,
        tls: &TlsOptions,
    ) -> Result<Self, StoreError> {
        Self::connect_as(ConnectionName::new(None), nodes, Some(tls)).await
    }

    /// As [`connect`](Self::connect), for a client whose connections have that name.
    pub(crate) async fn connect_as<U: AsRef<str>>(
        name: ConnectionName,
        nodes: impl IntoIterator<Item = U>,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, StoreError> {
        let topology = Topology::new(Origins::new(nodes, tls)?, name);
        let shared = Arc::new(Shared { topology, subscriptions: Arc::default() });
        // Made first, so that dropping it closes all that is opened below.
        let is_claimed = AtomicBool::new(false);
        let store = Self { shared, task: Mutex::default(), is_claimed };
        store.shared.topology.refresh().await?;
        let map = store.shared.topology.map();
        let connecting = map.nodes.iter().map(|node| node.store.connect_now());
        let mut failed: Vec<_> =
            join_all(connecting).await.into_iter().filter_map(Result::err).collect();
        if let Some(at) = failed.iter().position(|error| !error.kind().is_transient()) {
            return Err(failed.swap_remove(at));
        }
        if failed.len() == map.nodes.len()
            && let Some(error) = failed.pop()
        {
            let message = "no master of the cluster can be reached at the address that it announces; \
                           check `cluster-announce-ip` and `cluster-announce-port`";
            return Err(StoreError::new(StoreErrorKind::Unavailable, message).with_source(error));
        }
        for error in failed {
            tracing::warn!(%error, "a master of the cluster cannot be reached yet");
        }
        store.ensure_task();
        Ok(store)
    }

    /// Starts the task, also when the runtime that ran it has ended.
    fn ensure_task(&self) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) && !self.shared.topology.is_closed() {
            let shared = Arc::downgrade(&self.shared);
            *task = Some(tokio::spawn(async move {
                tokio::join!(keep_map(shared.clone()), keep_subscriptions(shared));
            }));
        }
    }
}

/// Refreshes the map of slots until the store is closed.
async fn keep_map(shared: Weak<Shared>) {
    let open = || shared.upgrade().filter(|shared| !shared.topology.is_closed());
    while let Some(waiting) = shared.upgrade() {
        let refresh_now = Arc::clone(&waiting.topology.refresh_now);
        let pause = if waiting.topology.is_whole() { SCAN } else { SCAN_FOR_OWNER };
        drop(waiting);
        let _ = timeout(pause.mul_f64(0.8 + 0.4 * fastrand::f64()), refresh_now.notified()).await;
        let Some(shared) = open() else { return };
        for node in &shared.topology.map().nodes {
            // No request may have started its task yet, or the runtime that ran it has ended.
            node.store.link.ensure_task();
        }
        if let Err(error) = shared.topology.refresh().await {
            tracing::debug!(%error, "no node of the cluster says which node has which slot");
        }
        drop(shared);
        sleep(LEAST).await;
    }
}

/// Has the subscriptions follow their slots until the store is closed.
async fn keep_subscriptions(shared: Weak<Shared>) {
    let Some((mut changes, subscriptions)) = shared
        .upgrade()
        .map(|shared| (shared.topology.changes.subscribe(), Arc::clone(&shared.subscriptions)))
    else {
        return;
    };
    loop {
        // The timeout finds subscriptions that were lost though their slot has not moved.
        let _ = timeout(TICK, async {
            tokio::select! {
                _ = changes.changed() => {}
                () = subscriptions.added.notified() => {}
            }
        })
        .await;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.topology.is_closed()) else {
            return;
        };
        shared.subscriptions.follow(&shared.topology, Instant::now() + FOLLOW).await;
    }
}

impl Drop for ClusterStore {
    fn drop(&mut self) {
        self.shared.topology.close();
    }
}

// No addresses: they come from URLs that may carry passwords.
opaque_debug!(ClusterStore);
