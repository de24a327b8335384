//! [`Seat`]: the right to ask the store for a key, or the place of its holder. [`Asking`]: a seat for the task that asks for a
//! waiter.

use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::waiter::{Kept, PassedOver, Terms, Turn, Waiter, Wanted};
use super::{Key, Mode, OthersFirst, Queues, Ticket, TokensUsed};
use crate::error::{LockError, StoreError};
use crate::lease::releaser::ClientJob;
use crate::liveness::ASLEEP_AFTER;
use crate::store::{HoldKind, OwnerId, Target};

/// The right to ask the store for a key, and later the place of the holder. Dropping it has the store asked for the next waiter,
/// if it is valid (invariant 4).
pub(crate) struct Seat<H>(Place<H>);

// | place | made by | next |
// |---|---|---|
// | `Queued` | `Queues::enter`, or `have_asked` for a waiter | `None`, when the next waiter is admitted; `Left`, if others can hold as well |
// | `InStore` | `enter_store`, or `have_asked_in_store` for a waiter | `None`, when it gives up its place; `Left`, by a grant |
// | `Left` | `step_out` | `None` |
// | `None` | a request beside the queue; what a seat leaves behind | – |
//
// Of two seats of one number (`vacate` makes a second one), the first that admits the next waiter counts: the key then has
// another number, and the second finds that it is void.
enum Place<H> {
    /// At no key: what asks with it neither waits for others nor has others wait.
    None,
    Queued(Here<H>),
    /// Of a task whose queue is in the store.
    InStore(Here<H>),
    /// Others are admitted although the hold goes on.
    Left(Here<H>),
}

pub(super) struct Here<H> {
    pub(super) queues: Arc<Queues<H>>,
    pub(super) target: Arc<Target>,
    pub(super) number: u64,
}

impl<H> Seat<H> {
    pub(super) fn queued(queues: &Arc<Queues<H>>, target: &Arc<Target>, number: u64) -> Self {
        Self(Place::Queued(Here::new(queues, target, number)))
    }

    pub(super) fn in_store(queues: &Arc<Queues<H>>, target: &Arc<Target>, number: u64) -> Self {
        Self(Place::InStore(Here::new(queues, target, number)))
    }

    pub(crate) fn none() -> Self {
        Self(Place::None)
    }

    /// The keys, and the number of this seat there, for [`vacate`](Queues::vacate).
    pub(crate) fn queues_and_number(&self) -> Option<(Arc<Queues<H>>, u64)> {
        let Place::Queued(here) = &self.0 else { return None };
        Some((Arc::clone(&here.queues), here.number))
    }

    pub(crate) fn is_in_store(&self) -> bool {
        matches!(self.0, Place::InStore(_))
    }

    pub(super) fn in_store_here(&self) -> Option<&Here<H>> {
        match &self.0 {
            Place::InStore(here) => Some(here),
            _ => None,
        }
    }

    pub(super) fn left_here(&self) -> Option<(&Arc<Queues<H>>, &Arc<Target>)> {
        match &self.0 {
            Place::Left(here) => Some((&here.queues, &here.target)),
            _ => None,
        }
    }

    pub(crate) fn id(&self) -> SeatId {
        match &self.0 {
            Place::None | Place::Left(_) => SeatId::None,
            Place::Queued(here) => SeatId::Queued(here.number),
            Place::InStore(here) => SeatId::InStore(here.number),
        }
    }

    /// True if others were admitted since, because its caller was not polled.
    // S-34. It may become true right after the unlock: `granted` looks again under the mutex, and what it finds counts.
    pub(crate) fn is_passed_over(&self) -> bool {
        match &self.0 {
            Place::None | Place::Left(_) => false,
            Place::InStore(_) => self.has_lost_place(),
            Place::Queued(_) => self.with(|_| ()).is_none(),
        }
    }

    /// Records the owner with which its caller asks the store. If the caller is then passed over, what that owner was granted is
    /// released.
    // S-34. Before the request: a waiter that passes over the caller from here on has the owner's name to release.
    pub(crate) fn asks_as(&self, owner: &OwnerId) {
        self.with(|key| {
            if let Mode::First { .. } = key.mode {
                key.asked_as = owner.number();
            }
        });
    }

    /// Records that the store has granted the lock. False if that was given up meanwhile, because the caller was not polled: the
    /// hold then belongs to no task. One that
    /// `excludes_next` ends the waits that last until an answer; the others may share it.
    pub(crate) fn granted(&self, excludes_next: bool) -> bool {
        match &self.0 {
            Place::None | Place::Left(_) => true,
            Place::InStore(_) => self.secure_place(),
            Place::Queued(here) => {
                let answered = self.with(|key| {
                    // What this owner has is a task's hold from here on, which ends as its options say. A waiter that passes
                    // over its release must not end it sooner, before `at_least`.
                    key.asked_as = None;
                    let answered = excludes_next.then(|| key.note_answer(None));
                    key.mode = Mode::Held;
                    answered
                });
                let Some(answered) = answered else { return false };
                // The key is `Held` since the unlock: a caller that comes before these are told finds the lock busy, as they do.
                if let Some(answered) = answered {
                    answered.tell(&here.queues, || Turn::Busy);
                }
                true
            }
        }
    }

    /// Records that the store has answered a request sent at `asked_at`, without granting the lock.
    pub(crate) fn refused(&self, asked_at: Instant) {
        let Place::Queued(here) = &self.0 else { return };
        // Of readers, only those that came before the request: a refusal says nothing of what a later one may join.
        let shared = here.shares().then_some(asked_at);
        if let Some(answered) = self.with(|key| key.note_answer(shared)) {
            answered.tell(&here.queues, || Turn::Busy);
        }
    }

    /// Records that the store has failed a request sent at `asked_at`, and ends the wait of every waiter in the queue that ends
    /// at an answer, or has tolerated failures for `patience`: the patience of each runs at the same time, not one after
    /// the other. An error that is not `transient` says nothing about what comes next.
    // S-33.
    pub(crate) fn failed(&self, error: &StoreError, asked_at: Instant, patience: Duration) {
        let Place::Queued(here) = &self.0 else { return };
        let now = Instant::now();
        let transient = error.kind().is_transient();
        let ended = self.with(|key| {
            let answered = key.take_answered(here.shares().then_some(asked_at));
            let mut overdue = Vec::new();
            if transient {
                let failing = &mut key.told().failing;
                // Since the first failure in a row, whichever request met it: `note_answer` clears it.
                let since = failing.take().map_or(asked_at, |(since, _)| since);
                *failing = Some((since, error.clone()));
                overdue = key.take_waiters(|waiter| now >= waiter.since.max(since) + patience);
            }
            (answered, overdue)
        });
        let Some((answered, overdue)) = ended else { return };
        let failed = || Turn::Failed(LockError::Store(error.clone()));
        answered.tell(&here.queues, failed);
        here.queues.tell(overdue, failed);
    }

    /// Ends the wait of those that queued before `then`: they can share the hold, which is kept for them.
    pub(crate) fn share_before(&self, then: Instant, kept: &Kept) {
        let Place::Queued(here) = &self.0 else { return };
        if let Some(taken) = self.with(|key| key.take_waiters(|waiter| waiter.since < then)) {
            here.queues.tell(taken, || Turn::Shared(kept.clone()));
        }
    }

    /// How many fencing tokens to reserve: as many as the queue can use.
    // S-23: each hand-off takes one. Tokens that no task uses would only move the counter ahead of the server's clock.
    pub(crate) fn tokens_wanted(&self) -> u32 {
        self.with(|key| key.tokens.wanted(key.queue.len())).unwrap_or(1)
    }

    /// True if others wait in the queue.
    pub(crate) fn has_queue(&self) -> bool {
        self.with(|key| !key.queue.is_empty()).unwrap_or(false)
    }

    /// Since when tasks of this client want another lock: the other side of a read/write lock, whose queue is its own.
    pub(crate) fn wanted_since(&self, other: &Target) -> Option<Instant> {
        self.here()?.queues.wanted_since(other)
    }

    /// Since when the store has been failing, for earlier requests too.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.with(|key| key.failing().map(|(since, _)| *since)).flatten()
    }

    /// Records the holder's lease as the store reported it.
    pub(crate) fn note_holder(&self, remaining: Option<Duration>) {
        let ends = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        self.with(|key| {
            if ends.is_some() || key.told.is_some() {
                key.told().holder_ends = ends;
            }
        });
    }

    /// What is left of the holder's lease, if the store has answered after `since`, and has not failed since.
    // An earlier answer does not make the lock busy for a wait that began after it (S-33).
    pub(crate) fn holder_remaining(&self, since: Instant) -> Option<Duration> {
        self.with(|key| {
            let answered_at = key.told.as_ref()?.answered_at?;
            key.holder_remaining().filter(|_| answered_at >= since)
        })
        .flatten()
    }

    /// When the head start of other processes after the last release of this one ends.
    pub(crate) fn head_start_end(&self) -> Option<Instant> {
        self.with(|key| key.others_first()?.head_start_end()).flatten()
    }

    /// Records turns of other processes. True if some have had none since the last hold of this one.
    pub(crate) fn note_turns_of_others(&self, turns: u32) -> bool {
        let note = |key: &mut Key<H>| {
            let others = key.elsewhere.as_mut()?.others_first.as_mut()?;
            Some(others.note_turns(turns))
        };
        self.with(note).flatten().unwrap_or(false)
    }

    /// Tells newcomers that what this seat is for is being released.
    pub(crate) fn leaving(&self) {
        self.with(|key| {
            let held = key.is_held();
            // For waiters that look for a release that takes long; with an empty queue, the first that looks sets it.
            let since = (!key.queue.is_empty()).then(Instant::now);
            key.mode = Mode::Leaving { held, since };
        });
    }

    /// Takes the first waiter out of the queue, if it came `before` then and wants exactly this lease and no more replicas. It has to be handed this
    /// seat.
    pub(crate) fn next_holder(
        &self,
        terms: Terms,
        before: Option<Instant>,
    ) -> Option<NextHolder<H>> {
        let Place::Queued(here) = &self.0 else { return None };
        let next = |key: &mut Key<H>| {
            let waiter = key.pop_if(terms, before)?;
            key.mode = Mode::Handed(Arc::downgrade(&waiter));
            Some(waiter)
        };
        let waiter = self.with(next).flatten()?;
        // From the unlock to `hand` it is in no queue, and given nothing. If it leaves, is passed over or told of a shutdown in
        // between, it refuses the hold, which is dropped in `hand` and finds the next waiter.
        here.queues.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(NextHolder(waiter))
    }

    /// Leaves after the first attempt to release a hold that used these tokens. `others` is how many processes were
    /// notified, if the store has answered: they may go first.
    // S-14: the release and the next request of one connection would always beat the requests of others.
    pub(crate) fn leave(mut self, used: &TokensUsed, others: Option<u32>) {
        let others_first = others.filter(|others| *others > 0).map(OthersFirst::from_now);
        if let Some((queues, target)) = self.left_here() {
            if others_first.is_some() && target.is_shared() {
                // Several hold a semaphore at a time, so a release does not say whose turn it is.
                queues.let_others_first(target, OthersFirst::from_now(0));
            }
            return;
        }
        self.pass_after(|key| {
            key.tokens.settle(used);
            if key.elsewhere.is_some() || others_first.is_some() {
                key.elsewhere().others_first = others_first;
            }
            others.is_some()
        });
    }

    /// Admits the next waiter at once, by dropping this seat. The returned one can [leave](Self::leave) later.
    pub(crate) fn step_out(self) -> Self {
        let here = match &self.0 {
            Place::Queued(here) | Place::InStore(here) | Place::Left(here) => {
                Some(Here::new(&here.queues, &here.target, here.number))
            }
            Place::None => None,
        };
        Self(here.map_or(Place::None, Place::Left))
    }

    /// Has the store asked for the next waiter, after a last change of the key. That returns true if the store has answered.
    fn pass_after(&mut self, change: impl FnOnce(&mut Key<H>) -> bool) {
        let here = match mem::replace(&mut self.0, Place::None) {
            Place::None | Place::Left(_) => return,
            Place::InStore(here) => return here.queues.leave_store(&here.target, here.number),
            Place::Queued(here) => here,
        };
        let Here { queues, target, number } = here;
        // One step under the mutex: a waiter that comes finds the seat taken, and queues before this pops, or finds the key free.
        // Dropped, or told, after the unlock (invariant 3).
        let (next, answered, _told) = {
            let mut shard = queues.shard(&target);
            let next_number = shard.next_number();
            let Some(key) = shard.keys.get_mut(&*target).filter(|key| key.seat == number) else {
                return;
            };
            let answered = change(key).then(|| key.note_answer(None));
            match key.queue.pop_first() {
                Some((_, waiter)) => {
                    // With a number of its own: this seat may be another one of the same place.
                    let asking = queues.have_asked(key, &target, next_number, &waiter);
                    (Some((asking, waiter)), answered, None)
                }
                None => {
                    // How the store failed this one says nothing about a later one.
                    let told = key.told.take();
                    (key.mode, key.seat) = (Mode::Free, 0);
                    // Those that queue in the store are counted there.
                    let is_used = key.lets_others_first(Instant::now()) || key.in_store() > 0;
                    // No ticket or seat refers to a key but by its number, so one that comes later finds none, as it would find
                    // another.
                    if !is_used {
                        shard.keys.remove(&*target);
                    }
                    (None, answered, told)
                }
            }
        };
        // The key says `Asking` since the unlock. If the waiter has left meanwhile, its job finds that and drops the seat,
        // which serves the one behind it.
        if let Some((asking, _waiter)) = next {
            queues.waiting.fetch_sub(1, Ordering::Relaxed);
            asking.begin();
        }
        // Last: these wakers may panic, and only this call knows the next one.
        if let Some(answered) = answered {
            answered.tell(&queues, || Turn::Busy);
        }
    }

    /// Calls `f` with the key, unless this seat is void (invariant 4). What `f` takes out is dropped after the unlock, by the caller.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Key<H>) -> T) -> Option<T> {
        let Place::Queued(here) = &self.0 else { return None };
        let mut shard = here.queues.shard(&here.target);
        let key = shard.keys.get_mut(&*here.target).filter(|key| key.seat == here.number);
        key.map(f)
    }
}

/// Identifies a seat to its key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SeatId {
    None,
    Queued(u64),
    InStore(u64),
}

impl SeatId {
    /// The place in the queue of a caller that has asked with it.
    pub(crate) fn place(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Queued(number) | Self::InStore(number) => Some(number),
        }
    }
}

impl<H> Queues<H> {
    /// Records a sign of life of the caller that asks with that seat. False if it was passed over.
    // S-34. Under the mutex under which `look` takes the seat away: a caller that has given its sign keeps its seat for a second.
    pub(crate) fn lives(&self, target: &Target, seat: SeatId, now: Instant) -> bool {
        match seat {
            SeatId::None => true,
            SeatId::InStore(number) => self.lives_in_store(target, number, now),
            SeatId::Queued(number) => {
                let mut shard = self.shard(target);
                let key = shard.keys.get_mut(target).filter(|key| key.seat == number);
                key.is_some_and(|key| {
                    if let Mode::First { polled_at } = &mut key.mode {
                        *polled_at = now;
                    }
                    true
                })
            }
        }
    }
}

impl<H> Here<H> {
    /// True if its waiters share a hold.
    fn shares(&self) -> bool {
        self.target.kind() == HoldKind::Read
    }

    fn new(queues: &Arc<Queues<H>>, target: &Arc<Target>, number: u64) -> Self {
        Self { queues: Arc::clone(queues), target: Arc::clone(target), number }
    }
}

impl<H> Drop for Seat<H> {
    fn drop(&mut self) {
        self.pass_after(|_| false);
    }
}

/// A waiter whose turn has come with a hold.
#[must_use = "it waits for the hold"]
pub(crate) struct NextHolder<H>(Arc<Waiter<H>>);

impl<H> NextHolder<H> {
    /// Hands it the hold, with the seat in it. If the waiter has just gone, the hold is dropped here and finds the next waiter
    /// (invariant 1), as a guard does.
    pub(crate) fn hand(self, payload: Arc<H>) {
        self.0.give(Turn::Handed(payload));
    }
}

impl<H> Queues<H> {
    /// Makes the seat of that number void, and serves the waiter behind it.
    // For a hold that is lost while its owner may hang. The owner's own seat is void from then on, so it may be dropped at any
    // time.
    pub(crate) fn vacate(self: Arc<Self>, target: &Arc<Target>, number: u64) {
        drop(Seat::queued(&self, target, number));
    }
}

/// A waiter that the store is to be asked for, and the seat to ask with, until a task of the client runs it. Weak, because the
/// waiter keeps the client, and the client keeps what no task has begun yet: a waiter that leaves meanwhile ends both.
pub(crate) struct Asking<H> {
    waiter: Weak<Waiter<H>>,
    seat: Seat<H>,
}

impl<H> Asking<H> {
    pub(super) fn new(seat: Seat<H>, waiter: &Arc<Waiter<H>>) -> Self {
        Self { waiter: Arc::downgrade(waiter), seat }
    }

    /// Has a task of the client run it.
    pub(super) fn begin(self) {
        // Otherwise the waiter is gone, and dropping the seat serves the next one.
        if let Some(waiter) = self.waiter.upgrade() {
            waiter.wanted.have_asked(self);
        }
    }

    /// The waiter and the seat; `None` if the waiter is gone.
    fn begun(self) -> Option<(Asked<H>, Seat<H>)> {
        let waiter = self.waiter.upgrade()?;
        let here = self.seat.here()?;
        let (queues, target, number) =
            (Arc::clone(&here.queues), Arc::clone(&here.target), here.number);
        Some((Asked { queues, target, waiter, number }, self.seat))
    }
}

impl<H: Send + Sync + 'static> ClientJob for Asking<H> {
    fn start(self: Box<Self>) -> Option<BoxFuture<'static, ()>> {
        let (asked, seat) = self.begun()?;
        let waiter = Arc::clone(&asked.waiter);
        Some(waiter.served_by(Arc::clone(&waiter.wanted).run(asked, seat)))
    }
}

/// A waiter that the store is asked for. If this is dropped while it waits, it goes back into the queue (invariant 5).
pub(crate) struct Asked<H> {
    queues: Arc<Queues<H>>,
    target: Arc<Target>,
    waiter: Arc<Waiter<H>>,
    /// That of the seat which the store is asked with.
    number: u64,
}

impl<H> Asked<H> {
    /// Resolves once the waiter waits no more: it is gone, was passed over, or the client shuts down.
    pub(crate) async fn stops_waiting(&self) {
        self.waiter.stops_waiting().await;
    }

    /// Resolves when a caller needs the store asked now; at once if one already does.
    pub(crate) async fn is_needed(&self) {
        self.waiter.is_needed().await;
    }

    /// What a task has to run, which begins with what its caller has begun.
    pub(crate) fn served_by(
        self,
        request: impl FnOnce(Self) -> BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, ()> {
        let waiter = Arc::clone(&self.waiter);
        waiter.served_by(request(self))
    }

    /// Passes the waiter over if it is not polled. True if it did: it queues again when it is polled.
    // A lock that it was granted would be of no use to anybody for a lease.
    pub(crate) fn is_passed_over(&self) -> bool {
        match self.waiter.pass_over(Instant::now()) {
            PassedOver::No => false,
            PassedOver::Yes(turn) => {
                drop(turn);
                self.waiter.wake_asker();
                true
            }
        }
    }

    /// Ends the wait with an error.
    pub(crate) fn fail(&self, error: LockError) {
        self.waiter.give(Turn::Failed(error));
    }

    /// Ends the wait with what is kept for it to share.
    pub(crate) fn share(&self, kept: Kept) {
        self.waiter.give(Turn::Shared(kept));
    }

    /// Hands it the hold. `seat` is the number of the seat in it, if it has others wait. A waiter that is gone or sleeps leaves
    /// it to the first in the queue that does neither and wants the same. If there is none, the hold is dropped, which
    /// releases it.
    pub(crate) fn hand(&self, payload: Arc<H>, seat: Option<u64>) {
        let now = Instant::now();
        // It may leave or fall asleep after this look. If it leaves, `give` drops the hold, which finds the next waiter; if it
        // does not come for it, `is_taken` takes the hold back.
        let is_ready = self.waiter.is_waiting() && !self.waiter.sleeps(now);
        let other = {
            let mut shard = self.queues.shard(&self.target);
            shard.keys.get_mut(&*self.target).and_then(|key| {
                let wants = |other: &&Arc<Waiter<H>>| {
                    other.terms == self.waiter.terms && !other.sleeps(now)
                };
                let other = if is_ready { None } else { key.queue.values().find(wants) };
                let other = other.map(|other| other.number);
                let other = other.and_then(|number| key.queue.remove(&number));
                // Otherwise the hold was lost meanwhile, or does not have the next waiter wait.
                if seat == Some(key.seat) {
                    let next = other.as_ref().unwrap_or(&self.waiter);
                    key.mode = Mode::Handed(Arc::downgrade(next));
                }
                other
            })
        };
        // A hold that has others wait has the seat, so no other task asks between the unlock and this.
        if let Some(other) = other {
            self.queues.waiting.fetch_sub(1, Ordering::Relaxed);
            other.give(Turn::Handed(payload));
        } else if is_ready || !self.is_passed_over() {
            self.waiter.give(Turn::Handed(payload));
        }
    }
}

impl<H> Asked<H> {
    /// Waits until the waiter uses what it was handed, and takes that back if it does not within a second.
    // S-34. Nobody else would, where no other task of this process waits.
    pub(crate) async fn is_taken(&self) {
        // Here the waiter may be polled, and leave: both are told to `uses_it`. It may also be polled between the timeout and the
        // look: then it has its hold, and nothing is taken back.
        if timeout(ASLEEP_AFTER, self.waiter.uses_it()).await.is_err() {
            // It goes to the next waiter, or is released.
            drop(self.waiter.take_back());
        }
    }
}

impl<H> Drop for Asked<H> {
    fn drop(&mut self) {
        // Nothing, if the waiter was given something, was passed over, or is gone. Otherwise the task has ended with its runtime.
        self.queues.wait_again(&self.target, &self.waiter, Some(self.number));
    }
}

impl<H> Seat<H> {
    /// Has its caller wait from now on: the store is asked for it by a task of the client, with this seat.
    ///
    /// # Errors
    ///
    /// The caller's place in the queue, if it was passed over.
    pub(crate) fn wait(
        self,
        terms: Terms,
        since: Instant,
        wanted: Arc<dyn Wanted<H>>,
    ) -> Result<(Ticket<H>, Asked<H>, Self), Option<u64>> {
        let Some(Here { queues, target, number }) = self.here() else { return Err(None) };
        let (queues, target, number) = (Arc::clone(queues), Arc::clone(target), *number);
        let mut waiter = Waiter::new(number, since, Instant::now(), terms, wanted);
        waiter.is_in_store = self.is_in_store();
        let waiter = Arc::new(waiter);
        // The caller polls this, so it is not asleep now; whether it was passed over before is found in the step that makes it
        // a waiter.
        let asked = match self.is_in_store() {
            true => self.ask_in_store_for(&waiter),
            false => self.with(|key| key.mode = Mode::Asking(Arc::downgrade(&waiter))).is_some(),
        };
        if !asked {
            return Err(Some(number));
        }
        let asked = Asked {
            queues: Arc::clone(&queues),
            target: Arc::clone(&target),
            waiter: Arc::clone(&waiter),
            number,
        };
        Ok((Ticket::new(queues, target, waiter), asked, self))
    }

    fn here(&self) -> Option<&Here<H>> {
        match &self.0 {
            Place::None => None,
            Place::Queued(here) | Place::InStore(here) | Place::Left(here) => Some(here),
        }
    }
}
