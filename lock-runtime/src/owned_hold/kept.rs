//! A read hold that is kept for the readers that were let in together.
// S-34.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::OwnedHold;
use crate::queue::Kept;

/// Keeps a read hold until the last reader that it was kept for has dropped this: quick readers would end the hold before others
/// have joined it.
struct Keeper(Mutex<Option<Arc<OwnedHold>>>);

impl Keeper {
    fn stop(&self) {
        let owned = self.0.lock().take();
        // Ended after the unlock: a hold that ends may come back here.
        drop(owned);
    }
}

/// Stops a keeper when it is dropped: at the end of the window, or with the runtime of the task that waits for that.
struct StopKeeping(Weak<Keeper>);

impl Drop for StopKeeping {
    fn drop(&mut self) {
        if let Some(keeper) = self.0.upgrade() {
            keeper.stop();
        }
    }
}

impl OwnedHold {
    /// Keeps this read hold for readers that are let in with its own, until the last of them has dropped the result. It ends with
    /// the hand-off window in any case: one of them may not be polled.
    pub(crate) fn keep_for_others(self: &Arc<Self>) -> Kept {
        let window = self.leases.timing.window_of(self.hold.lease.duration());
        let left = window.saturating_sub(self.leases.clock.now().since(self.hold.taken_at));
        if left.is_zero() {
            return None;
        }
        let keeper = Arc::new(Keeper(Mutex::new(Some(Arc::clone(self)))));
        // Made here, and not when the task first runs: a runtime that ends may drop the task before that.
        let stop = StopKeeping(Arc::downgrade(&keeper));
        let until_then: BoxFuture<'static, ()> = Box::pin(async move {
            let _stop = stop;
            tokio::time::sleep(left).await;
        });
        self.leases.give_job(Box::new(until_then));
        Some(keeper)
    }
}
