//! [`LeaseManager`]: the store, the watchdog and the releaser of a client, and the tasks that drive them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::Hold;
use super::keepers::{Ended, Keepers};
use super::releaser::{AfterRelease, ClientJob, ReleaseJob, Releaser};
use super::watchdog::Watchdog;
use crate::clock::{Clock, Tick};
use crate::error::{LockError, check_runtime};
use crate::order::ClientOrder;
#[cfg(feature = "blocking")]
use crate::own_runtime::{Home, Origin};
use crate::shadow::CircuitBreaker;
use crate::store::{HoldNumber, OwnerId, Store, new_id};

/// The durations that govern a client, from its builder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long one command may take.
    pub(crate) command_timeout: Duration,
    /// How long an acquire tolerates a store that cannot be reached.
    pub(crate) store_patience: Duration,
    /// The longest sleep between two attempts, with or without notifications.
    pub(crate) poll_cap: Duration,
    /// How long the store keeps a waiter's place without a sign of life.
    pub(crate) waiter_lease: Duration,
    /// How long local hand-offs may follow each other before other processes get a chance.
    pub(crate) handoff_window: Duration,
    /// How long a fencing counter outlives its last use.
    pub(crate) token_ttl: Duration,
}

impl Timing {
    /// For how long after a hold with this lease was acquired readers may have it without the store. It is not renewed
    /// meanwhile.
    // S-10, S-27.
    pub(crate) fn phase_window(&self, lease: Duration) -> Duration {
        self.handoff_window.min(lease / 3)
    }
}

/// Numbers the lease managers of this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Renews and releases the holds of a client.
pub(crate) struct LeaseManager {
    /// Tells clients apart: unique among the lease managers of this process.
    pub(crate) id: u64,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) timing: Timing,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) breaker: Arc<CircuitBreaker>,
    /// Whether the client records the order of its locks.
    pub(crate) order: ClientOrder,
    /// The client's uuid.
    // S-4.
    pub(crate) client: Uuid,
    /// The same as text.
    client_text: Arc<str>,
    /// Number of the last hold.
    holds: AtomicU64,
    /// The number of the watchdog's task; zero if it has none.
    watched_by: Arc<AtomicU64>,
    /// The runtimes that keep the tasks alive.
    pub(super) keepers: Keepers,
    /// Locked while a task is started, so that each is started once.
    starting: Mutex<()>,
    /// Where the tasks run; `None` for the runtime in which a lock is first used.
    #[cfg(feature = "blocking")]
    home: Option<Home>,
    #[cfg(feature = "blocking")]
    origin: Origin,
}

/// Exists as long as a task of the watchdog, of that number.
struct Watched {
    watched_by: Arc<AtomicU64>,
    number: u64,
    /// Dropped last: the keepers then find that the task has ended.
    _ended: Ended,
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Unless another has taken its place.
        let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.watched_by.compare_exchange(self.number, 0, order, failed);
    }
}

impl LeaseManager {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        timing: Timing,
        breaker: Arc<CircuitBreaker>,
        order: ClientOrder,
    ) -> Self {
        let client = store.claim_id().unwrap_or_else(new_id);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            watchdog: Watchdog::new(clock.clone(), timing.command_timeout),
            releaser: Releaser::new(clock.clone(), timing.command_timeout),
            client,
            client_text: Arc::from(client.to_string()),
            holds: AtomicU64::new(0),
            watched_by: Arc::default(),
            keepers: Keepers::default(),
            starting: Mutex::default(),
            #[cfg(feature = "blocking")]
            home: Home::entered(),
            #[cfg(feature = "blocking")]
            origin: Origin::of_this_process(),
            breaker,
            order,
            store,
            clock,
            timing,
        }
    }

    /// Fails for a call outside of a runtime, and for one in a fork of the client's process.
    pub(crate) fn check_caller(&self) -> Result<Id, LockError> {
        let runtime = check_runtime()?;
        #[cfg(feature = "blocking")]
        self.origin.check(self.home.as_ref())?;
        Ok(runtime)
    }

    /// The owner of the next hold of this client.
    pub(crate) fn next_owner(&self, permits: u32) -> OwnerId {
        let number = self.holds.fetch_add(1, Ordering::Relaxed) + 1;
        OwnerId::new(&self.client_text, number, permits)
    }

    /// The owner of a hold of this client again.
    pub(crate) fn owner(&self, HoldNumber { hold, permits }: HoldNumber) -> OwnerId {
        OwnerId::new(&self.client_text, hold, permits.get())
    }

    /// Sees to it that the tasks run: a client may be made before there is a runtime, and may
    /// outlive the one that it was first used on. The caller's runtime, which is this one, keeps them alive from then on.
    pub(crate) fn ensure_running(self: &Arc<Self>, runtime: Id) {
        if !self.keepers.knows(runtime) {
            self.keepers.remember(self);
        }
        self.revive(false, false);
    }

    /// Starts the tasks that have ended, and those that are stalled, but nothing outside of a runtime.
    pub(crate) fn revive(self: &Arc<Self>, watchdog_stalls: bool, releaser_stalls: bool) {
        // Every acquire looks, so without the mutex.
        let is_watched = || self.watched_by.load(Ordering::Acquire) != 0;
        let is_well = |watchdog_stalls: bool, releaser_stalls: bool| {
            !watchdog_stalls && is_watched() && !releaser_stalls && self.releaser.has_task()
        };
        if is_well(watchdog_stalls, releaser_stalls) {
            return;
        }
        let _starting = self.starting.lock();
        if (watchdog_stalls || !is_watched()) && !self.watchdog.is_done() {
            self.spawn(watchdog_stalls, || self.watch());
        }
        if releaser_stalls || !self.releaser.has_task() {
            self.spawn(releaser_stalls, || {
                let ended = self.keepers.ended();
                let running = Arc::clone(&self.releaser).run(Arc::clone(&self.store));
                async move {
                    let _ended = ended;
                    running.await;
                }
            });
        }
    }

    /// A task of the watchdog. It takes the place of an earlier one.
    fn watch(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let number = self.watchdog.next_task();
        self.watched_by.store(number, Ordering::Release);
        let watched = Watched {
            watched_by: Arc::clone(&self.watched_by),
            number,
            _ended: self.keepers.ended(),
        };
        let running = Arc::clone(&self.watchdog).run(Arc::clone(&self.store), number);
        let leases = Arc::downgrade(self);
        async move {
            // A runtime that ends drops it, also before it was polled.
            let _watched = watched;
            running.await;
            // Where there is a later task, this runtime goes on to watch that.
            if let Some(leases) = leases.upgrade() {
                leases.keepers.remember(&leases);
            }
        }
    }

    /// Starts a task in the client's own runtime or, if there is none any more, or it `stalls`, in the caller's.
    fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        stalls: bool,
        task: impl Fn() -> F,
    ) -> Option<JoinHandle<()>> {
        #[cfg(feature = "blocking")]
        let home = self.home.as_ref().map(|home| &home.handle);
        #[cfg(not(feature = "blocking"))]
        let home = None::<&Handle>;
        let own = home.filter(|_| !stalls).map(|home| home.spawn(task()));
        // A runtime that has ended drops the task at once.
        let own = own.filter(|running| !running.is_finished());
        own.or_else(|| Handle::try_current().ok().map(|runtime| runtime.spawn(task())))
    }

    /// Hands a job to the releaser.
    pub(crate) fn give(self: &Arc<Self>, job: ReleaseJob) {
        self.releaser.give(job);
        // The runtime that ran the task may be gone, and one that is ending drops a new task at once.
        self.revive(false, false);
        self.releaser.report_pending();
    }

    /// Has a task of the client do a job, now or when there next is one.
    pub(crate) fn give_job(self: &Arc<Self>, job: Box<dyn ClientJob>) {
        self.releaser.give_job(job);
        self.revive(false, false);
    }

    /// Ends renewals of a hold and hands it to the releaser, which has the store free it at `keep_until`, or at
    /// once.
    pub(crate) fn release_later(
        self: &Arc<Self>,
        hold: &Hold,
        keep_until: Option<Tick>,
        after: Option<AfterRelease>,
    ) {
        // A shutdown that finds no hold any more waits for this release.
        let _under_way = self.releaser.elsewhere();
        let repeated = hold.is_released();
        let ends_at = hold.stored_until();
        let ends_at = keep_until.map_or(ends_at, |kept| ends_at.max(kept));
        hold.mark_released(self.clock.now());
        self.watchdog.remove(hold);
        self.give(ReleaseJob {
            target: Arc::clone(&hold.target),
            owner: hold.owner.clone(),
            keep_until,
            // A request may take effect some time after it was sent; one more lease is on the safe side.
            until: ends_at.after(hold.lease.duration()),
            unsettled: hold.unsettled.load(Ordering::Relaxed),
            repeated,
            label: hold.recorder.label(),
            meter: hold.release_meter(),
            after,
        });
    }
}

impl Drop for LeaseManager {
    fn drop(&mut self) {
        self.watchdog.close();
        self.releaser.close();
        self.keepers.look();
    }
}

impl fmt::Debug for LeaseManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseManager").field("store", &self.store).finish_non_exhaustive()
    }
}
