//! The client's task: it renews holds, releases what was dropped, and asks the store for waiters.
//!
//! It runs in one runtime. When that has ended, or is not driven any more, a [keeper](super::keepers) starts another, which takes
//! its place: of several tasks only the one with the highest number works, and it takes over what the earlier ones have begun.
// S-11, S-20.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::OptionFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::in_flight::InFlight;
use super::releaser::Releaser;
use super::watchdog::Watchdog;
use crate::store::Store;

/// What the tasks of one client know of each other.
pub(crate) struct ClientTask {
    watchdog: Arc<Watchdog>,
    releaser: Arc<Releaser>,
    store: Arc<dyn Store>,
    /// Told by the watchdog and the releaser when there is something to do.
    wake: Arc<Notify>,
    /// Has the keepers look at once.
    look: Arc<Notify>,
    /// The last number that was given to a task.
    given: AtomicU64,
    /// The highest number of a task that was polled: only that task works.
    // A runtime that ends may drop a task before its first poll. Such a task must not end the one that works.
    works: AtomicU64,
    /// The highest number of a task that exists; zero if none does.
    running: AtomicU64,
    /// How often a task has looked for work.
    // Relaxed: a keeper compares what it saw some looks ago.
    rounds: AtomicU64,
    in_flight: InFlight,
}

impl ClientTask {
    pub(super) fn new(
        watchdog: Arc<Watchdog>,
        releaser: Arc<Releaser>,
        store: Arc<dyn Store>,
        wake: Arc<Notify>,
        look: Arc<Notify>,
    ) -> Arc<Self> {
        Arc::new(Self {
            watchdog,
            releaser,
            store,
            wake,
            look,
            given: AtomicU64::new(0),
            works: AtomicU64::new(0),
            running: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            in_flight: InFlight::default(),
        })
    }

    /// True while a task runs. One that ends right after this look is found by the next acquire, waiter or keeper that looks.
    // The partners are `fetch_max` in `run` and the exchange in the drop of `Running`.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) != 0
    }

    /// How often a task has looked for work, if there is any: holds, which it looks at every second, releases or jobs. A task that is
    /// polled makes a round before the next look, even if it waits for the store: it is woken.
    pub(super) fn unattended(&self) -> Option<u64> {
        let has_work = self.watchdog.holds() > 0 || self.releaser.has_work();
        has_work.then(|| {
            self.wake.notify_one();
            self.rounds.load(Ordering::Relaxed)
        })
    }

    /// A task, which takes the place of an earlier one. It ends when the client has ended and nothing is left to release, when a later
    /// task has its place, or with its runtime, which may drop it before its first poll.
    pub(crate) fn run(self: Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
        // The larger number stays: a later task may have been made meanwhile.
        self.running.fetch_max(number, Ordering::AcqRel);
        let running = Running { task: Arc::clone(&self), number };
        async move {
            // Dropped after what the task has begun, which puts releases back into the queue.
            let _running = running;
            self.work(number).await;
        }
    }

    async fn work(&self, number: u64) {
        // From here on the earlier task ends at its next look at the number.
        self.works.fetch_max(number, Ordering::AcqRel);
        // An earlier task may not be polled, and would keep the next notification to itself.
        self.wake.notify_waiters();
        let mut begun = self.in_flight.begin(number);
        self.releaser.begin_reports();
        let mut look_at = Some(Instant::now());
        loop {
            // Before the look at the number: a task that takes its place from now on wakes it.
            let woken = self.wake.notified();
            // Puts back what the earlier task has begun.
            begun.end_earlier();
            if self.works.load(Ordering::Acquire) != number {
                return;
            }
            self.rounds.fetch_add(1, Ordering::Relaxed);
            self.watchdog.begin_due(&self.store, &mut look_at, &begun);
            self.releaser.begin_jobs(&self.store, &begun);
            if begun.is_empty() && self.releaser.is_done() && self.watchdog.holds() == 0 {
                return;
            }
            tokio::select! {
                Some(()) = OptionFuture::from(look_at.map(sleep_until)) => {}
                () = woken => {}
                Some(()) = begun.next() => {}
            }
        }
    }
}

/// Exists as long as a task of that number.
struct Running {
    task: Arc<ClientTask>,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        let ClientTask { watchdog, wake, running, releaser, look, .. } = &*self.task;
        // What it was told, or has looked at last, may have been meant for the task that has its place now.
        watchdog.call();
        wake.notify_one();
        // Unless another has taken its place.
        let ended = running.compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Relaxed);
        if ended.is_ok() {
            releaser.report_pending();
        }
        // The keepers then find that no task runs, and one of them starts the next.
        look.notify_waiters();
    }
}
