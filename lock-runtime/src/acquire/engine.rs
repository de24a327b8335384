//! The life of an [`Engine`]: made, counted, ended, alone or with those that depend on it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{Engine, Grace, Readers};
use crate::clock::Clock;
use crate::gate::Gates;
use crate::lease::keeper::{Keeper, Timing};
use crate::lease::sight::Sight;
use crate::lease::told_until;
use crate::store::{OwnerId, Store, new_id};

impl Engine {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        timing: Timing,
        max_waiters: usize,
        sight: Arc<Sight>,
    ) -> Self {
        let id = store.claim_id().unwrap_or_else(new_id);
        Self {
            id,
            keeper: Arc::new(Keeper::new(store, clock, timing, sight)),
            gates: Gates::new(max_waiters),
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

    /// Has `engine`, whose store is made of this one's and others, end with this one.
    pub(crate) fn add_dependent(&self, engine: &Arc<Self>) {
        let mut dependents = self.dependents.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody can use any more go when the list would grow.
        if dependents.len() == dependents.capacity() {
            dependents.retain(|one| Arc::strong_count(one) > 1 || one.left_behind() != (0, 0));
        }
        if self.closed.load(Ordering::SeqCst) {
            engine.close();
        }
        dependents.push(Arc::clone(engine));
    }

    /// This engine and those that end with it.
    pub(crate) fn family(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut family = vec![Arc::clone(self)];
        family.extend(self.dependents.lock().unwrap_or_else(PoisonError::into_inner).clone());
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
