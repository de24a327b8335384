//! [`Engine`]: the parts of a client that an acquire uses. It is created, counted and ended here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};

use super::share::Readers;
use crate::admin::order::ClientOrder;
use crate::admin::waits::Waits;
use crate::clock::Clock;
use crate::lease::UnderWay;
use crate::lease::manager::{LeaseManager, Timing};
use crate::owned_hold::OwnedHold;
use crate::queue::Queues;
use crate::shadow::CircuitBreaker;
use crate::store::Store;

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
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("leases", &self.leases).finish_non_exhaustive()
    }
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
        Self {
            leases: Arc::new(LeaseManager::new(store, clock, timing, breaker, order)),
            queues: Queues::new(max_waiters),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            contenders: UnderWay::default(),
            readers: Readers::default(),
            waits: Arc::default(),
            grace_over: watch::Sender::new(false),
        }
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
