//! Which node has which slot. The nodes are asked from time to time, and redirections correct the map.
//!
//! An outdated map only costs a redirection: a node that does not have the slot runs nothing and names the node that
//! has it. A node that no answer names any more is dropped when the last call to it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::origin::{Origins, cluster_slots, read};
use super::slots::{NodeAddress, Range};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Store;
use crate::store::redis::link::{ConnectionName, Link};
use crate::store::redis::server::errors::CallError;
use crate::store::redis::server::slot::SLOTS;
use crate::store::redis::store::RedisStore;

/// How long one node may take to answer CLUSTER SLOTS.
const ANSWER: Duration = Duration::from_millis(500);

/// How many nodes are asked at once; the first answer counts.
const ASKED: usize = 3;

/// How long a node without slots is kept after a redirection named it.
const NAMED: Duration = Duration::from_secs(30);

/// How long a redirection counts for more than what nodes say of all slots: they may not have heard of it yet.
const TRUSTED: Duration = Duration::from_secs(1);

/// A master.
pub(super) struct Node {
    pub(super) address: NodeAddress,
    pub(super) store: RedisStore,
    /// When a redirection last named it.
    named: Mutex<Option<Instant>>,
    /// The moving average of how long its answers take, in microseconds.
    usual: AtomicU64,
}

/// An answer is late after four times the usual time and this.
pub(super) const SLACK: Duration = Duration::from_millis(20);

impl Node {
    /// True if an answer took much longer than usual: the node may have been stopped meanwhile.
    pub(super) fn is_late(&self, took: Duration) -> bool {
        took > 4 * Duration::from_micros(self.usual.load(Ordering::Relaxed)) + SLACK
    }

    /// Records how long an answer took that counts.
    pub(super) fn note(&self, took: Duration) {
        let usual = self.usual.load(Ordering::Relaxed);
        let took = u64::try_from(took.min(ANSWER).as_micros()).unwrap_or(0);
        // A concurrent update may get lost, which does not matter.
        self.usual.store((7 * usual + took) / 8, Ordering::Relaxed);
    }

    fn was_named(&self) -> bool {
        self.named.lock().is_some_and(|at| at.elapsed() < NAMED)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.store.link.is_connected()
    }
}

/// Which node has which slot, as far as is known.
pub(super) struct Map {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The index in `nodes` of each slot's node.
    owners: Box<[u16]>,
}

/// The index of a slot without a node.
const NONE: u16 = u16::MAX;

impl Map {
    fn empty() -> Self {
        Self { nodes: Vec::new(), owners: vec![NONE; usize::from(SLOTS)].into() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// The index of a node, which is added if it is new.
    fn place(&mut self, node: &Arc<Node>) -> u16 {
        let known = self.nodes.iter().position(|known| Arc::ptr_eq(known, node));
        let place = known.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        u16::try_from(place).unwrap_or(NONE)
    }

    /// Makes the node the owner of the slot. False if it was that before.
    fn give(&mut self, slot: u16, node: &Arc<Node>) -> bool {
        let place = self.place(node);
        let owner = self.owners.get_mut(usize::from(slot));
        owner.is_some_and(|owner| std::mem::replace(owner, place) != place)
    }

    fn has_same_owners(&self, other: &Self) -> bool {
        let owner = |map: &Self, slot| map.owner(slot).map(Arc::as_ptr);
        (0..SLOTS).all(|slot| owner(self, slot) == owner(other, slot))
    }
}

/// The map of slots, and the nodes that are asked to refresh it.
pub(super) struct Topology {
    origins: Origins,
    /// What all connections are called on the nodes.
    pub(super) name: ConnectionName,
    map: ArcSwap<Map>,
    /// Held while the map is replaced. The slots that redirections named an owner of, and when.
    changing: Mutex<HashMap<u16, (Arc<Node>, Instant)>>,
    /// Counts changes of the map.
    pub(super) changes: watch::Sender<u64>,
    /// Notified when the map may be wrong or a subscription is lost.
    pub(super) refresh_now: Arc<Notify>,
    closed: AtomicBool,
}

impl Topology {
    pub(super) fn new(origins: Origins, name: ConnectionName) -> Self {
        Self {
            origins,
            name,
            map: ArcSwap::from_pointee(Map::empty()),
            changing: Mutex::default(),
            changes: watch::Sender::new(0),
            refresh_now: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn map(&self) -> Arc<Map> {
        self.map.load_full()
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.map.load().owner(slot).cloned()
    }

    /// Asks connected nodes, else the addresses that the cluster was found by.
    pub(super) async fn refresh(&self) -> Result<(), StoreError> {
        let mut nodes = self.map().nodes.clone();
        nodes.retain(|node| node.is_connected());
        fastrand::shuffle(&mut nodes);
        let ask = |node: &Arc<Node>| {
            let node = Arc::clone(node);
            async move {
                let deadline = Instant::now() + ANSWER;
                match node.store.link.call(&cluster_slots(), deadline).await {
                    Ok(answer) => read(Ok(answer), &node.address),
                    Err(CallError::Server(error, _)) => read(Err(error), &node.address),
                    Err(error) => Err(error.into()),
                }
            }
        };
        let mut asked: FuturesUnordered<_> = nodes.iter().take(ASKED).map(ask).collect();
        while let Some(answer) = asked.next().await {
            if let Ok(ranges) = answer {
                return self.set(&ranges);
            }
        }
        let ranges = self.origins.ask().await?;
        self.set(&ranges)
    }

    /// Puts the answer of a node in place of the map.
    fn set(&self, ranges: &[Range]) -> Result<(), StoreError> {
        let mut changing = self.changing.lock();
        let (old, mut new) = (self.map(), Map::empty());
        for range in ranges {
            let node = self.known(&new, &old, &range.owner)?;
            let place = new.place(&node);
            if let Some(slots) = new.owners.get_mut(range.first.into()..=range.last.into()) {
                slots.fill(place);
            }
        }
        for node in old.nodes.iter().filter(|node| node.was_named()) {
            new.place(node);
        }
        changing.retain(|_, (_, at)| at.elapsed() < TRUSTED);
        for (slot, (node, _)) in &*changing {
            new.give(*slot, node);
        }
        let changed = !new.has_same_owners(&old);
        self.map.store(Arc::new(new));
        drop(changing);
        if changed {
            tracing::debug!(lock.cluster.nodes = self.map().nodes.len(), "slots have moved");
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }

    /// Handles a redirection by MOVED: this node has the slot.
    pub(super) fn moved(&self, slot: u16, address: &NodeAddress) -> Result<(), StoreError> {
        self.redirected(address, Some(slot))?;
        // Usually other slots have moved too.
        self.refresh_now.notify_one();
        Ok(())
    }

    /// Handles a redirection by ASK: this node imports a slot.
    pub(super) fn importer(&self, address: &NodeAddress) -> Result<Arc<Node>, StoreError> {
        self.redirected(address, None)
    }

    /// Adds a node that a redirection has named, as the owner of `slot`.
    fn redirected(&self, to: &NodeAddress, slot: Option<u16>) -> Result<Arc<Node>, StoreError> {
        let (mut changing, now) = (self.changing.lock(), Instant::now());
        let old = self.map();
        let node = self.known(&old, &old, to)?;
        *node.named.lock() = Some(now);
        let mut new = Map { nodes: old.nodes.clone(), owners: old.owners.clone() };
        new.place(&node);
        let has_changed = slot.is_some_and(|slot| {
            changing.insert(slot, (Arc::clone(&node), now));
            new.give(slot, &node)
        });
        self.map.store(Arc::new(new));
        drop(changing);
        if has_changed {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(node)
    }

    /// The node at an address: from one of the maps, or a new one that is not connected yet.
    fn known(&self, new: &Map, old: &Map, at: &NodeAddress) -> Result<Arc<Node>, StoreError> {
        let mut known = new.nodes.iter().chain(&old.nodes);
        if let Some(node) = known.find(|node| node.address == *at) {
            return Ok(Arc::clone(node));
        }
        let unsubscribed = Some(Arc::clone(&self.refresh_now));
        let link = Link::new(self.origins.client(at)?, self.name.clone(), unsubscribed);
        let store = RedisStore::on(link);
        if self.is_closed() {
            store.close();
        }
        let (named, usual) = (Mutex::default(), AtomicU64::new(0));
        Ok(Arc::new(Node { address: at.clone(), store, named, usual }))
    }

    /// Waits for a connection to the node that has the slot.
    pub(super) async fn ready(
        &self,
        slot: u16,
        deadline: Instant,
    ) -> Result<Arc<Node>, StoreError> {
        let mut changes = self.changes.subscribe();
        loop {
            if self.is_closed() {
                return Err(CallError::NotSent.into());
            }
            let node = self.owner(slot);
            if let Some(node) = node.as_ref().filter(|node| node.is_connected()) {
                return Ok(Arc::clone(node));
            }
            self.refresh_now.notify_one();
            let connected = node.as_ref().map(|node| async move {
                node.store.link.ensure_task();
                node.store.link.connected(deadline).await.map(drop)
            });
            // Either the node comes back, or another one takes over the slot.
            tokio::select! {
                Some(connected) = OptionFuture::from(connected) => connected?,
                _ = changes.changed() => {}
                () = sleep_until(deadline) => {
                    if let Some(node) = node {
                        return Err(node.store.link.away().into());
                    }
                    let message = "no node of the cluster has the slot of this lock now";
                    return Err(StoreError::new(StoreErrorKind::NotReady, message));
                }
            }
        }
    }

    /// True if every slot has a node that is connected.
    pub(super) fn is_whole(&self) -> bool {
        let map = self.map.load();
        let has_slots = |place: usize| map.owners.iter().any(|owner| usize::from(*owner) == place);
        let away = |(place, node): (usize, &Arc<Node>)| !node.is_connected() && has_slots(place);
        !map.owners.contains(&NONE) && !map.nodes.iter().enumerate().any(away)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        let _changing = self.changing.lock();
        self.closed.store(true, Ordering::Release);
        for node in &self.map().nodes {
            node.store.close();
        }
        self.changes.send_modify(|changes| *changes += 1);
        self.refresh_now.notify_one();
    }
}
