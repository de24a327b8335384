//! Who waits for which lock in this process, for people who look in.
//!
//! Waiters in a local queue are known there. One that the store is asked for is listed here once it has been refused, so
//! an acquire that does not wait costs nothing for this.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::site::CallSite;
use crate::store::Target;

/// Who waits: the site of the call, and what it runs inside of.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) site: Option<CallSite>,
    pub(crate) around: Option<Arc<dyn Surroundings>>,
}

/// The holds that enclose a call.
pub(crate) trait Surroundings: Send + Sync {
    /// Calls `visit` with each lock that is held around the call, the innermost first, and with the pseudonym of its owner.
    fn visit(&self, visit: &mut dyn FnMut(&Target, u64));
}

/// One wait.
pub(crate) struct WaitEntry {
    pub(crate) target: Arc<Target>,
    pub(crate) since: Instant,
    pub(crate) asker: Asker,
    /// How many tasks of this process are served before it; `None` if it asks the store.
    pub(crate) place: Option<usize>,
}

/// The tasks of one client that wait for the store.
#[derive(Default)]
pub(crate) struct Waits {
    next: AtomicU64,
    by_number: Mutex<BTreeMap<u64, WaitEntry>>,
}

impl Waits {
    /// Lists a wait until the result is dropped.
    pub(crate) fn list(self: &Arc<Self>, wait: WaitEntry) -> Listed {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.by_number.lock().insert(number, wait);
        Listed { waits: Arc::clone(self), number }
    }

    /// Calls `visit` with each wait. It must not wait or drop a hold.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&WaitEntry)) {
        self.by_number.lock().values().for_each(visit);
    }
}

/// Keeps a wait in the list.
pub(crate) struct Listed {
    waits: Arc<Waits>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        // What the wait keeps alive is dropped after the unlock.
        let _wait = self.waits.by_number.lock().remove(&self.number);
    }
}
