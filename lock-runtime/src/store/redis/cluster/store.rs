//! Sends each request to the node that has its slot.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::runtime::Handle;
use tokio::time::Instant;
use uuid::Uuid;

use super::ClusterStore;
use super::route::{Moving, is_divided};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::{FencingToken, RedisValue};
use crate::key::LockKey;
use crate::store::redis::requests::command;
use crate::store::redis::server::slot::slot_of;
use crate::store::redis::store::RedisStore;
use crate::store::{
    AcquireReply, AcquireRequest, CommandRequest, HoldKind, Inspection, LatchRequest, Listening,
    MissingRight, NamesCursor, NamesPage, OnMessage, OnRenewed, Ownership, ProcessNames,
    ReleaseReply, ReleaseRequest, RenewRequest, ServerFacts, ServerReport, Store, StoreFuture,
    Subscription, Target, not_listened, renewed_in_parts, tell_part,
};

/// The one slot of a lock.
fn slot(target: &Target) -> Result<u16, StoreError> {
    let mut slots = target.locks().map(|lock| slot_of(lock.key().as_str()));
    let first = slots.next().unwrap_or(0);
    if slots.all(|slot| slot == first) {
        return Ok(first);
    }
    let message = format!(
        "the names {:?} are in different slots of the cluster and cannot be taken at once; give them a \
         common hash tag, as in {{order:7}}:a and {{order:7}}:b",
        target.key()
    );
    Err(StoreError::new(StoreErrorKind::Config, message))
}

/// The slot of a lock, and what to do while it moves. Scripts of a read/write lock read the timeouts of all its
/// readers, which the request cannot name.
fn way(target: &Target) -> Result<(u16, Moving), StoreError> {
    let reads_others = |lock: &Target| matches!(lock.kind(), HoldKind::Read | HoldKind::Write);
    let moving = if target.locks().any(reads_others) { Moving::Wait } else { Moving::Follow };
    Ok((slot(target)?, moving))
}

/// A latch with its channel in the slot of its name. Redisson's channel for a name with a hash tag is in another slot;
/// Redisson's own latches of such names do not work in a cluster, so there is nothing to be compatible with.
fn in_one_slot(target: &Arc<Target>) -> Arc<Target> {
    let is_elsewhere = target.kind() == HoldKind::Latch && target.key().as_str().contains('{');
    if is_elsewhere { Arc::new(target.with_own_channel()) } else { Arc::clone(target) }
}

/// The requests of one call, with their places among all.
type Group<T> = (Vec<usize>, Vec<T>);

/// Groups requests by slot and by whether replicas have to acknowledge, which use different connections.
fn by_slot<T>(
    requests: Vec<T>,
    target: impl Fn(&T) -> &Target,
) -> Result<Vec<(u16, Group<T>)>, StoreError> {
    let mut groups = BTreeMap::<(u16, bool), Group<T>>::new();
    for (place, request) in requests.into_iter().enumerate() {
        let lock = target(&request);
        let group = groups.entry((slot(lock)?, lock.replicas().is_some())).or_default();
        group.0.push(place);
        group.1.push(request);
    }
    Ok(groups.into_iter().map(|((slot, _), group)| (slot, group)).collect())
}

impl ClusterStore {
    /// Makes a call at the node that has the slot.
    pub(super) async fn at<T>(
        &self,
        (slot, moving): (u16, Moving),
        timeout: Duration,
        call: impl for<'n> Fn(&'n RedisStore, Duration) -> StoreFuture<'n, T> + Send + Sync,
    ) -> Result<T, StoreError> {
        self.ensure_task();
        self.shared.topology.route(slot, timeout, moving, call).await
    }

    /// Renews the holds of each slot with a call of its own, all at once, so that a node that does not answer delays no
    /// other's answer.
    async fn renew_by_slot(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: &OnRenewed,
    ) -> Result<(), StoreError> {
        let groups = by_slot(requests, |request| &request.target)?;
        let calls = groups.iter().map(|(slot, (places, group))| async move {
            let answers = self.renew_slot(*slot, group, timeout).await;
            tell_part(places.iter().copied(), answers, on_renewed)
        });
        renewed_in_parts(join_all(calls).await)
    }

    /// Renews the holds of one slot; one by one while some have moved to another node.
    async fn renew_slot(
        &self,
        slot: u16,
        holds: &[RenewRequest],
        timeout: Duration,
    ) -> Result<Vec<Ownership>, StoreError> {
        self.ensure_task();
        let deadline = Instant::now() + timeout;
        let together =
            self.shared.topology.settle(slot, timeout, Moving::FollowOrFail, |store, left| {
                store.renew(holds.to_vec(), left)
            });
        match together.await {
            Err(error) if is_divided(&error) => {}
            answer => return answer,
        }
        let one = async |hold: &RenewRequest| {
            let left = deadline.saturating_duration_since(Instant::now());
            let renew = self.shared.topology.settle(slot, left, Moving::Follow, |store, left| {
                store.renew(vec![hold.clone()], left)
            });
            renew.await.map(|answer| answer.first().copied().unwrap_or(Ownership::Unknown))
        };
        let mut failed = None;
        let mut known = |answer: Result<Ownership, StoreError>| {
            answer.map_err(|error| failed = Some(error)).unwrap_or(Ownership::Unknown)
        };
        let answers = join_all(holds.iter().map(one)).await;
        let answers: Vec<_> = answers.into_iter().map(&mut known).collect();
        match failed {
            Some(error) if answers.iter().all(|answer| *answer == Ownership::Unknown) => Err(error),
            _ => Ok(answers),
        }
    }

    /// Subscribes to the releases of a lock.
    async fn subscribe_to(
        &self,
        target: &Target,
        timeout: Duration,
    ) -> Result<Subscription, StoreError> {
        self.ensure_task();
        slot(target)?;
        let deadline = Instant::now() + timeout;
        let mut all = Vec::new();
        for lock in target.locks() {
            for (channel, waiter) in lock.channels() {
                let subscription = self.shared.subscriptions.of(channel);
                subscription.follow(&self.shared.topology, deadline).await?;
                // Only now: following notifies all listeners, and that is no release.
                let (notices, counted) = subscription.notices.listen(waiter);
                all.push(Subscription::new(notices, (subscription, counted)));
            }
        }
        Ok(Subscription::any_of(all))
    }
}

impl Store for ClusterStore {
    /// Asks all masters: locks in a slot without a master cannot be acquired.
    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            self.ensure_task();
            let map = self.shared.topology.map();
            let asked = join_all(map.nodes.iter().map(|node| node.store.ping(timeout))).await;
            asked.into_iter().collect()
        })
    }

    fn claim_id(&self) -> Option<Uuid> {
        (!self.is_claimed.swap(true, Ordering::Relaxed)).then_some(self.shared.topology.name.id)
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        StoreFuture::new(async move {
            self.ensure_task();
            let (slot, moving) = way(&request.target)?;
            // Repeating it for the same owner is safe (S-22).
            let answer =
                self.shared.topology.settle(slot, request.timeout, moving, |store, left| {
                    store.acquire(AcquireRequest { timeout: left, ..request.clone() })
                });
            answer.await
        })
    }

    fn renew_each(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move { self.renew_by_slot(requests, timeout, &on_renewed).await })
    }

    fn meets_redisson(&self) -> bool {
        true
    }

    fn standing_subscription(&self, target: &Arc<Target>) -> Option<Subscription> {
        let channels = target.locks().flat_map(Target::channels);
        let listen = |(channel, waiter)| {
            let super::Shared { subscriptions, topology } = &*self.shared;
            let subscription = subscriptions.at_its_slot(channel, topology)?;
            let (notices, counted) = subscription.notices.listen(waiter);
            Some(Subscription::new(notices, (subscription, counted)))
        };
        let all: Option<Vec<_>> = channels.map(listen).collect();
        all.map(Subscription::any_of)
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        StoreFuture::new(async move {
            self.ensure_task();
            let (slot, moving) = way(&request.target)?;
            // Repeated, it no longer finds what it has freed before.
            let released = Arc::new(OnceLock::new());
            let answer =
                self.shared.topology.settle(slot, request.timeout, moving, |store, timeout| {
                    let released = Arc::clone(&released);
                    let release = store.release(ReleaseRequest { timeout, ..request.clone() });
                    StoreFuture::new(async move {
                        Ok(match release.await? {
                            ReleaseReply::NotOwner => {
                                released.get().copied().unwrap_or(ReleaseReply::NotOwner)
                            }
                            reply => *released.get_or_init(|| reply),
                        })
                    })
                });
            answer.await
        })
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = in_one_slot(target);
        StoreFuture::new(async move { self.subscribe_to(&target, timeout).await })
    }

    fn listen(&self, channel: &str, on_message: OnMessage) -> Listening {
        let subscription = self.shared.subscriptions.of(channel);
        let callback = subscription.notices.call(on_message);
        if Handle::try_current().is_ok() {
            self.ensure_task();
        }
        self.shared.subscriptions.added.notify_one();
        Listening::new((callback, subscription))
    }

    fn listened(&self, channel: &str, timeout: Duration) -> StoreFuture<'_, ()> {
        let subscription = self.shared.subscriptions.of(channel);
        StoreFuture::new(async move {
            self.ensure_task();
            if subscription.notices.callbacks().is_none_or(|callbacks| callbacks.is_empty()) {
                return Err(not_listened());
            }
            subscription.follow(&self.shared.topology, Instant::now() + timeout).await
        })
    }

    fn publish(&self, channel: &str, message: &[u8], timeout: Duration) -> StoreFuture<'_, u32> {
        let (channel, message) = (channel.to_owned(), message.to_vec());
        StoreFuture::new(async move {
            let at = (slot_of(&channel), Moving::Follow);
            self.at(at, timeout, |store, left| store.publish(&channel, &message, left)).await
        })
    }

    fn latch(
        &self,
        target: &Arc<Target>,
        request: LatchRequest,
        timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        let target = in_one_slot(target);
        StoreFuture::new(async move {
            self.at(way(&target)?, timeout, |store, left| {
                // Its time begins once there is a connection, as on one server.
                let limit = if request.is_repeatable() { left } else { timeout };
                store.latch(&target, request, limit)
            })
            .await
        })
    }

    fn command(&self, request: CommandRequest) -> StoreFuture<'_, Option<RedisValue>> {
        StoreFuture::new(async move {
            let at = (command::slot(&request)?, Moving::Follow);
            // Its time begins once there is a connection, as on one server.
            self.at(at, request.timeout, |store, _| store.command(request.clone())).await
        })
    }

    fn inspect(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, Inspection> {
        let (key, slot) = (key.clone(), slot_of(key.as_str()));
        StoreFuture::new(async move {
            self.at((slot, Moving::Wait), timeout, |store, left| store.inspect(&key, left)).await
        })
    }

    fn force_release(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, bool> {
        self.force_release_from(key, &[], timeout)
    }

    fn force_release_from(
        &self,
        key: &LockKey,
        clients: &[String],
        timeout: Duration,
    ) -> StoreFuture<'_, bool> {
        let (key, slot, clients) = (key.clone(), slot_of(key.as_str()), clients.to_vec());
        StoreFuture::new(async move {
            self.at((slot, Moving::Wait), timeout, |store, left| {
                store.force_release_from(&key, &clients, left)
            })
            .await
        })
    }

    fn names(
        &self,
        prefix: &str,
        from: NamesCursor,
        timeout: Duration,
    ) -> StoreFuture<'_, NamesPage> {
        let prefix = prefix.to_owned();
        StoreFuture::new(async move { self.page(&prefix, &from, Instant::now() + timeout).await })
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
            self.at(way(&target)?, timeout, |store, left| store.raise_token(&target, token, left))
                .await
        })
    }

    /// The age of the youngest master, which has lost the most locks.
    fn age(&self, timeout: Duration) -> StoreFuture<'_, Option<Duration>> {
        StoreFuture::new(async move {
            self.ensure_task();
            let map = self.shared.topology.map();
            let ages = map.nodes.iter().map(|node| node.store.age(timeout));
            Ok(try_join_all(ages).await?.into_iter().flatten().min())
        })
    }

    fn servers(&self, timeout: Duration) -> StoreFuture<'_, Vec<ServerReport<ServerFacts>>> {
        StoreFuture::new(async move {
            self.ensure_task();
            let map = self.shared.topology.map();
            Ok(join_all(map.nodes.iter().map(|node| node.store.report(timeout))).await)
        })
    }

    fn addresses(&self) -> Vec<String> {
        let map = self.shared.topology.map();
        map.nodes.iter().flat_map(|node| node.store.addresses()).collect()
    }

    fn missing_rights(
        &self,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<ServerReport<Vec<MissingRight>>>> {
        StoreFuture::new(async move {
            self.ensure_task();
            let map = self.shared.topology.map();
            Ok(join_all(map.nodes.iter().map(|node| node.store.rights(timeout))).await)
        })
    }

    /// Of each master: a client connects to all in time, yet one that hangs may have lost some connections.
    fn processes(&self, timeout: Duration) -> StoreFuture<'_, ProcessNames> {
        StoreFuture::new(async move {
            self.ensure_task();
            let map = self.shared.topology.map();
            let asked = map.nodes.iter().map(|node| node.store.names_of_processes(timeout));
            let (named, failed): (Vec<_>, Vec<_>) =
                join_all(asked).await.into_iter().partition(Result::is_ok);
            match failed.into_iter().find_map(Result::err) {
                Some(error) if named.is_empty() => Err(error),
                _ => Ok(named.into_iter().flatten().flatten().collect()),
            }
        })
    }

    fn clock(&self) -> Clock {
        Clock::boot_time()
    }

    fn close(&self) {
        self.shared.topology.close();
    }
}
