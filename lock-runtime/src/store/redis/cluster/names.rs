//! The names in use in a cluster: those of one master after the other.
//!
//! A slot that moves to a master that has been visited already would take its names out of the listing. So what counts
//! is slots, not masters: a slot is done once a master has had it from the start to the end of a visit, and masters are
//! visited until all slots are done.
// S-35.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ClusterStore;
use super::route::Moving;
use super::slots::NodeAddress;
use super::topology::{Map, Node};
use crate::error::{StoreError, StoreErrorKind};
use crate::key::LockKey;
use crate::store::redis::requests::names::{Candidate, Keys, Place, in_use};
use crate::store::redis::server::slot::{SLOTS, slot_of};
use crate::store::{NamesCursor, NamesPage};

/// The time between two looks for a master of slots that have none.
const PAUSE: Duration = Duration::from_millis(50);

/// A set of slots, a bit for each.
#[derive(Clone)]
struct Slots(Box<[u64]>);

impl Slots {
    fn none() -> Self {
        Self(vec![0; usize::from(SLOTS) / 64].into())
    }

    /// The slots of a node.
    fn of(node: &NodeAddress, map: &Map) -> Self {
        let mut slots = Self::none();
        for slot in 0..SLOTS {
            if map.owner(slot).is_some_and(|owner| owner.address == *node) {
                slots.add(slot);
            }
        }
        slots
    }

    fn add(&mut self, slot: u16) {
        self.0.iter_mut().skip(usize::from(slot) / 64).take(1).for_each(|bits| {
            *bits |= 1 << (slot % 64);
        });
    }

    fn has(&self, slot: u16) -> bool {
        self.0.get(usize::from(slot) / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    /// Adds the slots that are in both others.
    fn add_common(&mut self, one: &Self, other: &Self) {
        for ((bits, one), other) in self.0.iter_mut().zip(&one.0).zip(&other.0) {
            *bits |= one & other;
        }
    }
}

/// Where the listing goes on.
#[derive(Clone)]
struct Visit {
    node: NodeAddress,
    /// The slots that it had when the visit began.
    slots: Slots,
    place: Place,
    /// The slots that are done.
    done: Slots,
}

impl Visit {
    /// The next visit: to a master with a slot that is not done. `None` if there is none, or its slots have no master.
    fn after(done: Slots, map: &Map) -> Option<Self> {
        let open = (0..SLOTS).filter(|slot| !done.has(*slot));
        let node = open.filter_map(|slot| map.owner(slot)).next()?.address.clone();
        Some(Self { slots: Slots::of(&node, map), node, place: Place::START, done })
    }
}

/// The keys of the cluster, wherever they are, until a deadline.
struct Everywhere<'a> {
    store: &'a ClusterStore,
    deadline: Instant,
}

impl Everywhere<'_> {
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Keys for Everywhere<'_> {
    async fn is_lock(&self, candidate: &Candidate) -> Result<bool, StoreError> {
        let at = (slot_of(&candidate.key), Moving::Follow);
        self.store.at(at, self.left(), |store, left| store.is_lock(candidate, left)).await
    }

    async fn exists(&self, name: &LockKey) -> Result<bool, StoreError> {
        let at = (slot_of(name.as_str()), Moving::Follow);
        self.store.at(at, self.left(), |store, left| store.exists(name, left)).await
    }
}

impl ClusterStore {
    pub(super) async fn page(
        &self,
        prefix: &str,
        from: &NamesCursor,
        deadline: Instant,
    ) -> Result<NamesPage, StoreError> {
        self.ensure_task();
        let topology = &self.shared.topology;
        let visit = match from.place::<Visit>()? {
            Some(visit) => Some(visit.clone()),
            None => Visit::after(Slots::none(), &topology.map()),
        };
        let Some(visit) = visit else { return Ok(NamesPage::default()) };
        let Some(node) = self.node_at(&visit.node) else {
            // It has left the cluster. Its slots are not done, so another master is asked for their names.
            let next = Visit::after(visit.done, &topology.map());
            return Ok(NamesPage::new(Vec::new(), next.map(NamesCursor::at)));
        };
        let (next, candidates) = node.store.scan(prefix, visit.place, deadline).await?;
        let checked = candidates.len();
        let names = in_use(candidates, prefix, &Everywhere { store: self, deadline }).await?;
        let next = match next {
            Some(place) => Some(Visit { place, ..visit }),
            None => self.after(visit, deadline).await?,
        };
        Ok(NamesPage::new(names, next.map(NamesCursor::at)).with_checked(checked))
    }

    /// The visit after one that has ended. Waits for a master if the slots that are left have none, as during a fail-over:
    /// the listing would else end without their names.
    async fn after(&self, visit: Visit, deadline: Instant) -> Result<Option<Visit>, StoreError> {
        let topology = &self.shared.topology;
        let mut done = visit.done;
        loop {
            if let Err(error) = topology.refresh().await {
                tracing::debug!(%error, "no node of the cluster says which node has which slot");
            }
            let map = topology.map();
            done.add_common(&visit.slots, &Slots::of(&visit.node, &map));
            let next = Visit::after(done.clone(), &map);
            if next.is_some() || (0..SLOTS).all(|slot| done.has(slot)) {
                return Ok(next);
            }
            if Instant::now() + PAUSE >= deadline {
                let message =
                    "some slots of the cluster have no master, so their names are not known";
                return Err(StoreError::new(StoreErrorKind::NotReady, message));
            }
            sleep(PAUSE).await;
        }
    }

    fn node_at(&self, address: &NodeAddress) -> Option<Arc<Node>> {
        let map = self.shared.topology.map();
        map.nodes.iter().find(|node| node.address == *address).cloned()
    }
}
