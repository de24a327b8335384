//! Which node has which slot: asked for now and then, and corrected by what nodes say.
//!
//! A map that is out of date costs a redirection and no more: whoever does not have a slot runs
//! nothing and says who has it. A node that is not named any more goes when the last call to it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::origin::{Origins, cluster_slots, read};
use super::slots::{NodeAddress, Range, SLOTS};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::new_id;
use crate::store::redis::RedisStore;
use crate::store::redis::link::{CallError, Link};

/// How long one node may take to say who has which slot.
const ANSWER: Duration = Duration::from_millis(500);

/// Nodes that are asked at once; the first to answer is believed.
const ASKED: usize = 3;

/// For how long a node is kept that was named in a redirection and has no slots yet.
const NAMED: Duration = Duration::from_secs(30);

/// A master.
pub(super) struct Node {
    pub(super) address: NodeAddress,
    pub(super) store: RedisStore,
    /// When a redirection last named it.
    named: Mutex<Option<Instant>>,
    /// How long its answers take of late, on average, in microseconds.
    usual: AtomicU64,
}

/// What an answer may take beyond several times the usual before it is late.
pub(super) const SLACK: Duration = Duration::from_millis(20);

impl Node {
    fn new(address: NodeAddress, store: RedisStore) -> Self {
        Self { address, store, named: Mutex::default(), usual: AtomicU64::new(0) }
    }

    /// True for an answer that took much longer than usual: the node may have been stopped meanwhile.
    pub(super) fn is_late(&self, took: Duration) -> bool {
        took > 4 * Duration::from_micros(self.usual.load(Ordering::Relaxed)) + SLACK
    }

    /// Notes how long an answer took that counts.
    pub(super) fn note(&self, took: Duration) {
        let usual = self.usual.load(Ordering::Relaxed);
        let took = u64::try_from(took.min(ANSWER).as_micros()).unwrap_or(0);
        // One that is lost in between does not matter.
        self.usual.store((7 * usual + took) / 8, Ordering::Relaxed);
    }

    fn was_named(&self) -> bool {
        let named = self.named.lock();
        named.is_some_and(|at| at.elapsed() < NAMED)
    }

    fn name(&self) {
        *self.named.lock() = Some(Instant::now());
    }

    pub(super) fn is_connected(&self) -> bool {
        self.store.link.is_connected()
    }
}

/// Who has which slot, as far as is known.
pub(super) struct Map {
    pub(super) nodes: Vec<Arc<Node>>,
    /// By slot, the place of its node in `nodes`.
    owners: Box<[u16]>,
}

/// Nobody's.
const NONE: u16 = u16::MAX;

impl Map {
    fn empty() -> Self {
        Self { nodes: Vec::new(), owners: vec![NONE; usize::from(SLOTS)].into() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    fn place(&mut self, node: &Arc<Node>) -> u16 {
        let known = self.nodes.iter().position(|known| Arc::ptr_eq(known, node));
        let place = known.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        u16::try_from(place).unwrap_or(NONE)
    }

    fn is_like(&self, other: &Self) -> bool {
        let owner = |map: &Self, slot| map.owner(slot).map(Arc::as_ptr);
        (0..SLOTS).all(|slot| owner(self, slot) == owner(other, slot))
    }
}

/// See the module.
pub(super) struct Topology {
    origins: Origins,
    /// What all connections to the nodes are called by.
    pub(super) id: Uuid,
    map: ArcSwap<Map>,
    /// Held while the map is replaced.
    changing: Mutex<()>,
    /// Counts changes of owners.
    pub(super) changes: watch::Sender<u64>,
    /// Told when the map may be wrong, or a subscription is lost.
    pub(super) look: Arc<Notify>,
    closed: AtomicBool,
}

impl Topology {
    pub(super) fn new(origins: Origins) -> Self {
        Self {
            origins,
            id: new_id(),
            map: ArcSwap::from_pointee(Map::empty()),
            changing: Mutex::default(),
            changes: watch::Sender::new(0),
            look: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn map(&self) -> Arc<Map> {
        self.map.load_full()
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.map.load().owner(slot).cloned()
    }

    /// Asks nodes that are there, else the addresses that the cluster was found by.
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
                    Err(CallError::Server(error)) => read(Err(error), &node.address),
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
        let changing = self.changing();
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
        let changed = !new.is_like(&old);
        self.map.store(Arc::new(new));
        drop(changing);
        if changed {
            tracing::debug!(lock.cluster.nodes = self.map().nodes.len(), "slots have moved");
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }

    /// Notes that a node says that this one has the slot.
    pub(super) fn moved(&self, slot: u16, address: &NodeAddress) -> Result<(), StoreError> {
        let changing = self.changing();
        let old = self.map();
        let node = self.known(&old, &old, address)?;
        node.name();
        if !old.owner(slot).is_some_and(|owner| Arc::ptr_eq(owner, &node)) {
            let mut new = Map { nodes: old.nodes.clone(), owners: old.owners.clone() };
            let place = new.place(&node);
            if let Some(owner) = new.owners.get_mut(usize::from(slot)) {
                *owner = place;
            }
            self.map.store(Arc::new(new));
            drop(changing);
            self.changes.send_modify(|changes| *changes += 1);
        }
        // Usually it is not the only one.
        self.look.notify_one();
        Ok(())
    }

    /// The node to which a slot is on its way.
    pub(super) fn asked(&self, address: &NodeAddress) -> Result<Arc<Node>, StoreError> {
        let _changing = self.changing();
        let old = self.map();
        let node = self.known(&old, &old, address)?;
        node.name();
        let mut new = Map { nodes: old.nodes.clone(), owners: old.owners.clone() };
        new.place(&node);
        self.map.store(Arc::new(new));
        Ok(node)
    }

    /// The node of that address: one of either map, or a new one that is still to be connected.
    fn known(&self, new: &Map, old: &Map, at: &NodeAddress) -> Result<Arc<Node>, StoreError> {
        let mut known = new.nodes.iter().chain(&old.nodes);
        if let Some(node) = known.find(|node| node.address == *at) {
            return Ok(Arc::clone(node));
        }
        let link = Link::to_node(self.origins.client(at)?, Arc::clone(&self.look), self.id);
        let node = Node::new(at.clone(), RedisStore::on(link));
        if self.closed.load(Ordering::Acquire) {
            node.store.close_links();
        }
        Ok(Arc::new(node))
    }

    /// The node that has the slot, once there is a connection to it.
    pub(super) async fn ready(
        &self,
        slot: u16,
        deadline: Instant,
    ) -> Result<Arc<Node>, StoreError> {
        let mut changes = self.changes.subscribe();
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(CallError::NotSent.into());
            }
            let node = self.owner(slot);
            if let Some(node) = node.as_ref().filter(|node| node.is_connected()) {
                return Ok(Arc::clone(node));
            }
            self.look.notify_one();
            let connected = async {
                match &node {
                    Some(node) => {
                        node.store.link.ensure_task();
                        node.store.link.connected(deadline).await.map(drop)
                    }
                    None => std::future::pending().await,
                }
            };
            // Whichever is first: it comes back, or another takes its place.
            let first = async {
                tokio::select! {
                    connected = connected => connected,
                    _ = changes.changed() => Ok(()),
                }
            };
            match timeout_at(deadline, first).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => {
                    if let Some(node) = node {
                        return Err(node.store.link.away().into());
                    }
                    let message = "no node of the cluster has the slot of this lock now";
                    return Err(StoreError::new(StoreErrorKind::NotReady, message));
                }
            }
        }
    }

    /// True if every slot has an owner and there is a connection to it.
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
        let _changing = self.changing();
        self.closed.store(true, Ordering::Release);
        for node in &self.map().nodes {
            node.store.close_links();
        }
        self.changes.send_modify(|changes| *changes += 1);
        self.look.notify_one();
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }
}
