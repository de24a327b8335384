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

mod beside;
mod others_first;
mod seat;
mod ticket;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::others_first::OthersFirst;
pub(crate) use self::others_first::head_start;
pub(crate) use self::seat::Seat;
pub(crate) use self::ticket::{Ticket, Turn};
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
    pub(crate) max_waiting: usize,
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
    /// What the last hold leaves to other processes, if they were waiting when it was released.
    others_first: Option<OthersFirst>,
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
    /// How many replicas are to know of its hold (S-31).
    replicas: u32,
    turn: oneshot::Sender<Turn<H>>,
}

/// Whom to line up behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    Anybody,
    /// One release that is under way: it is over in a round trip.
    ARelease,
    Nobody,
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

    /// Takes the free seat, or a place in line behind whom it may be.
    pub(crate) fn enter(
        self: &Arc<Self>,
        target: &Arc<Target>,
        lease: Lease,
        max_line: usize,
        behind: Behind,
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
        let may_wait = match behind {
            Behind::Anybody => true,
            Behind::ARelease => gate.line.is_empty() && gate.seat == SeatState::Leaving,
            Behind::Nobody => false,
        };
        if !may_wait {
            return Entry::Busy(BusyReason::Held);
        }
        let full = self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
        if gate.line.len() >= max_line || full {
            return Entry::Busy(BusyReason::TooManyWaiters);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let number = self.next_waiter.fetch_add(1, Ordering::Relaxed);
        let (turn, ticket) = oneshot::channel();
        let replicas = target.replicas().map_or(0, |replicas| replicas.at_least);
        gate.line.insert(number, Waiter { since: Instant::now(), lease, replicas, turn });
        Entry::Line(Ticket::new(Arc::clone(self), Arc::clone(target), number, ticket))
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

    fn seat(self: &Arc<Self>, target: &Arc<Target>) -> Seat<H> {
        Seat { inside: Some((Arc::clone(self), Arc::clone(target))), beside: false, outside: false }
    }

    /// Holds back whoever asks the store next from here (S-14).
    fn let_others_first(&self, target: &Arc<Target>, others_first: OthersFirst) {
        let mut shard = self.shard(target);
        shard.sweep();
        let free = || Gate { seat: SeatState::Free, ..Gate::taken() };
        shard.gates.entry(Arc::clone(target)).or_insert_with(free).others_first =
            Some(others_first);
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
                || gate.others_first.is_some_and(|others| !others.is_over(now))
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

    /// The first in line, if just this lease will do, and so many replicas.
    fn pop_if(&mut self, lease: Lease, replicas: u32) -> Option<Waiter<H>> {
        let first = self.line.first_entry()?;
        let will_do = first.get().lease == lease && first.get().replicas <= replicas;
        will_do.then(|| first.remove())
    }
}
