//! The channels that this process subscribes, and their listeners.
//!
//! A channel has one subscription for all its listeners. It outlasts its last listener for a moment, because
//! the next one usually comes soon and a subscription costs a round trip. A notification increments a counter,
//! which listeners compare, so none is lost between two checks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::notices::{Counted, Notices};
use crate::store::{Listening, OnMessage};

/// How long a subscription outlasts its last listener.
const LINGER: Duration = Duration::from_secs(2);

/// The channels of one store.
#[derive(Default)]
pub(crate) struct Channels {
    by_name: Mutex<HashMap<String, Channel>>,
}

#[derive(Default)]
struct Channel {
    notices: Arc<Notices>,
    listeners: usize,
    idle_since: Option<Instant>,
    /// The number of the connection on which the server confirmed the subscription; zero for none.
    confirmed_on: u64,
    /// The number of the connection on which the server refused the subscription; zero for none.
    refused_on: u64,
    /// The number of the connection on which a subscription was asked for that nothing waits for; zero for none.
    asked_on: u64,
}

impl Channels {
    /// Starts to listen, to the messages for that waiter if the channel is shared by several. The caller must subscribe
    /// the channel, unless an earlier subscription is still confirmed.
    pub(crate) fn listen(
        self: &Arc<Self>,
        name: &str,
        waiter: Option<u64>,
    ) -> (watch::Receiver<u64>, Listener) {
        let mut channels = self.by_name.lock();
        channels.entry(name.to_owned()).or_default().listen(self, name, waiter)
    }

    /// As [`listen`](Self::listen), if the server has confirmed the subscription on this connection.
    pub(crate) fn listen_if_confirmed(
        self: &Arc<Self>,
        name: &str,
        waiter: Option<u64>,
        connection: u64,
    ) -> Option<(watch::Receiver<u64>, Listener)> {
        let mut channels = self.by_name.lock();
        let channel = channels.get_mut(name).filter(|it| it.confirmed_on == connection)?;
        Some(channel.listen(self, name, waiter))
    }

    /// As [`listen`](Self::listen), with a counter that listeners keep when the channel moves to another node.
    pub(crate) fn listen_for(self: &Arc<Self>, name: &str, notices: &Arc<Notices>) -> Listener {
        let mut channels = self.by_name.lock();
        let channel = channels.entry(name.to_owned()).or_default();
        channel.notices = Arc::clone(notices);
        channel.listener(self, name, None)
    }

    /// Calls a function with each message of the channel.
    pub(crate) fn call(self: &Arc<Self>, name: &str, on_message: OnMessage) -> Listening {
        let mut channels = self.by_name.lock();
        let channel = channels.entry(name.to_owned()).or_default();
        let callback = channel.notices.call(on_message);
        Listening::new((callback, channel.listener(self, name, None)))
    }

    /// True if a function receives the messages of the channel.
    pub(crate) fn has_callbacks(&self, name: &str) -> bool {
        self.by_name.lock().get(name).is_some_and(Channel::has_callbacks)
    }

    /// The channels that only functions listen to, and which have not been taken for this connection before.
    pub(crate) fn take_unasked(&self, connection: u64) -> Vec<String> {
        let mut channels = self.by_name.lock();
        let open = channels.iter_mut().filter(|(_, channel)| {
            !channel.is_waited_for() && channel.has_callbacks() && channel.asked_on < connection
        });
        let taken = open.map(|(name, channel)| {
            channel.asked_on = connection;
            name.clone()
        });
        taken.collect()
    }

    /// Records that the server refused the subscription on this connection. True if that is new, and no waiter gets the
    /// error.
    pub(crate) fn refuse(&self, name: &str, connection: u64) -> bool {
        let mut channels = self.by_name.lock();
        let Some(channel) = channels.get_mut(name) else { return false };
        let earlier = std::mem::replace(&mut channel.refused_on, connection);
        earlier == 0 && channel.has_callbacks()
    }

    /// True if the server refused the subscription on this connection.
    pub(crate) fn is_refused(&self, name: &str, connection: u64) -> bool {
        self.by_name.lock().get(name).is_some_and(|channel| channel.refused_on == connection)
    }

    /// True if the server confirmed the subscription on this connection.
    pub(crate) fn is_confirmed(&self, name: &str, connection: u64) -> bool {
        self.by_name.lock().get(name).is_some_and(|channel| channel.confirmed_on == connection)
    }

    /// True if the channel has listeners in this process.
    pub(crate) fn has_listeners(&self, name: &str) -> bool {
        self.by_name.lock().get(name).is_some_and(|channel| channel.listeners > 0)
    }

    /// Returns the counter of the channel's notifications, without listening to it.
    pub(crate) fn count(&self, name: &str) -> Option<watch::Receiver<u64>> {
        self.notices(name).map(|notices| notices.subscribe())
    }

    /// The counters of a channel. They are counted up after the unlock, since a listener's waker, or a function, may end
    /// another subscription.
    fn notices(&self, name: &str) -> Option<Arc<Notices>> {
        self.by_name.lock().get(name).map(|channel| Arc::clone(&channel.notices))
    }

    /// Records that the server confirmed the subscription on this connection, unless it did on a later one.
    pub(crate) fn confirm(&self, name: &str, connection: u64) {
        if let Some(channel) = self.by_name.lock().get_mut(name) {
            channel.confirmed_on = channel.confirmed_on.max(connection);
            channel.refused_on = 0;
        }
    }

    /// Records that the server ended the subscription on this connection, and notifies the listeners, which
    /// miss all notifications until the channel is subscribed again. False if this process ended it.
    pub(crate) fn lose(&self, name: &str, connection: u64) -> bool {
        let lost = match self.by_name.lock().get_mut(name) {
            Some(channel) if channel.confirmed_on == connection => {
                channel.confirmed_on = 0;
                Arc::clone(&channel.notices)
            }
            _ => return false,
        };
        lost.notify_all();
        true
    }

    /// Passes a message to the listeners of its channel that it is for.
    pub(crate) fn deliver(&self, name: &str, message: &[u8]) {
        let Some(notices) = self.notices(name) else { return };
        notices.count(message);
        if let Some(callbacks) = notices.callbacks() {
            callbacks.call(message);
        }
    }

    /// Notifies the listeners of one channel, which may have missed messages.
    pub(crate) fn notify(&self, name: &str) {
        self.notices(name).iter().for_each(|notices| notices.notify_all());
    }

    /// Notifies all listeners, which missed all notifications while there was no connection.
    // S-15.
    pub(crate) fn notify_all(&self) {
        let notices = |channel: &Channel| Arc::clone(&channel.notices);
        let all: Vec<_> = self.by_name.lock().values().map(notices).collect();
        all.iter().for_each(|notices| notices.notify_all());
    }

    /// The channels to subscribe on a new connection before any waiter relies on it; `all`, or those that are not left to
    /// [`take_unasked`](Self::take_unasked).
    pub(crate) fn to_replay(&self, all: bool) -> Vec<String> {
        let channels = self.by_name.lock();
        let replayed = channels.iter().filter(|(_, channel)| all || channel.is_waited_for());
        replayed.map(|(name, _)| name.clone()).collect()
    }

    /// True if there is a channel that waiters listen to, or did a moment ago.
    pub(crate) fn any_waited_for(&self) -> bool {
        self.by_name.lock().values().any(Channel::is_waited_for)
    }

    /// The channels that have had no listener for a while. They count as unconfirmed from now on, so that a new
    /// listener subscribes again. Call [`settle`](Self::settle) for each when it is unsubscribed.
    pub(crate) fn take_stale(&self) -> Vec<String> {
        let now = Instant::now();
        let mut stale = Vec::new();
        for (name, channel) in &mut *self.by_name.lock() {
            if channel.idle_since.is_some_and(|since| now >= since + LINGER) {
                channel.confirmed_on = 0;
                stale.push(name.clone());
            }
        }
        stale
    }

    /// Forgets an unsubscribed channel. False if it has a listener again: subscribe it once more, since the two
    /// commands may have crossed.
    pub(crate) fn settle(&self, name: &str) -> bool {
        // Dropped after the unlock, since that wakes who reads the counters.
        let _forgotten;
        let mut channels = self.by_name.lock();
        match channels.get_mut(name) {
            Some(channel) if channel.listeners > 0 => {
                // The UNSUBSCRIBE may have ended a subscription that was confirmed meanwhile.
                channel.confirmed_on = 0;
                false
            }
            _ => {
                _forgotten = channels.remove(name);
                true
            }
        }
    }
}

impl Channel {
    fn has_callbacks(&self) -> bool {
        self.callbacks() > 0
    }

    fn callbacks(&self) -> usize {
        self.notices.callbacks().map_or(0, |callbacks| callbacks.len())
    }

    /// True unless functions are all that listens.
    fn is_waited_for(&self) -> bool {
        !self.has_callbacks() || self.listeners > self.callbacks()
    }

    fn listen(
        &mut self,
        channels: &Arc<Channels>,
        name: &str,
        waiter: Option<u64>,
    ) -> (watch::Receiver<u64>, Listener) {
        let (counter, counted) = self.notices.listen(waiter);
        (counter, self.listener(channels, name, counted))
    }

    fn listener(
        &mut self,
        channels: &Arc<Channels>,
        name: &str,
        counted: Option<Counted>,
    ) -> Listener {
        self.listeners += 1;
        self.idle_since = None;
        Listener { channels: Arc::clone(channels), name: name.to_owned(), _counted: counted }
    }
}

/// Listens until dropped.
pub(crate) struct Listener {
    channels: Arc<Channels>,
    name: String,
    _counted: Option<Counted>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(channel) = self.channels.by_name.lock().get_mut(&self.name) {
            channel.listeners -= 1;
            if channel.listeners == 0 {
                channel.idle_since = Some(Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subscription that crosses with the end of an earlier one on its way is not trusted.
    // S-15.
    #[tokio::test(start_paused = true)]
    async fn a_crossing_subscription_counts_as_unconfirmed() {
        let channels = Arc::new(Channels::default());
        let (_, listener) = channels.listen("c", None);
        channels.confirm("c", 1);
        drop(listener);
        assert!(channels.take_stale().is_empty(), "ended at once");
        tokio::time::sleep(LINGER).await;
        assert_eq!(channels.take_stale(), ["c"]);
        // The unsubscribe is under way; a new listener subscribes, and is confirmed before it.
        let (mut notices, _listener) = channels.listen("c", None);
        assert!(!channels.is_confirmed("c", 1), "nothing would have been sent");
        channels.confirm("c", 1);
        assert!(!channels.settle("c"), "forgotten while a waiter listens");
        assert!(!channels.is_confirmed("c", 1), "nothing would be sent again");
        channels.notify("c");
        assert!(notices.has_changed().unwrap());
        notices.mark_unchanged();
    }

    /// A confirmation that comes late, on a connection that has been replaced, undoes none of the next.
    #[tokio::test]
    async fn a_late_confirmation_of_an_earlier_connection_changes_nothing() {
        let channels = Arc::new(Channels::default());
        let (_, _listener) = channels.listen("c", None);
        channels.confirm("c", 2);
        channels.confirm("c", 1);
        assert!(channels.is_confirmed("c", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn unused_channels_are_forgotten() {
        let channels = Arc::new(Channels::default());
        for number in 0..100 {
            drop(channels.listen(&number.to_string(), None));
        }
        tokio::time::sleep(LINGER).await;
        for name in channels.take_stale() {
            assert!(channels.settle(&name));
        }
        assert!(!channels.any_waited_for());
    }
}
