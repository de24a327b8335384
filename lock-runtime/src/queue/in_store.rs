//! Tasks whose queue is in the store: those that acquire a fair lock, and readers that share no hold.
//!
//! A key counts them, and knows which of them has been in that queue for the longest time. The store decides whose turn it is,
//! and notifies that waiter.
// S-18, S-26, S-34.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::seat::Here;
use super::waiter::Waiter;
use super::{Admission, Asking, Caller, Key, Queues, Seat};
use crate::error::BusyReason;
use crate::liveness::is_asleep;
use crate::store::{HoldNumber, OwnerId, Target};

/// The tasks of one key whose queue is in the store, by the numbers of their seats.
pub(super) struct InStore<H> {
    members: BTreeMap<u64, Member<H>>,
}

struct Member<H> {
    /// The waiter that a task of the client asks the store for; `None` while the caller asks itself.
    waiter: Option<Weak<Waiter<H>>>,
    /// When a caller that asks itself last gave a sign of life.
    polled_at: Instant,
    /// The owner of its place in the store's queue, once it may have one.
    owner: Option<OwnerId>,
    /// True once others have gone first because its caller was not polled.
    is_passed_over: bool,
    /// Dropping it tells that it has become the first.
    first: Option<oneshot::Sender<()>>,
}

impl<H> Member<H> {
    fn new(waiter: Option<Weak<Waiter<H>>>, polled_at: Instant) -> Self {
        let (owner, is_passed_over, first) = (None, false, None);
        Self { waiter, polled_at, owner, is_passed_over, first }
    }
}

impl<H> Default for InStore<H> {
    fn default() -> Self {
        Self { members: BTreeMap::new() }
    }
}

impl<H> InStore<H> {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// True if the store is asked for such a waiter, with another seat than that.
    pub(super) fn has(&self, is_it: &dyn Fn(&Weak<Waiter<H>>) -> bool, but: Option<u64>) -> bool {
        let mut others = self.members.iter().filter(|(number, _)| Some(**number) != but);
        others.any(|(_, member)| member.waiter.as_ref().is_some_and(is_it))
    }

    pub(super) fn waiters(&self) -> Vec<Arc<Waiter<H>>> {
        self.members.values().filter_map(|member| member.waiter.as_ref()?.upgrade()).collect()
    }

    /// Removes a member. The caller drops it after the unlock, and so wakes the one that is the first now.
    fn remove(&mut self, number: u64) -> Option<Member<H>> {
        let mut member = self.members.remove(&number)?;
        member.first = self.members.first_entry().and_then(|mut next| next.get_mut().first.take());
        Some(member)
    }
}

impl<H> Queues<H> {
    /// Lets a caller ask the store that queues there and not here, if there is room.
    // S-18: one of the waiters counts as asking, as in the queue here, and the others as waiting.
    pub(crate) fn enter_store(
        self: &Arc<Self>,
        target: &Arc<Target>,
        caller: Caller,
        owner: impl FnOnce() -> OwnerId,
    ) -> Admission<H> {
        let mut shard = self.shard(target);
        // Unlike `enter`, this does not look for a shutdown: the caller asks the store itself, and looks before each request.
        let number = shard.next_number();
        let others = shard.keys.get(&**target).map_or(0, Key::in_store);
        let is_full = || self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
        let is_new = caller.place.is_none();
        if is_new && others > 0 && (others > caller.max_queue || is_full()) {
            return Admission::Busy(BusyReason::TooManyWaiters);
        }
        let key = shard.get_or_insert(target);
        if others == 0 && key.is_free() {
            key.wanted_since = caller.now;
        }
        self.count_in_store(key, number, Member::new(None, caller.now));
        drop(shard);
        Admission::First(Seat::in_store(self, target, number), owner())
    }

    /// As in the queue here, one of them counts as asking and the others as waiting.
    fn count_in_store(&self, key: &mut Key<H>, number: u64, member: Member<H>) {
        if key.in_store() > 0 {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        key.elsewhere().in_store.members.insert(number, member);
    }

    /// The same for a waiter that waits again. What this returns [begins](Asking::begin) after the unlock.
    pub(super) fn have_asked_in_store(
        self: &Arc<Self>,
        key: &mut Key<H>,
        target: &Arc<Target>,
        number: u64,
        waiter: &Arc<Waiter<H>>,
    ) -> Asking<H> {
        let member = Member::new(Some(Arc::downgrade(waiter)), waiter.since);
        self.count_in_store(key, number, member);
        Asking::new(Seat::in_store(self, target, number), waiter)
    }

    pub(super) fn leave_store(&self, target: &Target, number: u64) {
        // Dropped at the end, after the unlock: that wakes the member that is the first now, which then looks at the key by
        // itself.
        let _member = {
            let mut shard = self.shard(target);
            let Some(key) = shard.keys.get_mut(target) else { return };
            let Some(member) = key.elsewhere().in_store.remove(number) else { return };
            if key.in_store() > 0 {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            } else if key.is_free() && !key.lets_others_first(Instant::now()) {
                shard.keys.remove(target);
            }
            member
        };
    }

    /// Records a sign of life of a caller that asks itself. False if others have gone first since.
    pub(super) fn lives_in_store(&self, target: &Target, number: u64, now: Instant) -> bool {
        let mut shard = self.shard(target);
        let member = shard.keys.get_mut(target).and_then(|key| key.member(number));
        // Without a member, the seat has left: no waiter looks at it any more.
        member.is_none_or(|member| {
            member.polled_at = now;
            !member.is_passed_over
        })
    }
}

impl<H> Key<H> {
    fn member(&mut self, number: u64) -> Option<&mut Member<H>> {
        self.elsewhere.as_deref_mut()?.in_store.members.get_mut(&number)
    }

    /// The waiters that have been in the store's queue for longer than this one, with the first that is polled. A caller that
    /// asks itself and is not polled is passed over: the place that it may have is added to `asked`.
    // S-34. The store keeps their places for a waiter lease, so the ones behind would wait for as long. Those with a waiter are
    // passed over by their slots, after the unlock; a caller that asks itself has no slot, and is marked here.
    pub(super) fn in_store_before(
        &mut self,
        waiter: &Arc<Waiter<H>>,
        now: Instant,
        asked: &mut Vec<HoldNumber>,
    ) -> Vec<Arc<Waiter<H>>> {
        let mut before = Vec::new();
        let Some(elsewhere) = self.elsewhere.as_deref_mut() else { return before };
        for member in elsewhere.in_store.members.values_mut() {
            match &member.waiter {
                Some(its) if std::ptr::eq(its.as_ptr(), Arc::as_ptr(waiter)) => break,
                Some(its) => {
                    let Some(its) = its.upgrade() else { continue };
                    let sleeps = its.sleeps(now);
                    before.push(its);
                    if !sleeps {
                        break;
                    }
                }
                None if is_asleep(member.polled_at, now) => {
                    if !std::mem::replace(&mut member.is_passed_over, true) {
                        asked.extend(member.owner.as_ref().and_then(OwnerId::number));
                    }
                }
                None => break,
            }
        }
        before
    }
}

impl<H> Seat<H> {
    fn with_member<T>(&self, f: impl FnOnce(&mut Member<H>) -> T) -> Option<T> {
        let Here { queues, target, number } = self.in_store_here()?;
        let mut shard = queues.shard(target);
        shard.keys.get_mut(&**target)?.member(*number).map(f)
    }

    /// Has a task of the client ask with this seat, for that waiter. False if its caller was passed over.
    pub(super) fn ask_in_store_for(&self, waiter: &Arc<Waiter<H>>) -> bool {
        let ask = |member: &mut Member<H>| {
            member.waiter = Some(Arc::downgrade(waiter));
            !member.is_passed_over
        };
        self.with_member(ask).unwrap_or(false)
    }

    /// From now on it may have a place in the store's queue, with that owner.
    pub(crate) fn keeps_place(&self, owner: &OwnerId) {
        self.with_member(|member| member.owner = Some(owner.clone()));
    }

    /// Resolves once it has been the first of its process for that long.
    pub(crate) async fn has_been_first(&self, long: Duration) {
        loop {
            // In a line that moves, few waiters wait for so long, and only those ask.
            tokio::time::sleep(long).await;
            let Some(becomes_first) = self.becomes_first() else { return };
            // It was dropped: that is the signal.
            let _ = becomes_first.await;
        }
    }

    /// `None` if it is the first.
    fn becomes_first(&self) -> Option<oneshot::Receiver<()>> {
        let Here { queues, target, number } = self.in_store_here()?;
        let mut shard = queues.shard(target);
        let elsewhere = shard.keys.get_mut(&**target)?.elsewhere.as_deref_mut()?;
        let members = &mut elsewhere.in_store.members;
        if members.keys().next() == Some(number) {
            return None;
        }
        let (first, becomes_first) = oneshot::channel();
        members.get_mut(number)?.first = Some(first);
        Some(becomes_first)
    }

    /// True if others have gone first.
    pub(super) fn has_lost_place(&self) -> bool {
        self.with_member(|member| member.is_passed_over).unwrap_or(false)
    }

    /// From now on its place cannot be given up. False if it already was.
    // One step: a waiter that looks later finds a member without an owner to release, so what was granted stays.
    pub(super) fn secure_place(&self) -> bool {
        let Some(Here { queues, target, number }) = self.in_store_here() else { return true };
        let mut shard = queues.shard(target);
        let Some(key) = shard.keys.get_mut(&**target) else { return true };
        if key.member(*number).is_some_and(|member| member.is_passed_over) {
            return false;
        }
        if let Some(member) = key.member(*number) {
            // It is not in the store's queue any more, and still counts here.
            member.owner = None;
        }
        true
    }
}
