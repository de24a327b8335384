//! Tasks whose queue is in the store: those that acquire a fair lock, and readers that share no hold.
//!
//! A key counts them, and knows which of them has been in that queue for the longest time. A task that releases the lock wakes the
//! one that is probably next, so that its request follows the release and the hand-over takes one round trip. That is a hint:
//! the store decides whose turn it is, and notifies that waiter.
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
    hints: Hints,
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
    /// Wakes the task that asks, while that sleeps.
    asleep: Option<oneshot::Sender<()>>,
    /// True from when a release has woken it until the store's answer.
    is_hinted: bool,
    /// Dropping it tells that it has become the first.
    first: Option<oneshot::Sender<()>>,
}

impl<H> Member<H> {
    fn new(waiter: Option<Weak<Waiter<H>>>, polled_at: Instant) -> Self {
        let (owner, is_passed_over) = (None, false);
        let (asleep, is_hinted, first) = (None, false, None);
        Self { waiter, polled_at, owner, is_passed_over, asleep, is_hinted, first }
    }

    fn is_in_line(&self) -> bool {
        self.owner.is_some() && !self.is_passed_over
    }
}

impl<H> Default for InStore<H> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), hints: Hints::default() }
    }
}

/// After so many hints in a row to waiters whose turn had not come, only one release in [`SELDOM`] gives one: waiters of
/// other processes are probably in between.
const MOST_MISSES: u8 = 2;
const SELDOM: u8 = 8;

/// How often the waiters that were woken had their turn.
#[derive(Default)]
struct Hints {
    /// How many of the last ones had not.
    misses: u8,
    /// How many releases gave no hint since.
    skipped: u8,
}

impl Hints {
    fn is_worth_one(&mut self) -> bool {
        if self.misses < MOST_MISSES {
            return true;
        }
        self.skipped = (self.skipped + 1) % SELDOM;
        self.skipped == 0
    }
}

/// A waiter whose task sleeps. Dropping this wakes that.
pub(crate) struct Sleeper {
    /// Whose place it has in the store's queue.
    pub(crate) owner: OwnerId,
    _wakes: oneshot::Sender<()>,
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
        // Under the mutex, as in `enter`.
        if self.closed.load(Ordering::SeqCst) {
            return Admission::Closed;
        }
        let number = shard.next_number();
        let others = shard.keys.get(&**target).map_or(0, Key::in_store);
        let is_full = || self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
        let is_new = caller.place.is_none();
        if is_new && others > 0 && (others > caller.max_queue || is_full()) {
            return Admission::Busy(BusyReason::TooManyWaiters);
        }
        let key = shard.get_or_insert(target);
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

    /// The waiter that is probably next in the store's queue, if its task sleeps and waking it is likely to help.
    fn next_in_store(&self, target: &Target) -> Option<Sleeper> {
        let mut shard = self.shard(target);
        let elsewhere = shard.keys.get_mut(target)?.elsewhere.as_deref_mut()?;
        let InStore { members, hints } = &mut elsewhere.in_store;
        // A hint, which may be late: if the first member leaves, or asks, before it is woken, it is woken for nothing.
        let first = members.values_mut().find(|member| member.is_in_line())?;
        if first.asleep.is_none() || !hints.is_worth_one() {
            return None;
        }
        first.is_hinted = true;
        Some(Sleeper { owner: first.owner.clone()?, _wakes: first.asleep.take()? })
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
    /// For the holder of a lock whose queue is in the store: the waiter to wake once the release is on its way.
    pub(crate) fn next_in_store(&self) -> Option<Sleeper> {
        let (queues, target) = self.left_here()?;
        queues.next_in_store(target)
    }

    fn with_member<T>(&self, f: impl FnOnce(&mut Hints, &mut Member<H>) -> T) -> Option<T> {
        let Here { queues, target, number } = self.in_store_here()?;
        let mut shard = queues.shard(target);
        let elsewhere = shard.keys.get_mut(&**target)?.elsewhere.as_deref_mut()?;
        let InStore { members, hints } = &mut elsewhere.in_store;
        members.get_mut(number).map(|member| f(hints, member))
    }

    /// Has a task of the client ask with this seat, for that waiter. False if its caller was passed over.
    pub(super) fn ask_in_store_for(&self, waiter: &Arc<Waiter<H>>) -> bool {
        let ask = |_: &mut Hints, member: &mut Member<H>| {
            member.waiter = Some(Arc::downgrade(waiter));
            !member.is_passed_over
        };
        self.with_member(ask).unwrap_or(false)
    }

    /// From now on it may have a place in the store's queue, with that owner.
    pub(crate) fn keeps_place(&self, owner: &OwnerId) {
        self.with_member(|_, member| member.owner = Some(owner.clone()));
    }

    /// Resolves when a release wakes it.
    // Registered before the nap begins: a release that looks for the first waiter from here on finds it asleep.
    pub(crate) fn is_hinted(&self) -> Option<oneshot::Receiver<()>> {
        let (wake, woken) = oneshot::channel();
        self.with_member(|_, member| member.asleep = Some(wake))?;
        Some(woken)
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

    /// Records the store's answer. True if a release had woken it to ask.
    pub(super) fn note_turn(&self, has_come: bool) -> bool {
        let noted = self.with_member(|hints, member| {
            let was_hinted = std::mem::take(&mut member.is_hinted);
            if was_hinted {
                hints.misses = if has_come { 0 } else { hints.misses.saturating_add(1) };
            }
            was_hinted
        });
        noted.unwrap_or(false)
    }

    /// True if this process has others in the store's queue.
    pub(crate) fn has_company(&self) -> bool {
        let Some(Here { queues, target, .. }) = self.in_store_here() else { return false };
        queues.shard(target).keys.get(&**target).is_some_and(|key| key.in_store() > 1)
    }

    /// True if others have gone first.
    pub(super) fn has_lost_place(&self) -> bool {
        self.with_member(|_, member| member.is_passed_over).unwrap_or(false)
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
