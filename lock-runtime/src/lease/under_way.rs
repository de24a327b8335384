//! Waits for conditions that other tasks make true.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Waits until `done`, which it checks again at every notification of `told`.
pub(crate) async fn wait_until(told: &Notify, done: impl Fn() -> bool) {
    loop {
        let next = told.notified();
        tokio::pin!(next);
        // Register, then check, then wait: it may become true in between.
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
    pub(crate) fn begin(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

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
