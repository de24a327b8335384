//! [`LeaseManager`]: the store, the watchdog and the releaser of a client, and the task that drives them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::Hold;
use super::client_task::ClientTask;
use super::keepers::Keepers;
use super::releaser::{AfterRelease, ClientJob, ReleaseJob, Releaser};
use super::watchdog::Watchdog;
use crate::admin::order::ClientOrder;
use crate::clock::{Clock, Tick};
use crate::error::{LockError, check_runtime};
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
    /// For how long after a read hold with this lease was acquired it is kept for readers of this process. It is not renewed
    /// meanwhile.
    // S-10, S-27.
    pub(crate) fn window_of(&self, lease: Duration) -> Duration {
        self.handoff_window.min(lease / 3)
    }
}

/// The pause before the client's task starts anew after a panic.
const AFTER_PANIC: Duration = Duration::from_millis(50);

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
    /// The task that renews and releases.
    pub(crate) task: Arc<ClientTask>,
    /// The runtimes that keep the task alive.
    pub(super) keepers: Keepers,
    /// Where the tasks run; `None` for the runtime in which a lock is first used.
    #[cfg(feature = "blocking")]
    home: Option<Home>,
    #[cfg(feature = "blocking")]
    origin: Origin,
}

impl LeaseManager {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        timing: Timing,
        breaker: Arc<CircuitBreaker>,
        order: ClientOrder,
    ) -> Self {
        // The store names its connections by this id, and lends it once: two clients with one id would have the same owner ids.
        let client = store.claim_id().unwrap_or_else(new_id);
        let (wake, keepers) = (Arc::<Notify>::default(), Keepers::default());
        let watchdog = Watchdog::new(clock.clone(), timing.command_timeout, Arc::clone(&wake));
        let releaser = Releaser::new(clock.clone(), timing.command_timeout, Arc::clone(&wake));
        let task = ClientTask::new(
            Arc::clone(&watchdog),
            Arc::clone(&releaser),
            Arc::clone(&store),
            wake,
            Arc::clone(keepers.look()),
        );
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            watchdog,
            releaser,
            task,
            client,
            client_text: Arc::from(client.to_string()),
            holds: AtomicU64::new(0),
            keepers,
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

    /// Sees to it that the task runs: a client may be made before there is a runtime, and may
    /// outlive the one that it was first used on. The caller's runtime, which is this one, keeps it alive from then on.
    pub(crate) fn ensure_running(self: &Arc<Self>, runtime: Id) {
        if !self.keepers.knows(runtime) {
            self.keepers.remember(self);
        }
        self.revive(false);
    }

    /// Starts the task if it has ended, or is stalled; outside of a runtime it starts nothing.
    pub(crate) fn revive(self: &Arc<Self>, stalls: bool) {
        if !stalls && self.task.is_running() {
            return;
        }
        // Two callers may start one each: the later task takes the place of the earlier. No mutex is held, because a runtime that
        // ends drops the task here, which logs.
        self.spawn(stalls, || {
            // Weak: the task lives as long as its runtime, and must not keep the client.
            let (running, leases) = (Arc::clone(&self.task).run(), Arc::downgrade(self));
            let successor = AfterPanic(Weak::clone(&leases));
            async move {
                // Dropped after the task.
                let _successor = successor;
                running.await;
                // Where there is a later task, this runtime goes on to watch that.
                if let Some(leases) = leases.upgrade() {
                    leases.keepers.remember(&leases);
                }
            }
        });
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
        // The job is queued before the task is looked for: a task that has ended is found gone here, and one that ends later
        // leaves the job for the next look.
        self.releaser.give(job);
        // The runtime that ran the task may be gone, and one that is ending drops a new task at once.
        self.revive(false);
        if !self.task.is_running() {
            self.releaser.report_pending();
        }
    }

    /// Has a task of the client do a job, now or when there next is one.
    pub(crate) fn give_job(self: &Arc<Self>, job: Box<dyn ClientJob>) {
        self.releaser.give_job(job);
        self.revive(false);
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
        // In this order. What the store may keep is read first; from the mark on no renewal begins, and one that another task
        // is sending right now is in the lease that is added below. Then the watchdog forgets the hold, and only then the
        // releaser has it.
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
            unsettled: hold.unsettled,
            repeated,
            label: hold.recorder.label(),
            meter: hold.release_meter(),
            after,
        });
    }
}

/// Has the client's task start anew after a panic in it, of a waker or of a subscriber of the log: holds must be renewed.
struct AfterPanic(Weak<LeaseManager>);

impl Drop for AfterPanic {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(runtime) = Handle::try_current()
        {
            let leases = Weak::clone(&self.0);
            runtime.spawn(async move {
                // What panicked may do so again, each time.
                tokio::time::sleep(AFTER_PANIC).await;
                if let Some(leases) = leases.upgrade() {
                    leases.revive(false);
                }
            });
        }
    }
}

impl Drop for LeaseManager {
    fn drop(&mut self) {
        self.watchdog.close();
        self.releaser.close();
        self.keepers.look().notify_waiters();
    }
}

impl fmt::Debug for LeaseManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseManager").field("store", &self.store).finish_non_exhaustive()
    }
}
