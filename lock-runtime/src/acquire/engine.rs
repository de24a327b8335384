//! [`Engine`]: the parts of a client that an acquire uses. It is created, counted and ended here, alone or with the
//! engines that depend on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::share::Readers;
use crate::clock::Clock;
use crate::lease::UnderWay;
use crate::lease::manager::{LeaseManager, Timing};
use crate::order::ClientOrder;
use crate::owned_hold::OwnedHold;
use crate::queue::Queues;
use crate::shadow::CircuitBreaker;
use crate::store::compose::joint::JointStore;
use crate::store::{Store, Target};
use crate::waits::Waits;

/// The parts of a client that an acquire uses.
pub(crate) struct Engine {
    pub(crate) leases: Arc<LeaseManager>,
    pub(crate) queues: Arc<Queues<OwnedHold>>,
    pub(crate) closed: AtomicBool,
    /// Notified when `closed` turns true.
    pub(crate) closing: Notify,
    /// Acquisitions that may have something under way in the store.
    pub(crate) contenders: UnderWay,
    pub(crate) readers: Readers,
    /// Acquires that wait for the store, for people who look in.
    pub(crate) waits: Arc<Waits>,
    /// True once the grace of a shutdown is over: tasks that hold locks then release them.
    pub(crate) grace_over: watch::Sender<bool>,
    /// For a multi-lock engine, the engines of its clients. They own it, so these are weak.
    members: Vec<Weak<Self>>,
    /// Multi-lock engines of this client and others, which end with it.
    dependents: Mutex<Vec<Dependent>>,
    /// Locked while a multi-lock engine is created.
    making: Mutex<()>,
    /// True if one of `dependents` was in use when another of its clients was dropped.
    has_orphans: AtomicBool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("leases", &self.leases).finish_non_exhaustive()
    }
}

/// An engine of several locks.
struct Dependent {
    /// The ids of its clients' lease managers, first the one whose settings it uses.
    clients: Vec<u64>,
    engine: Arc<Engine>,
}

impl Engine {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        timing: Timing,
        max_waiters: usize,
        breaker: Arc<CircuitBreaker>,
        order: ClientOrder,
    ) -> Self {
        Self::on(
            LeaseManager::new(store, clock, timing, breaker, order),
            Queues::new(max_waiters),
            Vec::new(),
        )
    }

    fn on(leases: LeaseManager, queues: Arc<Queues<OwnedHold>>, members: Vec<Weak<Self>>) -> Self {
        Self {
            leases: Arc::new(leases),
            queues,
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            contenders: UnderWay::default(),
            readers: Readers::default(),
            waits: Arc::default(),
            grace_over: watch::Sender::new(false),
            members,
            dependents: Mutex::default(),
            making: Mutex::default(),
            has_orphans: AtomicBool::new(false),
        }
    }

    /// The engine of the multi locks of these clients, of which this is one. Created once, with this client's
    /// settings. It ends with any of them.
    pub(crate) fn joint(self: &Arc<Self>, clients: &BTreeMap<u64, &Arc<Self>>) -> Arc<Self> {
        let ids: Vec<_> = [self.leases.id].into_iter().chain(clients.keys().copied()).collect();
        self.drop_ended();
        // No caller finds an engine that is not in the lists of all its clients: a shutdown of one of them
        // would not wait for the locks that the caller acquires.
        let _making = self.making.lock();
        if let Some(known) = self.dependents.lock().iter().find(|one| one.clients == ids) {
            return Arc::clone(&known.engine);
        }
        let LeaseManager { clock, timing, breaker, .. } = &*self.leases;
        let stores = clients.iter().map(|(id, engine)| (*id, Arc::clone(&engine.leases.store)));
        let store = Arc::new(JointStore::new(stores.collect(), clock.clone()));
        let orders = clients.iter().map(|(id, engine)| (*id, engine.leases.order.clone()));
        let order = ClientOrder::joint(orders);
        let leases = LeaseManager::new(store, clock.clone(), *timing, Arc::clone(breaker), order)
            .at_home_of(&self.leases);
        let members = clients.values().map(|engine| Arc::downgrade(engine)).collect();
        let joint = Arc::new(Self::on(leases, self.queues.more(), members));
        for other in clients.values().filter(|engine| !Arc::ptr_eq(engine, self)) {
            let dependent = Dependent { clients: ids.clone(), engine: Arc::clone(&joint) };
            other.dependents.lock().push(dependent);
        }
        self.dependents.lock().push(Dependent { clients: ids, engine: Arc::clone(&joint) });
        // A shutdown that began before the engine was in the lists has not closed it.
        if clients.values().any(|engine| engine.closed.load(Ordering::SeqCst)) {
            joint.close();
        }
        joint
    }

    /// Drops the multi-lock engines that have ended. One that was in use when its client was dropped goes at a
    /// later call.
    fn drop_ended(&self) {
        let mut ended = Vec::new();
        let mut dependents = self.dependents.lock();
        self.has_orphans.store(false, Ordering::Relaxed);
        let mut at = 0;
        while let Some(one) = dependents.get(at) {
            if one.engine.has_ended() {
                ended.push(dependents.swap_remove(at));
            } else {
                if one.engine.is_orphan() {
                    self.has_orphans.store(true, Ordering::Relaxed);
                }
                at += 1;
            }
        }
        // An engine is dropped where nothing is locked: it locks the lists of other clients.
        drop(dependents);
    }

    /// Drops the ended engines that were in use when one of their clients was dropped.
    pub(super) fn drop_orphans(&self) {
        if self.has_orphans.load(Ordering::Relaxed) {
            self.drop_ended();
        }
    }

    fn members_alive(&self) -> usize {
        self.members.iter().filter(|member| member.strong_count() > 0).count()
    }

    /// True if this is a multi-lock engine one of whose clients was dropped.
    fn is_orphan(&self) -> bool {
        self.members_alive() < self.members.len()
    }

    /// True if this is an orphan that is not used any more.
    fn has_ended(self: &Arc<Self>) -> bool {
        // Each client that is alive has it in its list.
        self.is_orphan()
            && Arc::strong_count(self) <= self.members_alive()
            && self.left_behind() == (0, 0)
    }

    /// Returns this engine and those that end with it.
    pub(crate) fn family(self: &Arc<Self>) -> Vec<Arc<Self>> {
        self.drop_ended();
        let mut family = vec![Arc::clone(self)];
        family.extend(self.dependents.lock().iter().map(|one| Arc::clone(&one.engine)));
        family
    }

    /// Returns the engines that may hold a lock which this one acquires: its family, and those of its members.
    pub(super) fn relatives(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut relatives = self.family();
        for member in self.members.iter().filter_map(Weak::upgrade) {
            relatives.extend(member.family());
        }
        relatives
    }

    /// True if no other engine may hold a lock which this one acquires.
    fn has_no_relatives(&self) -> bool {
        self.members.is_empty() && self.dependents.lock().is_empty()
    }

    /// True if this process is releasing one of these locks in the background.
    pub(super) fn is_releasing(self: &Arc<Self>, target: &Target) -> bool {
        let is_releasing = |engine: &Self| engine.leases.releaser.is_releasing(target);
        match self.has_no_relatives() {
            true => is_releasing(self),
            false => self.relatives().iter().any(|engine| is_releasing(engine)),
        }
    }

    /// Waits until the store has answered the releases of these locks that this process had in the background at this call.
    pub(super) async fn released(self: &Arc<Self>, target: &Target) {
        if self.has_no_relatives() {
            return self.leases.releaser.answered(target).await;
        }
        let relatives = self.relatives();
        join_all(relatives.iter().map(|engine| engine.leases.releaser.answered(target))).await;
    }

    /// Returns the store of that client, if it is this one or one of its members.
    pub(super) fn store_of(&self, client: u64) -> Option<Arc<dyn Store>> {
        if client == self.leases.id {
            return Some(Arc::clone(&self.leases.store));
        }
        let members = self.members.iter().filter_map(Weak::upgrade);
        let member = members.into_iter().find(|member| member.leases.id == client)?;
        Some(Arc::clone(&member.leases.store))
    }

    /// Refuses new acquires and ends all waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.queues.close();
        self.closing.notify_waiters();
        self.leases.revive(false);
    }

    /// Waits until no lock is held and no acquire or release is under way.
    pub(crate) async fn settled(&self) {
        // In this order: an acquire under way may still become a hold, and a hold a release.
        self.contenders.ended().await;
        self.leases.watchdog.emptied().await;
        self.leases.releaser.unfinished.ended().await;
    }

    /// Returns the number of holds, and the number of acquires and releases under way.
    pub(crate) fn left_behind(&self) -> (usize, usize) {
        let Self { leases, contenders, .. } = self;
        (leases.watchdog.holds(), leases.releaser.unfinished.count() + contenders.count())
    }
}

impl Drop for Engine {
    /// Multi-lock engines that use this client end with it.
    fn drop(&mut self) {
        let dependents = self.dependents.get_mut();
        let dependents = std::mem::take(dependents);
        let members = dependents.iter().flat_map(|one| one.engine.members.clone());
        let others: Vec<_> = members.filter_map(|member| member.upgrade()).collect();
        // First: an engine in this list counts as used.
        drop(dependents);
        others.iter().for_each(|other| other.drop_ended());
    }
}
