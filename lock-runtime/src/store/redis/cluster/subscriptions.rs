//! Listening where notices are published: at the node that has the slot of the channel.
//!
//! Whoever listens keeps what it was given, an [`Ear`], wherever the slot goes: the ear follows. What was
//! published on the way is not heard, so each time whoever listens is told to ask again.
// S-15.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::route::{NotRun, Pause};
use super::slots::slot_of;
use super::topology::{Node, Topology};
use crate::error::StoreError;
use crate::store::redis::link::CallError;
use crate::store::redis::link::channels::Listener;

/// How many ears follow at once.
const AT_ONCE: usize = 256;

/// All of a store's ears.
#[derive(Default)]
pub(super) struct ShardSubscriptions {
    by_channel: Mutex<HashMap<String, Weak<Ear>>>,
}

/// Listens to one channel, for all who want to hear of it, until dropped.
pub(super) struct Ear {
    all: Arc<ShardSubscriptions>,
    channel: String,
    slot: u16,
    pub(super) notices: Arc<watch::Sender<u64>>,
    place: Mutex<Option<Place>>,
    /// Held while it is on its way.
    moving: tokio::sync::Mutex<()>,
}

/// Where an ear listens.
struct Place {
    node: Weak<Node>,
    _listener: Listener,
}

impl ShardSubscriptions {
    /// The ear of a channel. It still has to [`follow`](Ear::follow) the slot to where it is.
    pub(super) fn of(self: &Arc<Self>, channel: &str) -> Arc<Ear> {
        let mut by_channel = self.lock();
        if let Some(ear) = by_channel.get(channel).and_then(Weak::upgrade) {
            return ear;
        }
        let ear = Arc::new(Ear {
            all: Arc::clone(self),
            channel: channel.to_owned(),
            slot: slot_of(channel),
            notices: Arc::default(),
            place: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
        });
        by_channel.insert(channel.to_owned(), Arc::downgrade(&ear));
        ear
    }

    /// Has all follow that are not where their slots are. A node that there is no connection to yet is
    /// connected to; it then subscribes by itself whatever listens there, and wakes whoever listens.
    pub(super) async fn follow(&self, topology: &Topology, deadline: Instant) {
        let all: Vec<_> = self.lock().values().filter_map(Weak::upgrade).collect();
        let astray = all.into_iter().filter(|ear| {
            let Some(node) = topology.owner(ear.slot) else { return false };
            let connected = || node.is_connected() && node.store.subscriptions.is_connected();
            if !connected() {
                ear.wait_at(&node);
                // Connected meanwhile, it may have subscribed what it knew of before this one came.
                if !connected() {
                    return false;
                }
            }
            !ear.hears_at(&node)
        });
        let follow = |ear: Arc<Ear>| async move {
            if let Err(error) = ear.follow(topology, deadline).await {
                tracing::debug!(%error, "no subscription where the slot is; polling meanwhile");
            }
        };
        stream::iter(astray).for_each_concurrent(AT_ONCE, follow).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Ear>>> {
        self.by_channel.lock()
    }
}

impl Ear {
    /// Resolves once it hears what is published at the node that has the slot.
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
            if self.hears_at(&node) {
                return Ok(());
            }
            self.go_to(&node);
            let subscriptions = &node.store.subscriptions;
            subscriptions.ensure_task();
            let error = match subscriptions.subscribe(&self.channel, deadline).await {
                Ok(()) => {
                    self.notices.send_modify(|notices| *notices += 1);
                    continue;
                }
                Err(error) => error,
            };
            match &error {
                CallError::Server(reply) => match NotRun::of(reply, &node.address) {
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

    fn hears_at(&self, node: &Arc<Node>) -> bool {
        self.is_at(node) && node.store.subscriptions.is_subscribed(&self.channel)
    }

    fn is_at(&self, node: &Arc<Node>) -> bool {
        let place = self.place();
        place.as_ref().is_some_and(|place| std::ptr::eq(place.node.as_ptr(), Arc::as_ptr(node)))
    }

    fn go_to(&self, node: &Arc<Node>) {
        if self.is_at(node) {
            return;
        }
        let listener = node.store.subscriptions.channels.listen_for(&self.channel, &self.notices);
        let place = Place { node: Arc::downgrade(node), _listener: listener };
        let left = self.place().replace(place);
        drop(left);
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut by_channel = self.all.lock();
        // Perhaps another has come meanwhile.
        if by_channel.get(&self.channel).is_some_and(|ear| ear.strong_count() == 0) {
            by_channel.remove(&self.channel);
        }
    }
}
