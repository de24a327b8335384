//! Subscriptions at the node that has the slot of the channel.
//!
//! Listeners keep a [`ShardSubscription`] for as long as they listen, and it follows the slot to other nodes.
//! It misses notifications that are published meanwhile, so each move notifies the listeners, which ask the
//! store again.
// S-15.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::route::{NotRun, Pause};
use super::topology::{Node, Topology};
use crate::error::StoreError;
use crate::store::redis::link::{Listener, Notices};
use crate::store::redis::server::errors::CallError;
use crate::store::redis::server::slot::slot_of;

/// How many subscriptions follow their slots at once.
const AT_ONCE: usize = 256;

/// All of a store's subscriptions, by channel.
#[derive(Default)]
pub(super) struct ShardSubscriptions {
    by_channel: Mutex<HashMap<String, Weak<ShardSubscription>>>,
    /// Notified when a subscription was made that nothing waits for.
    pub(super) added: Notify,
}

/// The subscription of one channel for all its listeners; ends when it is dropped.
pub(super) struct ShardSubscription {
    all: Arc<ShardSubscriptions>,
    channel: String,
    slot: u16,
    pub(super) notices: Arc<Notices>,
    place: Mutex<Option<Place>>,
    /// Held while it moves.
    moving: tokio::sync::Mutex<()>,
}

/// Where a subscription is.
struct Place {
    node: Weak<Node>,
    _listener: Listener,
}

impl ShardSubscriptions {
    /// The subscription of a channel. Call [`follow`](ShardSubscription::follow) before relying on it.
    pub(super) fn of(self: &Arc<Self>, channel: &str) -> Arc<ShardSubscription> {
        let mut by_channel = self.by_channel.lock();
        if let Some(subscription) = by_channel.get(channel).and_then(Weak::upgrade) {
            return subscription;
        }
        let subscription = Arc::new(ShardSubscription {
            all: Arc::clone(self),
            channel: channel.to_owned(),
            slot: slot_of(channel),
            notices: Arc::default(),
            place: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
        });
        by_channel.insert(channel.to_owned(), Arc::downgrade(&subscription));
        subscription
    }

    /// The subscription of a channel, if it is where its slot is.
    pub(super) fn at_its_slot(
        &self,
        channel: &str,
        topology: &Topology,
    ) -> Option<Arc<ShardSubscription>> {
        let subscription = self.by_channel.lock().get(channel).and_then(Weak::upgrade)?;
        let node = topology.owner(subscription.slot)?;
        subscription.is_subscribed_at(&node).then_some(subscription)
    }

    /// Has all subscriptions follow that are not where their slots are. Starts to connect to nodes without a connection;
    /// their links then subscribe all channels and wake the listeners.
    pub(super) async fn follow(&self, topology: &Topology, deadline: Instant) {
        let all: Vec<_> = self.by_channel.lock().values().filter_map(Weak::upgrade).collect();
        let astray = all.into_iter().filter(|subscription| {
            let Some(node) = topology.owner(subscription.slot) else { return false };
            let connected = || node.is_connected() && node.store.subscriptions.is_connected();
            if !connected() {
                subscription.wait_at(&node);
                // If it has connected meanwhile, it may have subscribed only the channels before this one.
                if !connected() {
                    return false;
                }
            }
            !subscription.is_subscribed_at(&node) && !subscription.is_given_up_at(&node)
        });
        let follow = |subscription: Arc<ShardSubscription>| async move {
            if let Err(error) = subscription.follow(topology, deadline).await {
                tracing::debug!(%error, "no subscription where the slot is; polling meanwhile");
            }
        };
        stream::iter(astray).for_each_concurrent(AT_ONCE, follow).await;
    }
}

impl ShardSubscription {
    /// Resolves once the node that has the slot has confirmed the subscription.
    pub(super) async fn follow(
        &self,
        topology: &Topology,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let Ok(_moving) = timeout_at(deadline, self.moving.lock()).await else {
            return Err(CallError::NotSent.into());
        };
        let mut pause = Pause::new();
        loop {
            let node = topology.ready(self.slot, deadline).await?;
            if self.is_subscribed_at(&node) {
                return Ok(());
            }
            self.go_to(&node);
            let link = &node.store.subscriptions;
            link.ensure_task();
            let error = match link.subscribe(&self.channel, deadline).await {
                Ok(()) => {
                    self.notices.notify_all();
                    continue;
                }
                Err(error) => error,
            };
            match &error {
                CallError::Server(reply, _) => match NotRun::of(reply, &node.address) {
                    Some(NotRun::Moved(slot, to)) => topology.moved(slot, &to)?,
                    Some(_) => {}
                    None => return Err(error.into()),
                },
                _ => return Err(error.into()),
            }
            if !pause.before(deadline).await {
                return Err(CallError::NotSent.into());
            }
        }
    }

    /// Has the node subscribe as soon as there is a connection to it.
    fn wait_at(&self, node: &Arc<Node>) {
        self.go_to(node);
        node.store.link.ensure_task();
        node.store.subscriptions.ensure_task();
    }

    fn is_subscribed_at(&self, node: &Arc<Node>) -> bool {
        self.is_at(node) && node.store.subscriptions.is_subscribed(&self.channel)
    }

    /// True if the node has refused it and no waiter is concerned: functions that listen can do without messages, and each
    /// attempt is another line in the log of the server's refusals. The next connection tries again.
    fn is_given_up_at(&self, node: &Arc<Node>) -> bool {
        self.notices.callbacks().is_some()
            && self.is_at(node)
            && node.store.subscriptions.is_refused(&self.channel)
    }

    fn is_at(&self, node: &Arc<Node>) -> bool {
        let place = self.place.lock();
        place.as_ref().is_some_and(|place| std::ptr::eq(place.node.as_ptr(), Arc::as_ptr(node)))
    }

    fn go_to(&self, node: &Arc<Node>) {
        if self.is_at(node) {
            return;
        }
        let listener = node.store.subscriptions.channels.listen_for(&self.channel, &self.notices);
        let place = Place { node: Arc::downgrade(node), _listener: listener };
        let left = self.place.lock().replace(place);
        drop(left);
    }
}

impl Drop for ShardSubscription {
    fn drop(&mut self) {
        let mut by_channel = self.all.by_channel.lock();
        // A new subscription of the channel may have been made meanwhile.
        if by_channel
            .get(&self.channel)
            .is_some_and(|subscription| subscription.strong_count() == 0)
        {
            by_channel.remove(&self.channel);
        }
    }
}
