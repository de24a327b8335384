//! The counters of one channel's notifications.
//!
//! Most channels have one counter for all listeners. The waiters of a fair lock share a channel and have a counter each:
//! a message there has the number of the waiter that it is for.
// S-26.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::{Callback, Callbacks, OnMessage};

/// Counts the notifications of one channel.
#[derive(Default)]
pub(crate) struct Notices {
    all: watch::Sender<u64>,
    /// By the number of the waiter.
    waiters: Mutex<HashMap<u64, watch::Sender<u64>>>,
    /// The functions that receive the messages. Channels of locks have none.
    callbacks: OnceLock<Arc<Callbacks>>,
}

impl Notices {
    /// Returns the counter of that waiter, or of all messages; it is kept until the [`Counted`] is dropped.
    pub(crate) fn listen(
        self: &Arc<Self>,
        waiter: Option<u64>,
    ) -> (watch::Receiver<u64>, Option<Counted>) {
        let Some(waiter) = waiter else { return (self.subscribe(), None) };
        let counter = self.waiters.lock().entry(waiter).or_default().subscribe();
        (counter, Some(Counted { notices: Arc::clone(self), waiter }))
    }

    /// Returns the counter of all messages.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// Calls a function with each message, until the result is dropped.
    pub(crate) fn call(&self, on_message: OnMessage) -> Callback {
        self.callbacks.get_or_init(Arc::default).add(on_message)
    }

    /// The functions that receive the messages, if there have been any.
    pub(crate) fn callbacks(&self) -> Option<&Arc<Callbacks>> {
        self.callbacks.get()
    }

    /// Counts a message: for the waiter that it names, if there is one, else for all listeners.
    pub(crate) fn count(&self, message: &[u8]) {
        let named = || std::str::from_utf8(message).ok()?.parse::<u64>().ok();
        let counter = match &*self.waiters.lock() {
            waiters if waiters.is_empty() => Some(self.all.clone()),
            waiters => named().and_then(|waiter| waiters.get(&waiter).cloned()),
        };
        // After the unlock: a listener's waker may end another subscription.
        counter.iter().for_each(add_one);
    }

    /// Notifies every listener, since messages may have been missed.
    pub(crate) fn notify_all(&self) {
        let waiters: Vec<_> = self.waiters.lock().values().cloned().collect();
        [self.all.clone()].iter().chain(&waiters).for_each(add_one);
    }
}

fn add_one(counter: &watch::Sender<u64>) {
    counter.send_modify(|notices| *notices += 1);
}

/// Keeps a waiter's counter.
pub(crate) struct Counted {
    notices: Arc<Notices>,
    waiter: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _counter = self.notices.waiters.lock().remove(&self.waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_notified(counter: &mut watch::Receiver<u64>) -> bool {
        let is_notified = counter.has_changed().unwrap();
        counter.mark_unchanged();
        is_notified
    }

    #[test]
    fn a_message_is_for_the_waiter_that_it_names() {
        let notices = Arc::new(Notices::default());
        let (mut seven, _kept) = notices.listen(Some(7));
        let (mut eight, _kept) = notices.listen(Some(8));
        notices.count(b"7");
        assert!(is_notified(&mut seven) && !is_notified(&mut eight));
        notices.count(b"9");
        notices.count(b"seven");
        assert!(!is_notified(&mut seven) && !is_notified(&mut eight));
        notices.notify_all();
        assert!(is_notified(&mut seven) && is_notified(&mut eight));
    }

    #[test]
    fn without_waiters_every_message_is_for_all() {
        let notices = Arc::new(Notices::default());
        let mut all = notices.subscribe();
        for message in ["0", "1", "7", "end", ""] {
            notices.count(message.as_bytes());
            assert!(is_notified(&mut all), "{message}");
        }
    }

    #[test]
    fn a_waiter_that_left_is_forgotten() {
        let notices = Arc::new(Notices::default());
        drop(notices.listen(Some(7)));
        assert!(notices.waiters.lock().is_empty());
    }
}
