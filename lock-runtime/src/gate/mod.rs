//! The local queue of each key: first in, first out.
//!
//! A key has one gate per client. One task, the contender, owns the [`GateGuard`]: the right to contend for the
//! key in the store, and later the place of the holder. All other tasks wait in the queue, so one contender per
//! key and process asks the store, however many tasks wait. For those that do not wait, see [`answer`].
//!
//! A future that is not polled delays the others for a second: see [`life`].
//!
//! # Invariants
//!
//! 1. A gate is in the map exactly while its gate guard exists, unqueued contenders use it, or other processes
//!    go first. A queue forms only behind an existing gate guard.
//! 2. A gate guard is never lost: dropping it, wherever it is, admits the next waiter. If a waiter leaves with
//!    its turn, the turn comes back as a dropped gate guard or a dropped hold.
//! 3. A queue is served from the front, and leaving it takes effect at once. A waiter that was passed over is
//!    in no queue until it is polled; then it has its old place.
//! 4. No foreign code runs under a shard's mutex: holds and wakers are dropped or called after the unlock,
//!    because they call the gate. Only a newcomer's waker is cloned there, before anything has changed.
//! 5. A gate has one valid gate guard. Earlier gate guards change nothing.
// S-14, S-34, S-17.

mod answer;
mod guard;
mod life;
mod others_first;
mod shard;
mod ticket;
mod tokens;
mod unqueued;
mod waiter;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

pub(crate) use self::answer::{AnswerSince, NextAnswer, StoreAnswer};
use self::answer::{Answers, wake_up};
pub(crate) use self::guard::{GateGuard, GuardId, NextHolder};
use self::others_first::OthersFirst;
pub(crate) use self::others_first::head_start;
use self::shard::Shard;
pub(crate) use self::ticket::Ticket;
use self::tokens::Tokens;
pub(crate) use self::tokens::TokensUsed;
use self::unqueued::Elsewhere;
pub(crate) use self::unqueued::Sleeper;
use self::waiter::Waiter;
pub(crate) use self::waiter::{Kept, Turn};
use crate::error::{BusyReason, StoreError};
use crate::options::Lease;
use crate::store::{HoldNumber, OwnerId, Target};
use crate::waits::{Asker, WaitEntry};

/// Number of maps that keys are spread over.
const SHARDS: usize = 32;

/// All gates of one client. `H` is the payload that is handed over with a hold.
pub(crate) struct Gates<H> {
    shards: Box<[Mutex<Shard<H>>]>,
    /// Shared with the gates of multi locks that use this client.
    waiting: Arc<AtomicUsize>,
    max_waiting: usize,
    closed: AtomicBool,
}

struct Gate<H> {
    gate_guard: GateState<H>,
    /// The number of the valid gate guard (invariant 5).
    guard_number: u64,
    /// The waiters, by their numbers.
    queue: BTreeMap<u64, Queued<H>>,
    /// The owner with which the contender asks the store. If the contender is passed over, what that owner was
    /// granted is released.
    // S-34.
    asking: Option<HoldNumber>,
    /// What few gates need: the others are created and removed faster without the room for it.
    told: Option<Box<Told>>,
    /// The same, for gates where tasks of other processes matter.
    elsewhere: Option<Box<Elsewhere>>,
    tokens: Tokens,
}

/// What the store has told the contenders of a gate.
#[derive(Default)]
struct Told {
    /// Since when the store has failed, and its last error.
    failing: Option<(Instant, StoreError)>,
    /// When the holder's lease ends, by the store's last answer.
    holder_ends: Option<Instant>,
    answers: Answers,
}

enum GateState<H> {
    Free,
    /// A contender has it, and has not had to wait for the store yet.
    Taken,
    /// A waiter was given its turn, and may not have been polled since.
    Given(Given<H>),
    /// A contender waits for the store.
    Contending {
        polled_at: Instant,
    },
    /// The holder has it, so callers need not ask the store for the holder.
    Holding,
    /// The hold, or what the contender may have been granted, is being released: the store's answer comes in
    /// one round trip.
    Leaving {
        /// True if a hold is being released.
        held: bool,
        /// When a waiter first saw the release.
        since: Option<Instant>,
    },
}

struct Given<H> {
    /// Weak, because a waiter keeps its caller's scope, which may own a client. If the gate kept the waiter last, it would drop
    /// that client under the shard's mutex (invariant 4).
    to: Weak<Waiter<H>>,
    /// True if the waiter was handed a hold.
    held: bool,
    /// When the waiter last gave a sign of life.
    polled_at: Instant,
}

struct Queued<H> {
    waiter: Arc<Waiter<H>>,
    /// When it last gave a sign of life.
    polled_at: Instant,
}

/// What a caller is ready to wait for at a gate that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Its turn, behind other waiters.
    Turn,
    /// A release that is under way, which takes one round trip.
    Release,
    Nothing,
}

/// Answer of [`Gates::enter`].
pub(crate) enum Admission<H> {
    /// The gate was free.
    Turn(GateGuard<H>),
    /// A place in the queue.
    Queued(Ticket<H>),
    /// Not admitted.
    Busy(BusyReason),
    /// Whether the lock is free is unknown. Resolves with the store's next answer to the contender or to the
    /// task that releases.
    Unknown(NextAnswer),
    /// The store fails.
    Failing(StoreError),
    /// The client is shut down.
    Closed,
}

impl<H> Gates<H> {
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        Self::counting(max_waiting, Arc::default())
    }

    /// Creates more gates of the same client: their waiters count together.
    pub(crate) fn more(&self) -> Arc<Self> {
        Self::counting(self.max_waiting, Arc::clone(&self.waiting))
    }

    fn counting(max_waiting: usize, waiting: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            waiting,
            max_waiting,
            closed: AtomicBool::new(false),
        })
    }

    /// Takes the gate guard if the gate is free, otherwise a place in the queue if `waits_for` allows it. A waiter
    /// that was passed over has its old place `passed_over`, and was already admitted. `newcomer` says who asks, and what
    /// time it is.
    pub(crate) fn enter(
        self: &Arc<Self>,
        target: &Arc<Target>,
        lease: Lease,
        max_queue: usize,
        waits_for: WaitsFor,
        passed_over: Option<u64>,
        newcomer: impl FnOnce() -> (Asker, Instant),
    ) -> Admission<H> {
        let mut shard = self.shard(target);
        // Checked under the mutex, so that no waiter queues after `close`.
        if self.closed.load(Ordering::SeqCst) {
            return Admission::Closed;
        }
        let number = shard.next_number();
        let place = passed_over.unwrap_or(number);
        let gate = match shard.gates.get_mut(&**target) {
            Some(gate) if !gate.is_free() => gate,
            _ => {
                shard.create_guard(target, number);
                return Admission::Turn(self.gate_guard(target, number, place));
            }
        };
        let may_wait = match waits_for {
            WaitsFor::Turn => true,
            WaitsFor::Release => {
                gate.queue.is_empty() && matches!(gate.gate_guard, GateState::Leaving { .. })
            }
            WaitsFor::Nothing => false,
        };
        if !may_wait {
            let (admission, contender) = gate.refuse(waits_for);
            drop(shard);
            wake_up(contender);
            return admission;
        }
        let max_queue = passed_over.is_none().then_some(max_queue);
        let newcomer = || {
            let (asker, now) = newcomer();
            (asker, now, None)
        };
        self.queue(gate, target, lease, max_queue, place, newcomer)
    }

    /// As [`enter`](Self::enter), for a newcomer that waits for its turn, and whose task the turn wakes. If the key has no
    /// gate, it asks the store as `owner` now.
    pub(crate) fn enter_first(
        self: &Arc<Self>,
        target: &Arc<Target>,
        lease: Lease,
        max_queue: usize,
        owner: impl FnOnce() -> OwnerId,
        newcomer: impl FnOnce() -> (Asker, Waker),
        now: Instant,
    ) -> Result<(GateGuard<H>, OwnerId), Admission<H>> {
        let mut shard = self.shard(target);
        if self.closed.load(Ordering::SeqCst) {
            return Err(Admission::Closed);
        }
        let number = shard.next_number();
        match shard.gates.get_mut(&**target) {
            None => {
                let owner = owner();
                shard.create_contender(target, number, &owner, now);
                Ok((self.gate_guard(target, number, number), owner))
            }
            Some(gate) if gate.is_free() => {
                gate.take(number);
                Err(Admission::Turn(self.gate_guard(target, number, number)))
            }
            Some(gate) => {
                let newcomer = || {
                    let (asker, waker) = newcomer();
                    (asker, now, Some(waker))
                };
                Err(self.queue(gate, target, lease, Some(max_queue), number, newcomer))
            }
        }
    }

    /// Takes the gate guard for a contender that asks the store as `owner` now. `None` if the key has a gate already: a
    /// task uses it, or other processes go first.
    pub(crate) fn enter_unused(
        self: &Arc<Self>,
        target: &Arc<Target>,
        owner: impl FnOnce() -> OwnerId,
        now: Instant,
    ) -> Option<(GateGuard<H>, OwnerId)> {
        let mut shard = self.shard(target);
        if shard.gates.contains_key(&**target) || self.closed.load(Ordering::SeqCst) {
            return None;
        }
        let (number, owner) = (shard.next_number(), owner());
        shard.create_contender(target, number, &owner, now);
        drop(shard);
        Some((self.gate_guard(target, number, number), owner))
    }

    /// Takes a place in the queue, if that is shorter than `max_queue` and the client has room, or the caller was admitted
    /// before.
    fn queue(
        self: &Arc<Self>,
        gate: &mut Gate<H>,
        target: &Arc<Target>,
        lease: Lease,
        max_queue: Option<usize>,
        place: u64,
        newcomer: impl FnOnce() -> (Asker, Instant, Option<Waker>),
    ) -> Admission<H> {
        let is_full = || self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
        if max_queue.is_some_and(|most| gate.queue.len() >= most || is_full()) {
            return Admission::Busy(BusyReason::TooManyWaiters);
        }
        let replicas = target.replicas().map_or(0, |replicas| replicas.acks);
        let (asker, now, waker) = newcomer();
        let waiter = Arc::new(Waiter::new(place, now, lease, replicas, asker, waker));
        self.enqueue(gate, &waiter, now);
        Admission::Queued(Ticket::new(Arc::clone(self), Arc::clone(target), waiter))
    }

    fn enqueue(&self, gate: &mut Gate<H>, waiter: &Arc<Waiter<H>>, now: Instant) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        gate.queue.insert(waiter.number, Queued { waiter: Arc::clone(waiter), polled_at: now });
    }

    /// Since when the store has failed the contender, and its last error.
    pub(crate) fn failing(&self, target: &Target) -> Option<(Instant, StoreError)> {
        self.shard(target).gates.get(target)?.failing().cloned()
    }

    /// True if a task contends for the key or holds it.
    pub(crate) fn is_in_use(&self, target: &Target) -> bool {
        self.shard(target).gates.get(target).is_some_and(|gate| !gate.is_free())
    }

    /// When the holder's lease ends, by the store's last answer to the contender.
    pub(crate) fn holder_ends(&self, target: &Target) -> Option<Instant> {
        self.shard(target).gates.get(target)?.told.as_ref()?.holder_ends
    }

    /// Calls `visit` with each waiter in a queue. It must not wait, drop a hold or call the gate.
    pub(crate) fn visit_waits(&self, visit: &mut dyn FnMut(&WaitEntry)) {
        for shard in &self.shards {
            for (target, gate) in &shard.lock().gates {
                for (place, queued) in gate.queue.values().enumerate() {
                    let Waiter { since, asker, .. } = &*queued.waiter;
                    let (target, asker) = (Arc::clone(target), asker.clone());
                    visit(&WaitEntry { target, since: *since, asker, place: Some(place) });
                }
            }
        }
    }

    /// Ends all queues, and refuses new callers.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for shard in &self.shards {
            let (mut queues, mut answers, mut turns) = (Vec::new(), Vec::new(), Vec::new());
            for gate in shard.lock().gates.values_mut() {
                queues.push(std::mem::take(&mut gate.queue));
                answers.push(gate.told.take());
                // A waiter that is not polled would keep its hold for the lease.
                if let GateState::Given(Given { to, .. }) = &gate.gate_guard {
                    turns.extend(to.upgrade().map(|waiter| (waiter.take_back(), waiter)));
                }
            }
            self.waiting.fetch_sub(queues.iter().map(BTreeMap::len).sum(), Ordering::Relaxed);
            queues.into_iter().flat_map(BTreeMap::into_values).for_each(|queued| {
                queued.waiter.give(Turn::Closed);
            });
            for (turn, waiter) in turns {
                drop(turn);
                // A waiter whose turn was taken back waits for nothing else that would wake it. If it looks at this moment, only
                // one of the two finds that it was passed over.
                if waiter.comes_back() {
                    waiter.give(Turn::Closed);
                }
            }
        }
    }

    fn gate_guard(self: &Arc<Self>, target: &Arc<Target>, number: u64, place: u64) -> GateGuard<H> {
        GateGuard::new(Arc::clone(self), Arc::clone(target), number, place)
    }

    /// Delays the next contender of this process, so that other processes go first.
    // S-14.
    fn let_others_first(&self, target: &Arc<Target>, others_first: OthersFirst) {
        let mut shard = self.shard(target);
        shard.sweep();
        let gate = shard.gates.entry(Arc::clone(target)).or_insert_with(Gate::free);
        gate.elsewhere().others_first = Some(others_first);
    }

    fn shard(&self, target: &Target) -> MutexGuard<'_, Shard<H>> {
        // The upper half: the maps inside use the lower bits.
        let upper = (target.hashed() >> 32) as usize;
        self.shards[upper % SHARDS].lock()
    }
}

impl<H> Gate<H> {
    fn free() -> Self {
        Self {
            gate_guard: GateState::Free,
            guard_number: 0,
            queue: BTreeMap::new(),
            asking: None,
            told: None,
            elsewhere: None,
            tokens: Tokens::new(),
        }
    }

    fn is_free(&self) -> bool {
        matches!(self.gate_guard, GateState::Free)
    }

    fn failing(&self) -> Option<&(Instant, StoreError)> {
        self.told.as_ref()?.failing.as_ref()
    }

    fn told(&mut self) -> &mut Told {
        self.told.get_or_insert_default()
    }

    fn take(&mut self, number: u64) {
        self.gate_guard = GateState::Taken;
        self.guard_number = number;
        self.asking = None;
    }

    /// True if a task of this process holds the lock, or was handed it.
    fn is_held(&self) -> bool {
        matches!(self.gate_guard, GateState::Holding | GateState::Given(Given { held: true, .. }))
    }

    /// Removes the first waiter from the queue and gives it the turn, with a hold if it is `held`.
    fn pop(&mut self, held: bool) -> Option<Arc<Waiter<H>>> {
        let (_, Queued { waiter, polled_at }) = self.queue.pop_first()?;
        self.asking = None;
        self.gate_guard = GateState::Given(Given { to: Arc::downgrade(&waiter), held, polled_at });
        Some(waiter)
    }

    /// As [`pop`](Self::pop) with a hold, if the first waiter wants this lease and at most `replicas` replicas.
    fn pop_if(&mut self, lease: Lease, replicas: u32) -> Option<Arc<Waiter<H>>> {
        let (_, Queued { waiter, .. }) = self.queue.first_key_value()?;
        let will_do = waiter.lease == lease && waiter.replicas <= replicas;
        will_do.then(|| self.pop(true)).flatten()
    }
}
