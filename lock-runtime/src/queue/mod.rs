//! The queue of each key: the waiters of this client, first in, first out.
//!
//! A key that a client uses has one [`Seat`]: the right to ask the store for it, and later the place of its holder. The caller
//! that finds the key unused has the seat, and asks the store once. All others wait in the queue, and so does that caller if the
//! store refuses it; a task of the client then asks the store for the front of the queue ([`Asking`]), because a caller's
//! future may be dropped, or not polled. So one request of this process at a time asks for a key, however many tasks wait.
//!
//! | mode of a key | who has the seat | next |
//! |---|---|---|
//! | `Free` | nobody; the key is removed, unless other processes go first | `First`, `Asking` |
//! | `First` | the caller that asks the store once | `Held`, `Asking` for it, `Leaving` |
//! | `Asking` | the client's task that asks for a waiter | `Held`, `Handed` to it, `Leaving`, `Asking` for the next, `Free` |
//! | `Handed` | a waiter that was given the hold, and was not polled since | `Held`, `Handed` to the next, `Leaving` |
//! | `Held` | the holder | `Handed`, `Leaving`; `Asking`, `Free` if the hold is lost, or does not exclude the next |
//! | `Leaving` | a release, until the store has answered it | `Asking`, `Free` |
//!
//! Fair locks, and readers that share no hold, queue in the store: see [`in_store`].
//!
//! # Invariants
//!
//! 1. A seat is never lost: dropping it, wherever it is, has the store asked for the next waiter. A waiter that leaves what it
//!    was given drops a hold, which passes itself on.
//! 2. A queue is served from the front, and leaving it takes effect at once. A waiter that was passed over is in no queue until
//!    it is polled; then it has its old place.
//! 3. No foreign code runs under a shard's mutex: holds are dropped and wakers called after the unlock, because they come back
//!    here. Under it, a waiter's slot may be locked, and nothing else.
//! 4. A key has one valid seat, by its number. Earlier seats change nothing: the hold was lost, or its holder passed over.
//! 5. A waiter that waits is in the queue, or the store is asked for it. The task that stops asking puts it back
//!    (`Asked`'s drop), and so does the waiter itself, when it is polled after it was passed over: either may find that the other was first.
// S-14, S-17, S-34.

mod in_store;
mod others_first;
mod seat;
mod shard;
mod ticket;
mod tokens;
mod waiter;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use self::in_store::InStore;
use self::others_first::OthersFirst;
pub(crate) use self::others_first::head_start;
pub(crate) use self::seat::{Asked, Asking, NextHolder, Seat, SeatId};
use self::shard::Shard;
pub(crate) use self::ticket::{EndOfWait, Ticket};
use self::tokens::Tokens;
pub(crate) use self::tokens::TokensUsed;
use self::waiter::Waiter;
pub(crate) use self::waiter::{Kept, Terms, Turn, Wanted};
use crate::admin::waits::WaitEntry;
use crate::error::{BusyReason, StoreError};
use crate::store::{HoldKind, HoldNumber, OwnerId, Target};

/// Number of maps that keys are spread over.
const SHARDS: usize = 32;

/// The keys of one client. `H` is what is handed to a waiter.
pub(crate) struct Queues<H> {
    shards: Box<[Mutex<Shard<H>>]>,
    // Relaxed: a bound on memory, which shards change side by side. The code that puts a waiter into a queue adds one, and the
    // code that takes it out subtracts one, each under the shard's mutex or right after it: so it may be off for a moment, and
    // no longer.
    waiting: AtomicUsize,
    max_waiting: usize,
    // `close` stores it before it locks the shards; its partners load it with a shard locked (`enter`, `wait_again`). So a caller
    // sees it, or has queued where `close` comes by later: the mutex orders the two.
    closed: AtomicBool,
}

struct Key<H> {
    mode: Mode<H>,
    /// The number of the valid seat (invariant 4).
    seat: u64,
    /// When the first task came since the key was free.
    wanted_since: Instant,
    /// By their numbers, and so in the order in which they came.
    queue: BTreeMap<u64, Arc<Waiter<H>>>,
    /// The owner with which the first caller asks the store. If that is passed over, what the owner was granted is released.
    asked_as: Option<HoldNumber>,
    /// Boxed, because few keys have waiters that the store has refused.
    told: Option<Box<Told>>,
    /// Boxed, because few keys have other processes, or queue in the store.
    elsewhere: Option<Box<Elsewhere<H>>>,
    tokens: Tokens,
}

/// What the store has said since the key is used.
#[derive(Default)]
struct Told {
    /// Since when the store has failed, and its last error.
    failing: Option<(Instant, StoreError)>,
    /// When the holder's lease ends.
    holder_ends: Option<Instant>,
    /// When it last answered.
    answered_at: Option<Instant>,
    /// How many waiters of the queue end at the next answer, or have left before it.
    end_at_answer: usize,
}

/// What a key knows of turns that it does not give.
struct Elsewhere<H> {
    /// The head start of other processes, if they waited when the last hold was released.
    others_first: Option<OthersFirst>,
    in_store: InStore<H>,
}

// The table of its states is at the top of this file. A mode changes under the shard's mutex only, and but for `Free` it is the
// owner of the valid seat that changes it; `look` takes a seat away by giving the key a new number first.
enum Mode<H> {
    Free,
    First {
        /// When the caller last gave a sign of life.
        polled_at: Instant,
    },
    // Weak, here and below: a waiter keeps what its caller has, perhaps the client. If the key kept it last, it would be dropped
    // under the shard's mutex (invariant 3).
    Asking(Weak<Waiter<H>>),
    Handed(Weak<Waiter<H>>),
    Held,
    Leaving {
        /// True if a hold is being released, and not what a request may have left.
        held: bool,
        /// When a waiter first saw the release.
        since: Option<Instant>,
    },
}

/// What a caller is ready to wait for at a key that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Its turn, behind other waiters.
    Turn,
    /// A release that is under way, which takes one round trip, or else the store's next answer.
    Release,
    /// The store's next answer, if it is not known that the lock is held.
    Answer,
}

/// A caller that wants a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) terms: Terms,
    pub(crate) max_queue: usize,
    pub(crate) waits_for: WaitsFor,
    /// Its place in the queue, if it has had one: it was passed over, or lost what it was given. It was admitted then.
    pub(crate) place: Option<u64>,
    /// False if even the first request is one for a task of the client.
    pub(crate) asks_first: bool,
    pub(crate) now: Instant,
}

/// Answer of [`Queues::enter`].
pub(crate) enum Admission<H> {
    /// The key was unused: the caller asks the store, once, as this owner.
    First(Seat<H>, OwnerId),
    Waits(Ticket<H>),
    Busy(BusyReason),
    /// The store fails.
    Failing(StoreError),
    /// The client is shut down.
    Closed,
}

impl<H> Queues<H> {
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            waiting: AtomicUsize::new(0),
            max_waiting,
            closed: AtomicBool::new(false),
        })
    }

    /// Lets a caller ask the store, if it is the first, or wait. `owner` is the one that it would ask as; `newcomer` is what
    /// it wants.
    pub(crate) fn enter(
        self: &Arc<Self>,
        target: &Arc<Target>,
        caller: Caller,
        owner: impl FnOnce() -> OwnerId,
        newcomer: impl FnOnce() -> Arc<dyn Wanted<H>>,
    ) -> Admission<H> {
        let Caller { terms, max_queue, waits_for, place, asks_first, now } = caller;
        let mut shard = self.shard(target);
        // Checked under the mutex, so that no waiter queues after `close`.
        if self.closed.load(Ordering::SeqCst) {
            return Admission::Closed;
        }
        let number = shard.next_number();
        let key = shard.get_or_insert(target);
        if key.is_free() && key.in_store() == 0 {
            key.wanted_since = now;
        }
        // A caller that asks itself and is refused queues under the number of its seat: one that has a place would lose it.
        if key.is_free() && asks_first && place.is_none() && !key.lets_others_first(now) {
            let owner = owner();
            key.mode = Mode::First { polled_at: now };
            (key.seat, key.asked_as) = (number, owner.number());
            return Admission::First(Seat::queued(self, target, number), owner);
        }
        let make = |number| Arc::new(Waiter::new(number, now, now, terms, newcomer()));
        let waiter = if key.is_free() {
            let waiter = make(place.unwrap_or(number));
            let asking = self.have_asked(key, target, number, &waiter);
            drop(shard);
            // From the unlock on the key says that the store is asked for this waiter, so others queue. If the client shuts down
            // before the task begins, `close` finds the waiter through the key, and the task then finds that it waits no more.
            asking.begin();
            waiter
        } else {
            let may_wait = match waits_for {
                WaitsFor::Turn => true,
                WaitsFor::Release => {
                    key.queue.is_empty() && matches!(key.mode, Mode::Leaving { .. })
                }
                WaitsFor::Answer => false,
            };
            if may_wait {
                let is_full = || self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
                // One that comes back to its place was admitted when it came.
                if place.is_none() && (key.queue.len() >= max_queue || is_full()) {
                    return Admission::Busy(BusyReason::TooManyWaiters);
                }
                let waiter = make(place.unwrap_or(number));
                self.enqueue(key, &waiter);
                waiter
            } else {
                if let Some(refused) = key.refuse(waits_for, target.kind()) {
                    return refused;
                }
                let waiter = make(place.unwrap_or(number));
                let asked = key.end_at_answer(&waiter);
                self.enqueue(key, &waiter);
                drop(shard);
                // If the store answers between the unlock and this, the waiter has its answer, and the task wakes for nothing.
                if let Some(asked) = asked {
                    asked.wake_asker();
                }
                waiter
            }
        };
        Admission::Waits(Ticket::new(Arc::clone(self), Arc::clone(target), waiter))
    }

    fn enqueue(&self, key: &mut Key<H>, waiter: &Arc<Waiter<H>>) {
        if key.queue.insert(waiter.number, Arc::clone(waiter)).is_none() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes this waiter, which is in no queue, the one that the store is asked for. Its seat has that number. What this
    /// returns [begins](Asking::begin) after the unlock.
    fn have_asked(
        self: &Arc<Self>,
        key: &mut Key<H>,
        target: &Arc<Target>,
        number: u64,
        waiter: &Arc<Waiter<H>>,
    ) -> Asking<H> {
        key.mode = Mode::Asking(Arc::downgrade(waiter));
        key.seat = number;
        key.asked_as = None;
        Asking::new(Seat::queued(self, target, number), waiter)
    }

    /// Puts a waiter that waits, and that the store is not asked for any more, back into the queue, at its place. If the key is free, the
    /// store is asked for it at once. `by` is the seat of the task that stops asking, whose own request does not count.
    // S-17: no waiter waits without a request or a place. Two may call it for one waiter: that task, and the waiter itself when
    // it is polled after it was passed over. The second finds the waiter queued, or asked for, and does nothing.
    fn wait_again(
        self: &Arc<Self>,
        target: &Arc<Target>,
        waiter: &Arc<Waiter<H>>,
        by: Option<u64>,
    ) {
        let asking = {
            let mut shard = self.shard(target);
            if self.closed.load(Ordering::SeqCst) {
                drop(shard);
                return waiter.give(Turn::Closed);
            }
            // It has perhaps left meanwhile. If it leaves from here on, it finds itself in the queue.
            if !waiter.is_waiting() {
                return;
            }
            // The key may have been removed and made anew since the waiter was passed over; then nothing serves it yet.
            let number = shard.next_number();
            let key = shard.get_or_insert(target);
            if key.serves(waiter, by) {
                return;
            }
            if waiter.is_in_store {
                self.have_asked_in_store(key, target, number, waiter)
            } else if key.is_free() {
                self.have_asked(key, target, number, waiter)
            } else {
                return self.enqueue(key, waiter);
            }
        };
        asking.begin();
    }

    /// Since when the store has failed, and its last error.
    pub(crate) fn failing(&self, target: &Target) -> Option<(Instant, StoreError)> {
        self.shard(target).keys.get(target)?.failing().cloned()
    }

    /// True if a task asks for the key or holds it.
    pub(crate) fn is_in_use(&self, target: &Target) -> bool {
        self.shard(target).keys.get(target).is_some_and(|key| !key.is_free())
    }

    /// Since when tasks want the key, in whichever queue; `None` if none does.
    fn wanted_since(&self, target: &Target) -> Option<Instant> {
        let shard = self.shard(target);
        let key = shard.keys.get(target).filter(|key| !key.is_free() || key.in_store() > 0);
        key.map(|key| key.wanted_since)
    }

    /// True if other processes go first at a key that no task uses.
    pub(crate) fn others_go_first(&self, target: &Target) -> bool {
        let shard = self.shard(target);
        let others = shard.keys.get(target).filter(|key| key.is_free());
        others.and_then(Key::others_first).is_some_and(|it| it.head_start_end().is_some())
    }

    /// What is left of the holder's lease, by the store's last answer.
    pub(crate) fn holder_remaining(&self, target: &Target) -> Option<Duration> {
        self.shard(target).keys.get(target)?.holder_remaining()
    }

    /// Calls `visit` with each waiter in a queue. It must not wait, drop a hold or come back here.
    pub(crate) fn visit_waits(&self, visit: &mut dyn FnMut(&WaitEntry)) {
        for shard in &self.shards {
            // One shard after the other: a waiter that the store is asked for meanwhile may be missed, and people look again.
            for (target, key) in &shard.lock().keys {
                for (place, waiter) in key.queue.values().enumerate() {
                    let (target, asker) = (Arc::clone(target), waiter.wanted.asker());
                    visit(&WaitEntry { target, since: waiter.since, asker, place: Some(place) });
                }
            }
        }
    }

    /// Ends all waits, and refuses new callers.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for shard in &self.shards {
            // After the unlock, in this order: what was handed to a waiter that is not polled, which would keep it for the lease;
            // then all waiters, so that those whose hold was taken back learn of it, too.
            let (mut queued, mut asked, mut handed) = (Vec::new(), Vec::new(), Vec::new());
            for key in shard.lock().keys.values_mut() {
                queued.extend(std::mem::take(&mut key.queue).into_values());
                match &key.mode {
                    Mode::Asking(waiter) => asked.extend(waiter.upgrade()),
                    Mode::Handed(waiter) => handed.extend(waiter.upgrade()),
                    _ => {}
                }
                if let Some(elsewhere) = key.elsewhere.as_deref_mut() {
                    asked.extend(elsewhere.in_store.waiters());
                }
            }
            self.waiting.fetch_sub(queued.len(), Ordering::Relaxed);
            // A waiter that is polled between the unlock and this has used its hold, which then is not taken back; one that was
            // given something else meanwhile keeps that. In either case `Closed` is refused below.
            for waiter in &handed {
                drop(waiter.take_back());
                waiter.comes_back();
            }
            for waiter in queued.into_iter().chain(asked).chain(handed) {
                waiter.give(Turn::Closed);
                waiter.wake_asker();
            }
        }
    }

    /// Delays the next caller of this process, so that other processes go first.
    // S-14. The key may be free: the shard keeps it until the head start is over, or until it has too many such keys.
    fn let_others_first(&self, target: &Arc<Target>, others_first: OthersFirst) {
        let mut shard = self.shard(target);
        let key = shard.get_or_insert(target);
        key.elsewhere().others_first = Some(others_first);
    }

    // The outermost mutex of the queue: under it a waiter's slot may be locked, and nothing else. No code locks two shards.
    fn shard(&self, target: &Target) -> MutexGuard<'_, Shard<H>> {
        // The upper half: the maps inside use the lower bits.
        let upper = (target.hashed() >> 32) as usize;
        self.shards[upper % SHARDS].lock()
    }
}

impl<H> Key<H> {
    fn free() -> Self {
        Self {
            mode: Mode::Free,
            seat: 0,
            wanted_since: Instant::now(),
            queue: BTreeMap::new(),
            asked_as: None,
            told: None,
            elsewhere: None,
            tokens: Tokens::new(),
        }
    }

    fn is_free(&self) -> bool {
        matches!(self.mode, Mode::Free)
    }

    /// True if a task of this process holds the lock, or was handed it.
    fn is_held(&self) -> bool {
        matches!(self.mode, Mode::Held | Mode::Handed(_))
    }

    fn failing(&self) -> Option<&(Instant, StoreError)> {
        self.told.as_ref()?.failing.as_ref()
    }

    fn told(&mut self) -> &mut Told {
        self.told.get_or_insert_default()
    }

    fn elsewhere(&mut self) -> &mut Elsewhere<H> {
        self.elsewhere.get_or_insert_with(|| {
            Box::new(Elsewhere { others_first: None, in_store: InStore::default() })
        })
    }

    fn others_first(&self) -> Option<OthersFirst> {
        self.elsewhere.as_ref()?.others_first
    }

    /// True if other processes go first, now or at a later release.
    fn lets_others_first(&self, now: Instant) -> bool {
        self.others_first().is_some_and(|others| !others.is_over(now))
    }

    /// How many tasks of this process are in the store's queue.
    fn in_store(&self) -> usize {
        self.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.in_store.len())
    }

    fn holder_remaining(&self) -> Option<Duration> {
        let told = self.told.as_ref().filter(|told| told.failing.is_none())?;
        Some(told.holder_ends?.saturating_duration_since(Instant::now()))
    }

    /// What a caller is told that does not wait for its turn; `None` if only the store's next answer tells.
    // The store may be down, and the lock free: a task that asks must not be taken for a holder (S-33).
    fn refuse(&self, waits_for: WaitsFor, kind: HoldKind) -> Option<Admission<H>> {
        match (&self.mode, self.failing()) {
            // A reader is in nobody's way but a writer's.
            _ if self.is_held() && kind != HoldKind::Read => {
                Some(Admission::Busy(BusyReason::Held))
            }
            // It counts as a hold of this process until the store has answered, and the caller does not wait for that.
            (Mode::Leaving { held: true, .. }, _) if waits_for == WaitsFor::Answer => {
                Some(Admission::Busy(BusyReason::Held))
            }
            (_, Some((_, error))) => Some(Admission::Failing(error.clone())),
            _ => None,
        }
    }

    /// The waiter that the store is asked for. The caller drops it after the unlock (invariant 3).
    fn asked(&self) -> Option<Arc<Waiter<H>>> {
        match &self.mode {
            Mode::Asking(waiter) => waiter.upgrade(),
            _ => None,
        }
    }

    /// True if the waiter is in the queue, or the store is asked for it with another seat than that.
    fn serves(&self, waiter: &Waiter<H>, but: Option<u64>) -> bool {
        // By address, which no other waiter can have: the weak reference keeps the memory, if not the waiter.
        let is_it = |its: &Weak<Waiter<H>>| std::ptr::eq(its.as_ptr(), waiter);
        self.queue.contains_key(&waiter.number)
            || matches!(&self.mode, Mode::Asking(its) if is_it(its) && Some(self.seat) != but)
            || self.elsewhere.as_ref().is_some_and(|it| it.in_store.has(&is_it, but))
    }

    /// Has the wait end at the store's next answer. Returns the waiter whose task is to ask now, for after the unlock.
    fn end_at_answer(&mut self, waiter: &Waiter<H>) -> Option<Arc<Waiter<H>>> {
        if !waiter.ends_at_answer.swap(true, Ordering::Relaxed) {
            self.told().end_at_answer += 1;
        }
        let asked = self.asked()?;
        asked.needs_answer();
        Some(asked)
    }

    /// Removes the waiters that end at an answer. Readers share what they are granted, so one that came after the request `asked_at`
    /// then is not answered by it.
    // The waiters are told after the unlock. Until then they are in no queue; a waiter that comes meanwhile was not there when
    // the store answered, and is counted for the next answer.
    fn take_answered(&mut self, asked_at: Option<Instant>) -> Answered<H> {
        let ends = |waiter: &Waiter<H>| {
            waiter.ends_at_answer.load(Ordering::Relaxed)
                && asked_at.is_none_or(|asked_at| waiter.since <= asked_at)
        };
        let awaited = self.told.as_ref().map_or(0, |told| told.end_at_answer);
        let waiters = if awaited == 0 { Vec::new() } else { self.take_waiters(ends) };
        // The others came after the request, and need another one.
        let left = match asked_at {
            Some(_) if awaited > 0 => {
                let ends = |waiter: &&Arc<Waiter<H>>| waiter.ends_at_answer.load(Ordering::Relaxed);
                self.queue.values().filter(ends).count()
            }
            _ => 0,
        };
        if let Some(told) = &mut self.told {
            told.end_at_answer = left;
        }
        let asked = self.asked();
        // Under the mutex, as `end_at_answer` counts under it: a waiter that comes later asks for an answer anew.
        match &asked {
            Some(asked) if left == 0 => asked.has_answer(),
            Some(asked) => asked.needs_answer(),
            None => {}
        }
        Answered { waiters, asked }
    }

    fn take_waiters(&mut self, which: impl Fn(&Waiter<H>) -> bool) -> Vec<Arc<Waiter<H>>> {
        self.queue.extract_if(.., |_, waiter| which(waiter)).map(|(_, waiter)| waiter).collect()
    }

    /// Records that the store has answered.
    fn note_answer(&mut self, asked_at: Option<Instant>) -> Answered<H> {
        let answered = self.take_answered(asked_at);
        // Only waiters read what it has said.
        if let Some(told) = &mut self.told {
            (told.failing, told.holder_ends) = (None, None);
        }
        if !self.queue.is_empty() || answered.asked.is_some() {
            self.told().answered_at = Some(Instant::now());
        }
        answered
    }

    /// The first waiter, if it came `before` then and wants these terms, or fewer replicas.
    fn pop_if(&mut self, terms: Terms, before: Option<Instant>) -> Option<Arc<Waiter<H>>> {
        let (_, first) = self.queue.first_key_value()?;
        if before.is_some_and(|before| first.since >= before) {
            return None;
        }
        // Only the front: a waiter further behind that wants the same would overtake. More replicas than it wants do no harm.
        let will_do = first.terms.lease == terms.lease && first.terms.replicas <= terms.replicas;
        will_do.then(|| self.queue.pop_first()).flatten().map(|(_, waiter)| waiter)
    }
}

/// Waiters that were taken out of the queue because the store has answered, and the one that it was asked for.
#[must_use = "tell them, after the unlock"]
struct Answered<H> {
    waiters: Vec<Arc<Waiter<H>>>,
    /// Here, so that it is dropped after the unlock (invariant 3).
    asked: Option<Arc<Waiter<H>>>,
}

impl<H> Answered<H> {
    fn tell(self, queues: &Queues<H>, turn: impl Fn() -> Turn<H>) {
        queues.tell(self.waiters, turn);
    }
}

impl<H> Queues<H> {
    /// Tells waiters that were taken out of the queue how their wait has ended. Not under a shard's mutex.
    // They are in no queue since the unlock, so no other task gives them anything; one that has left meanwhile refuses the turn.
    fn tell(&self, waiters: Vec<Arc<Waiter<H>>>, turn: impl Fn() -> Turn<H>) {
        if !waiters.is_empty() {
            self.waiting.fetch_sub(waiters.len(), Ordering::Relaxed);
            waiters.into_iter().for_each(|waiter| waiter.give(turn()));
        }
    }
}
