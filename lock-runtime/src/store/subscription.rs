//! Subscriptions to releases.

use futures_util::future::select_all;
use tokio::sync::watch;

use crate::opaque::opaque_debug;

/// A subscription to the releases of one lock, until dropped. A notification is a hint, never a grant.
// S-15.
pub struct Subscription {
    sources: Vec<Source>,
}

struct Source {
    notices: watch::Receiver<u64>,
    /// The number of notifications before the subscription was made.
    before: u64,
    /// Dropped with the subscription: keeps it alive in the store.
    _registration: Box<dyn Send + Sync>,
}

impl Subscription {
    /// Wraps a store's counter of notifications, with a value whose drop ends the subscription.
    pub fn new(notices: watch::Receiver<u64>, registration: impl Send + Sync + 'static) -> Self {
        let before = *notices.borrow();
        Self { sources: vec![Source { notices, before, _registration: Box::new(registration) }] }
    }

    /// Combines several subscriptions: it is notified when one of them is.
    pub fn any_of(subscriptions: impl IntoIterator<Item = Self>) -> Self {
        Self { sources: subscriptions.into_iter().flat_map(|one| one.sources).collect() }
    }

    /// Discards earlier notifications. Call it before the attempt that acts on them.
    pub fn forget_past(&mut self) {
        self.sources.iter_mut().for_each(|source| source.notices.mark_unchanged());
    }

    /// Returns how many releases were notified since it was made. A release that several sources report counts
    /// once.
    pub fn heard(&self) -> u64 {
        let heard = |one: &Source| one.notices.borrow().wrapping_sub(one.before);
        self.sources.iter().map(heard).max().unwrap_or(0)
    }

    /// Waits for a notification since the last [`forget_past`](Self::forget_past).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no notification.
    pub async fn notified(&mut self) {
        match &mut self.sources[..] {
            [] => std::future::pending().await,
            [one] => one.noticed().await,
            several => {
                drop(select_all(several.iter_mut().map(|one| Box::pin(one.noticed()))).await)
            }
        }
    }
}

impl Source {
    async fn noticed(&mut self) {
        if self.notices.changed().await.is_err() {
            // The store is closed, and no notification will come.
            std::future::pending().await
        }
    }
}

opaque_debug!(Subscription);
