//! Who in this process waits for which key (S-14).
//!
//! A key has one gate per client. Whoever is inside owns its [`Seat`]: the right to contend for the
//! key in the store, and later the place of the holder. Everybody else lines up outside, first in
//! first out, so that one contender per key and process goes to the store, however many tasks wait.
//!
//! # Invariants
//!
//! 1. A gate is in the map exactly while its seat exists or others are to go first; a line forms
//!    only behind an existing seat.
//! 2. A seat is never lost: dropping it, wherever it is, lets the next in line in. A turn that was
//!    given to a waiter who is gone comes back as a dropped seat or payload (S-17).
//! 3. A line is served from the front, and leaving it takes effect at once.
//! 4. Nothing foreign runs under a shard's mutex: payloads and wakers are dropped or called after it
//!    is unlocked, because they come back here.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{BusyReason, StoreError};
use crate::options::Lease;
use crate::store::Target;

/// Number of maps that keys are spread over.
const SHARDS: usize = 32;

/// Most fencing tokens reserved with one acquire, hence most local hand-offs in a row (S-14).
pub(crate) const MAX_TOKEN_BLOCK: u32 = 256;

/// All gates of one client. `H` is what is handed over with a hold.
pub(crate) struct Gates<H> {
    shards: Box<[Mutex<Shard<H>>]>,
    waiting: AtomicUsize,
    max_waiting: usize,
    next_waiter: AtomicU64,
    closed: AtomicBool,
}

struct Shard<H> {
    gates: HashMap<Arc<Target>, Gate<H>, BuildHasherDefault<Hashed>>,
    /// Gates without a seat, kept only for their `others_first`, are swept at this size.
    sweep_at: usize,
}

/// Passes on the hash that a [`Target`] brings along.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// Not called for targets; still a hash if it were.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
    }
}

struct Gate<H> {
    seat: SeatState,
    line: BTreeMap<u64, Waiter<H>>,
    /// Until when other processes may go first, if they were waiting at the last release.
    others_first: Option<Instant>,
    /// Since when the store has been failing whoever has the seat, and how.
    failing: Option<(Instant, StoreError)>,
    /// How many hand-offs the holds of this gate have used of late: what the next may use.
    appetite: u32,
    /// Who contends side by side, in no line of ours: the store keeps one (S-26).
    beside: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeatState {
    Free,
    /// Contending or holding.
    Taken,
    /// The hold is being given back; whoever asks now can expect an answer in one round trip.
    Leaving,
}

struct Waiter<H> {
    since: Instant,
    lease: Lease,
    turn: oneshot::Sender<Turn<H>>,
}

/// What a waiter gets when it comes to the front.
pub(crate) enum Turn<H> {
    /// The right to contend in the store.
    Contend(Seat<H>),
    /// A hold, with everything that belongs to it.
    Handed(H),
    /// The end of the wait: the store has been failing for as long as is put up with.
    Failed(StoreError),
}

/// What [`Gates::enter`] answers.
pub(crate) enum Entry<H> {
    /// Nobody is in the way here.
    Turn(Seat<H>),
    /// There is a line and this is the place in it.
    Line(Ticket<H>),
    /// Not admitted.
    Busy(BusyReason),
    /// The client is shut down.
    Closed,
}

impl<H> Gates<H> {
    pub(crate) fn new(max_waiting: usize) -> Arc<Self> {
        let shard = || Mutex::new(Shard { gates: HashMap::default(), sweep_at: 64 });
        Arc::new(Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            waiting: AtomicUsize::new(0),
            max_waiting,
            next_waiter: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// Takes the free seat, or a place in line if `may_wait`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        target: &Arc<Target>,
        lease: Lease,
        max_line: usize,
        may_wait: bool,
    ) -> Entry<H> {
        let mut shard = self.shard(target);
        // Checked under the lock, so that nobody lines up behind `close`.
        if self.closed.load(Ordering::SeqCst) {
            return Entry::Closed;
        }
        let Some(gate) = shard.gates.get_mut(&**target) else {
            shard.sweep();
            shard.gates.insert(Arc::clone(target), Gate::taken());
            return Entry::Turn(self.seat(target));
        };
        if gate.seat == SeatState::Free {
            gate.seat = SeatState::Taken;
            return Entry::Turn(self.seat(target));
        }
        let next_in_line = gate.line.is_empty() && gate.seat == SeatState::Leaving;
        if !may_wait && !next_in_line {
            return Entry::Busy(BusyReason::Held);
        }
        let full = self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
        if gate.line.len() >= max_line || full {
            return Entry::Busy(BusyReason::TooManyWaiters);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let number = self.next_waiter.fetch_add(1, Ordering::Relaxed);
        let (turn, ticket) = oneshot::channel();
        gate.line.insert(number, Waiter { since: Instant::now(), lease, turn });
        Entry::Line(Ticket {
            gates: Arc::clone(self),
            target: Arc::clone(target),
            number: Some(number),
            turn: ticket,
        })
    }

    /// How the store has been failing whoever has the seat, if it has.
    pub(crate) fn failing(&self, target: &Target) -> Option<StoreError> {
        let shard = self.shard(target);
        shard.gates.get(target).and_then(|gate| gate.failing.as_ref()).map(|(_, e)| e.clone())
    }

    /// Sends everybody in line away; whoever comes later is sent away too.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for shard in &self.shards {
            let mut lines = Vec::new();
            for gate in lock(shard).gates.values_mut() {
                lines.push(std::mem::take(&mut gate.line));
            }
            self.waiting.fetch_sub(lines.iter().map(BTreeMap::len).sum(), Ordering::Relaxed);
        }
    }

    /// Lets in a contender who lines up in the store and not here, if there is room (S-18).
    pub(crate) fn enter_beside(self: &Arc<Self>, target: &Arc<Target>, max: usize) -> Entry<H> {
        let mut shard = self.shard(target);
        if self.closed.load(Ordering::SeqCst) {
            return Entry::Closed;
        }
        let others = shard.gates.get(&**target).map_or(0, |gate| gate.beside);
        if others > max || self.waiting.load(Ordering::Relaxed) >= self.max_waiting {
            return Entry::Busy(BusyReason::TooManyWaiters);
        }
        let gate = shard
            .gates
            .entry(Arc::clone(target))
            .or_insert_with(|| Gate { seat: SeatState::Free, ..Gate::taken() });
        gate.beside += 1;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let inside = Some((Arc::clone(self), Arc::clone(target)));
        Entry::Turn(Seat { inside, beside: true })
    }

    fn seat(self: &Arc<Self>, target: &Arc<Target>) -> Seat<H> {
        Seat { inside: Some((Arc::clone(self), Arc::clone(target))), beside: false }
    }

    fn leave_beside(&self, target: &Target) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut shard = self.shard(target);
        let Some(gate) = shard.gates.get_mut(target) else { return };
        gate.beside -= 1;
        if gate.beside == 0 && gate.seat == SeatState::Free {
            shard.gates.remove(target);
        }
    }

    fn shard(&self, target: &Target) -> MutexGuard<'_, Shard<H>> {
        // The upper half: the maps inside go by the lower bits.
        let upper = (target.hashed() >> 32) as usize;
        lock(&self.shards[upper % SHARDS])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H> Shard<H> {
    fn sweep(&mut self) {
        if self.gates.len() < self.sweep_at {
            return;
        }
        let now = Instant::now();
        self.gates.retain(|_, gate| {
            gate.seat != SeatState::Free
                || gate.beside > 0
                || gate.others_first.is_some_and(|until| until > now)
        });
        self.sweep_at = (self.gates.len() * 2).max(64);
    }
}

impl<H> Gate<H> {
    fn taken() -> Self {
        Self {
            seat: SeatState::Taken,
            line: BTreeMap::new(),
            others_first: None,
            failing: None,
            appetite: 0,
            beside: 0,
        }
    }

    /// The first in line, if just this lease will do.
    fn pop_if(&mut self, lease: Lease) -> Option<Waiter<H>> {
        let first = self.line.first_entry()?;
        (first.get().lease == lease).then(|| first.remove())
    }
}

/// The place inside a gate. Dropping it lets the next in line in.
pub(crate) struct Seat<H> {
    /// Empty once the seat has been passed on, or if there is no gate around it.
    inside: Option<(Arc<Gates<H>>, Arc<Target>)>,
    /// True for one of several contenders side by side.
    beside: bool,
}

impl<H> Seat<H> {
    /// A seat at no gate: what it is good for concerns nobody else.
    pub(crate) fn apart() -> Self {
        Self { inside: None, beside: false }
    }

    /// How many fencing tokens to reserve: what the line can use (S-23).
    ///
    /// The line's length alone says too little when the same tasks come back at once, so a gate
    /// whose last holds were handed on more often gets twice that.
    pub(crate) fn tokens_wanted(&self) -> u32 {
        self.with(|gate| {
            let line = u32::try_from(gate.line.len()).unwrap_or(MAX_TOKEN_BLOCK);
            if line == 0 {
                return 1;
            }
            line.max(gate.appetite.saturating_mul(2)).saturating_add(1).min(MAX_TOKEN_BLOCK)
        })
        .unwrap_or(1)
    }

    /// Since when the store has been failing, also for those who had the seat before.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.with(|gate| gate.failing.as_ref().map(|(since, _)| *since)).flatten()
    }

    /// Notes that the store has answered.
    pub(crate) fn answered(&self) {
        self.with(|gate| gate.failing = None);
    }

    /// Notes that the store has failed, and ends the wait of everybody in line who has put up with
    /// that for `patience`: each has its own, not one after the other (S-33).
    pub(crate) fn failed(&self, error: &StoreError, patience: Duration) {
        let now = Instant::now();
        let overdue = self.with(|gate| {
            let since = gate.failing.take().map_or(now, |(since, _)| since);
            gate.failing = Some((since, error.clone()));
            let overdue =
                |_: &u64, waiter: &mut Waiter<H>| now >= waiter.since.max(since) + patience;
            gate.line.extract_if(.., overdue).map(|(_, waiter)| waiter).collect::<Vec<_>>()
        });
        let (Some(overdue), Some((gates, _))) = (overdue, &self.inside) else { return };
        gates.waiting.fetch_sub(overdue.len(), Ordering::Relaxed);
        for waiter in overdue {
            let _ = waiter.turn.send(Turn::Failed(error.clone()));
        }
    }

    /// Notes how many hand-offs a hold came to.
    pub(crate) fn note_handoffs(&self, handoffs: u32) {
        self.with(|gate| gate.appetite = handoffs);
    }

    /// Until when other processes may go first; asked once.
    pub(crate) fn take_others_first(&self) -> Option<Instant> {
        self.with(|gate| gate.others_first.take()).flatten().filter(|until| *until > Instant::now())
    }

    /// Tells newcomers that the hold is being given back.
    pub(crate) fn leaving(&self) {
        self.with(|gate| gate.seat = SeatState::Leaving);
    }

    /// Gives the seat to the first in line who wants just this lease, with what `make` makes of it.
    ///
    /// # Errors
    ///
    /// The seat, if nobody is in line or the first wants another lease.
    pub(crate) fn hand_off(self, lease: Lease, make: impl FnOnce(Self) -> H) -> Result<(), Self> {
        let Some(waiter) = self.with(|gate| gate.pop_if(lease)).flatten() else {
            return Err(self);
        };
        if let Some((gates, _)) = &self.inside {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // If the waiter has just gone, the payload is dropped here and finds the next one
        // (invariant 2), as a guard does.
        let _ = waiter.turn.send(Turn::Handed(make(self)));
        Ok(())
    }

    /// Leaves. `others_first` gives other processes that long before this one contends again.
    pub(crate) fn leave(mut self, others_first: Option<Duration>) {
        self.pass(others_first.map(|head_start| Instant::now() + head_start));
    }

    fn pass(&mut self, others_first: Option<Instant>) {
        let Some((gates, target)) = self.inside.take() else { return };
        if self.beside {
            return gates.leave_beside(&target);
        }
        let next = {
            let mut shard = gates.shard(&target);
            let Some(gate) = shard.gates.get_mut(&*target) else { return };
            gate.others_first = others_first;
            let next = gate.line.pop_first();
            gate.seat = if next.is_some() { SeatState::Taken } else { SeatState::Free };
            if next.is_none() && others_first.is_none() {
                shard.gates.remove(&*target);
            }
            next
        };
        if let Some((_, waiter)) = next {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
            let seat = Self { inside: Some((gates, target)), beside: false };
            // Refused by a waiter who has just gone: dropping the seat lets the next one in.
            let _ = waiter.turn.send(Turn::Contend(seat));
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Gate<H>) -> T) -> Option<T> {
        let (gates, target) = self.inside.as_ref().filter(|_| !self.beside)?;
        gates.shard(target).gates.get_mut(&**target).map(f)
    }
}

impl<H> Drop for Seat<H> {
    fn drop(&mut self) {
        self.pass(None);
    }
}

impl<H> fmt::Debug for Seat<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

/// A place in line: resolves to the turn, or to `None` when the client shuts down. Dropping it
/// leaves the line at once.
pub(crate) struct Ticket<H> {
    gates: Arc<Gates<H>>,
    target: Arc<Target>,
    /// Empty once the turn has come.
    number: Option<u64>,
    turn: oneshot::Receiver<Turn<H>>,
}

impl<H> Future for Ticket<H> {
    type Output = Option<Turn<H>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let turn = ready!(Pin::new(&mut self.turn).poll(cx));
        self.number = None;
        Poll::Ready(turn.ok())
    }
}

impl<H> Drop for Ticket<H> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let left = {
            let mut shard = self.gates.shard(&self.target);
            shard.gates.get_mut(&*self.target).and_then(|gate| gate.line.remove(&number))
        };
        if left.is_some() {
            self.gates.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // Otherwise the turn is on its way and comes back with `self.turn` (invariant 2).
    }
}
