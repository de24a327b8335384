//! Waits for conditions that other tasks make true.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Waits until `done`, which it checks again at every notification of `told`.
pub(crate) async fn wait_until(told: &Notify, done: impl Fn() -> bool) {
    loop {
        let next = told.notified();
        tokio::pin!(next);
        // Register, then check, then wait: it may become true in between. The other task makes it true, then notifies: a
        // notification from before this line has made it true before the check, and one from after it ends the wait.
        next.as_mut().enable();
        if done() {
            return;
        }
        next.await;
    }
}

/// Counts work under way, and wakes the tasks that wait for its end.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    count: AtomicUsize,
    none_left: Notify,
}

impl UnderWay {
    // SeqCst, here and in `count`: a shutdown sets `closed` and then counts, and an acquire counts itself and then looks at
    // `closed` before it makes a hold. So the shutdown waits for the acquire, or the acquire gives up its grant.
    pub(crate) fn begin(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends what [`begin`](Self::begin) has begun.
    // What the work has done comes before this, and `ended` acquires it by its load of zero.
    pub(crate) fn end(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.none_left.notify_waiters();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until nothing is under way.
    pub(crate) async fn ended(&self) {
        wait_until(&self.none_left, || self.count() == 0).await;
    }
}
