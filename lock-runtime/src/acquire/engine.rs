//! The life of an [`Engine`]: made, counted, ended, alone or with those that depend on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Engine, Grace, Readers};
use crate::clock::Clock;
use crate::gate::Gates;
use crate::lease::keeper::{Keeper, Timing};
use crate::lease::sight::Sight;
use crate::lease::told_until;
use crate::stand::Stand;
use crate::store::compose::joint::JointStore;
use crate::store::{OwnerId, Store, new_id};

/// An engine of several locks.
pub(super) struct Dependent {
    of: Clients,
    engine: Arc<Engine>,
}

/// Whose locks an engine takes, by the ids of their keepers.
#[derive(Clone, PartialEq, Eq)]
struct Clients {
    /// The one whose settings it has.
    settings: u64,
    all: Vec<u64>,
}

impl Engine {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        timing: Timing,
        max_waiters: usize,
        sight: Arc<Sight>,
    ) -> Self {
        Self::on(Keeper::new(store, clock, timing, sight), Gates::new(max_waiters))
    }

    fn on(keeper: Keeper, gates: Arc<Gates<Stand>>) -> Self {
        let id = keeper.store.claim_id().unwrap_or_else(new_id);
        Self {
            id,
            keeper: Arc::new(keeper),
            gates,
            uuid: Arc::from(id.to_string()),
            holds: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            contenders: AtomicUsize::new(0),
            no_contenders: Notify::new(),
            readers: Readers::default(),
            grace: Grace::default(),
            dependents: Mutex::default(),
        }
    }

    /// The engine of several locks of these clients, of which this is one: made once, with this one's
    /// settings. It ends with any of them.
    pub(crate) fn joint(self: &Arc<Self>, clients: &BTreeMap<u64, &Arc<Self>>) -> Arc<Self> {
        let of = Clients { settings: self.keeper.id, all: clients.keys().copied().collect() };
        let mut dependents = self.dependents();
        if let Some(known) = dependents.iter().find(|one| one.of == of) {
            return Arc::clone(&known.engine);
        }
        let Keeper { clock, timing, sight, .. } = &*self.keeper;
        let stores = clients.iter().map(|(id, engine)| (*id, Arc::clone(&engine.keeper.store)));
        let store = Arc::new(JointStore::new(stores.collect(), clock.clone()));
        let keeper = Keeper::new(store, clock.clone(), *timing, Arc::clone(sight));
        let joint = Arc::new(Self::on(keeper, self.gates.more()));
        self.add(&mut dependents, of.clone(), &joint);
        drop(dependents);
        let others = clients.values().filter(|engine| !Arc::ptr_eq(engine, self));
        others.for_each(|engine| engine.add(&mut engine.dependents(), of.clone(), &joint));
        joint
    }

    /// Has `engine` end with this one.
    fn add(&self, dependents: &mut Vec<Dependent>, of: Clients, engine: &Arc<Self>) {
        // Those that nobody can use any more go when the list would grow.
        if dependents.len() == dependents.capacity() {
            dependents.retain(|one| {
                Arc::strong_count(&one.engine) > 1 || one.engine.left_behind() != (0, 0)
            });
        }
        if self.closed.load(Ordering::SeqCst) {
            engine.close();
        }
        dependents.push(Dependent { of, engine: Arc::clone(engine) });
    }

    fn dependents(&self) -> MutexGuard<'_, Vec<Dependent>> {
        self.dependents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This engine and those that end with it.
    pub(crate) fn family(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut family = vec![Arc::clone(self)];
        family.extend(self.dependents().iter().map(|one| Arc::clone(&one.engine)));
        family
    }

    /// Lets nobody acquire any more, and sends away whoever waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.gates.close();
        self.closing.notify_waiters();
        self.keeper.ensure_running();
    }

    /// Waits until nothing is held, under way, or being given back.
    pub(crate) async fn settled(&self) {
        // In this order: what is under way may still become a hold, and a hold a release.
        told_until(&self.no_contenders, || self.contenders.load(Ordering::SeqCst) == 0).await;
        self.keeper.watchdog.emptied().await;
        self.keeper.releaser.drained().await;
    }

    /// How many holds there are, and how much is under way or being given back.
    pub(crate) fn left_behind(&self) -> (usize, usize) {
        let Self { keeper, contenders, .. } = self;
        let under_way = keeper.releaser.unfinished() + contenders.load(Ordering::SeqCst);
        (keeper.watchdog.holds(), under_way)
    }

    pub(super) fn next_owner(&self, permits: u32) -> OwnerId {
        OwnerId::new(&self.uuid, self.holds.fetch_add(1, Ordering::Relaxed) + 1, permits)
    }
}
