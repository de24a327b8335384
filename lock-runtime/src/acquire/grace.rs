//! [`Grace`]: the time that a shutdown gives what still holds locks, and its end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::lease::wait_until;

/// Tells those that give a lock back by themselves when it is time to.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    over: AtomicBool,
    told: Notify,
    listeners: AtomicUsize,
}

/// Counts a listener until it is dropped.
struct Listener<'a>(&'a AtomicUsize);

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Grace {
    /// Waits for the end.
    pub(crate) async fn over(&self) {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        let _listener = Listener(&self.listeners);
        wait_until(&self.told, || self.over.load(Ordering::SeqCst)).await;
    }

    /// Ends it; true if a task has waited for that.
    pub(crate) fn end(&self) -> bool {
        let listened = self.listeners.load(Ordering::SeqCst) > 0;
        self.over.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
        listened
    }
}
