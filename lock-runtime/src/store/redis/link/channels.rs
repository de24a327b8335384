//! Which channels this process listens to, and who is to be told.
//!
//! One subscription per channel, however many listen. It outlives its last listener by a little,
//! because the next one usually comes soon and a subscription costs a round trip. A notice counts a
//! number up; listeners compare it, so none is lost between two looks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a subscription outlives its last listener.
const LINGER: Duration = Duration::from_secs(2);

/// The channels of one store.
#[derive(Default)]
pub(crate) struct Channels {
    by_name: Mutex<HashMap<String, Channel>>,
}

#[derive(Default)]
struct Channel {
    notices: Arc<watch::Sender<u64>>,
    listeners: usize,
    idle_since: Option<Instant>,
    /// The connection on which the server confirmed the subscription; zero for none.
    confirmed_on: u64,
}

impl Channels {
    /// Starts to listen. The subscription still has to be confirmed, unless it lingers from before.
    pub(crate) fn listen(self: &Arc<Self>, name: &str) -> (watch::Receiver<u64>, Listener) {
        let mut channels = self.lock();
        let channel = channels.entry(name.to_owned()).or_default();
        (channel.notices.subscribe(), channel.listener(self, name))
    }

    /// As [`listen`](Self::listen), to have notices counted where others can go on counting them.
    pub(crate) fn listen_for(
        self: &Arc<Self>,
        name: &str,
        notices: &Arc<watch::Sender<u64>>,
    ) -> Listener {
        let mut channels = self.lock();
        let channel = channels.entry(name.to_owned()).or_default();
        channel.notices = Arc::clone(notices);
        channel.listener(self, name)
    }

    /// True if the server confirmed the subscription on this connection.
    pub(crate) fn is_confirmed(&self, name: &str, connection: u64) -> bool {
        self.lock().get(name).is_some_and(|channel| channel.confirmed_on == connection)
    }

    /// True if anybody of this process listens right now.
    pub(crate) fn has_listeners(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|channel| channel.listeners > 0)
    }

    /// Counts the channel's notices from now on, without listening to it.
    pub(crate) fn count(&self, name: &str) -> Option<watch::Receiver<u64>> {
        self.lock().get(name).map(|channel| channel.notices.subscribe())
    }

    /// Notes that the server confirmed the subscription on this connection, unless it did on a later one.
    pub(crate) fn confirm(&self, name: &str, connection: u64) {
        if let Some(channel) = self.lock().get_mut(name) {
            channel.confirmed_on = channel.confirmed_on.max(connection);
        }
    }

    /// Notes that the server ended the subscription on this connection, and tells its listeners:
    /// what happens until somebody subscribes again is not heard. False if it was ended by us.
    pub(crate) fn lose(&self, name: &str, connection: u64) -> bool {
        match self.lock().get_mut(name) {
            Some(channel) if channel.confirmed_on == connection => {
                channel.confirmed_on = 0;
                channel.notices.send_modify(|notices| *notices += 1);
                true
            }
            _ => false,
        }
    }

    /// Tells one channel's listeners.
    pub(crate) fn notice(&self, name: &str) {
        if let Some(channel) = self.lock().get(name) {
            channel.notices.send_modify(|notices| *notices += 1);
        }
    }

    /// Tells everybody: what happened while there was no connection is unknown.
    // S-15.
    pub(crate) fn notice_all(&self) {
        for channel in self.lock().values() {
            channel.notices.send_modify(|notices| *notices += 1);
        }
    }

    /// The channels to subscribe on a new connection.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// True if there is anything to listen to.
    pub(crate) fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Channels that nobody has listened to for a while. They count as unconfirmed from now on, so
    /// that a listener who comes meanwhile subscribes again; end with [`settle`](Self::settle).
    pub(crate) fn take_stale(&self) -> Vec<String> {
        let now = Instant::now();
        let mut stale = Vec::new();
        for (name, channel) in &mut *self.lock() {
            if channel.idle_since.is_some_and(|since| now >= since + LINGER) {
                channel.confirmed_on = 0;
                stale.push(name.clone());
            }
        }
        stale
    }

    /// Forgets an unsubscribed channel. False if somebody listens again: subscribe once more, since
    /// the two commands may have crossed.
    pub(crate) fn settle(&self, name: &str) -> bool {
        let mut channels = self.lock();
        match channels.get_mut(name) {
            Some(channel) if channel.listeners > 0 => {
                // Whatever was confirmed meanwhile may have been undone by the unsubscribe.
                channel.confirmed_on = 0;
                false
            }
            _ => {
                channels.remove(name);
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.by_name.lock()
    }
}

impl Channel {
    fn listener(&mut self, channels: &Arc<Channels>, name: &str) -> Listener {
        self.listeners += 1;
        self.idle_since = None;
        Listener { channels: Arc::clone(channels), name: name.to_owned() }
    }
}

/// Listens until dropped.
pub(crate) struct Listener {
    channels: Arc<Channels>,
    name: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(channel) = self.channels.lock().get_mut(&self.name) {
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
        let (_, listener) = channels.listen("c");
        channels.confirm("c", 1);
        drop(listener);
        assert!(channels.take_stale().is_empty(), "ended at once");
        tokio::time::sleep(LINGER).await;
        assert_eq!(channels.take_stale(), ["c"]);
        // The unsubscribe is under way; somebody comes, subscribes, and is confirmed before it.
        let (mut notices, _listener) = channels.listen("c");
        assert!(!channels.is_confirmed("c", 1), "nothing would have been sent");
        channels.confirm("c", 1);
        assert!(!channels.settle("c"), "forgotten while somebody listens");
        assert!(!channels.is_confirmed("c", 1), "nothing would be sent again");
        channels.notice("c");
        assert!(notices.has_changed().unwrap());
        notices.mark_unchanged();
    }

    /// A confirmation that comes late, on a connection that has been replaced, undoes none of the next.
    #[tokio::test]
    async fn a_late_confirmation_of_an_earlier_connection_changes_nothing() {
        let channels = Arc::new(Channels::default());
        let (_, _listener) = channels.listen("c");
        channels.confirm("c", 2);
        channels.confirm("c", 1);
        assert!(channels.is_confirmed("c", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn unused_channels_are_forgotten() {
        let channels = Arc::new(Channels::default());
        for number in 0..100 {
            drop(channels.listen(&number.to_string()));
        }
        tokio::time::sleep(LINGER).await;
        for name in channels.take_stale() {
            assert!(channels.settle(&name));
        }
        assert!(!channels.any());
    }
}
