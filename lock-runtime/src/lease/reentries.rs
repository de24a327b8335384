//! The queue of re-entries inside one hold.
//!
//! A re-entry is a guard on a hold that encloses the caller. Concurrent re-entries exclude each other as they
//! would without the hold: one is *inside*, the others wait in the queue. Reads share, and so do different
//! locks of a multi lock. A re-entry never waits for a re-entry *around* it: one that encloses it, or that was
//! around an enclosing one when the enclosing one went inside.
//!
//! A waiter is woken when its turn has come, and goes inside when it is polled. A waiter that is not polled for
//! [`ASLEEP_AFTER`](crate::liveness::ASLEEP_AFTER) is passed over, and queues again when it is polled. The same
//! applies to a re-entry that is inside and asks the store: see [`life`].
//!
//! # Invariants
//!
//! 1. Of two re-entries inside that conflict, one is around the other.
//! 2. A waiter waits for every earlier waiter that it conflicts with, unless the earlier one may be waiting
//!    for a re-entry around the later one.
//! 3. A re-entry that leaves, from inside or from the queue, wakes the waiters whose turn has come.
//! 4. Wakers and callbacks that release a grant are called and dropped after the mutex is unlocked: they may
//!    call this module.

mod guard;
mod life;

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::time::Instant;

pub(crate) use self::guard::{ReentryGuard, go_inside};
use self::life::Asking;
pub(crate) use self::life::drive;
use super::Hold;
use super::claim::Claim;

/// Calls its argument with each re-entry of the hold that encloses the caller, the innermost first, until the
/// argument returns true.
pub(crate) type Enclosing<'a> = dyn Fn(&mut dyn FnMut(u64) -> bool) + 'a;

fn is_innermost(enclosing: &Enclosing<'_>, is_it: impl Fn(u64) -> bool) -> bool {
    let mut innermost = false;
    enclosing(&mut |id| {
        innermost = is_it(id);
        true
    });
    innermost
}

/// Why a re-entry does not go inside at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It has to wait until other re-entries leave.
    Others,
    /// It is inside a read and wants to write, and so may a concurrent read: they would wait for each other.
    Reads,
}

/// The re-entries inside one hold, and those in its queue.
///
/// The usual case, one re-entry alone that uses the whole hold, needs only the word: the re-entry's number
/// minus one, shifted over the mark bits. All other cases are in the crowd, behind the mutex.
#[derive(Default)]
pub(super) struct Reentries {
    word: AtomicU64,
    /// Made for the first crowd.
    crowd: Mutex<Option<Box<State>>>,
}

/// Mark of a word: one re-entry is inside, alone. Without a mark, none is.
const ALONE: u64 = 1;
/// Mark of a word: the state is in the crowd. Set and removed only under the mutex.
const CROWD: u64 = 2;
const MARKS: u64 = ALONE | CROWD;
const SHIFT: u32 = 2;

#[derive(Default)]
struct State {
    last_id: u64,
    /// In the order in which they went inside.
    inside: Vec<Inside>,
    queue: Vec<Waiter>,
}

struct Inside {
    id: u64,
    /// The innermost re-entry around it; zero for none.
    parent: u64,
    claim: Claim,
    /// Set while it asks the store; `None` once it is a guard, or about to become one.
    asking: Option<Asking>,
}

impl Inside {
    fn new(id: u64, parent: u64, claim: Claim) -> Self {
        Self { id, parent, claim, asking: None }
    }
}

struct Waiter {
    id: u64,
    claim: Claim,
    /// The re-entries around it.
    around: Vec<u64>,
    standing: Standing,
    /// When it last gave a sign of life.
    polled_at: Instant,
    waker: Waker,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waits,
    /// Woken at that time because its turn has come, and not polled since.
    Called(Instant),
    /// No waiter waits for it. It queues again when it is polled.
    PassedOver,
}

impl Reentries {
    /// Goes inside if no re-entry is there.
    #[inline]
    fn enter_alone(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Relaxed);
        let (order, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        (word & MARKS == 0 && self.word.compare_exchange(word, word | ALONE, order, failed).is_ok())
            .then_some((word >> SHIFT) + 1)
    }

    /// Leaves if this re-entry was alone. False if it was not.
    #[inline]
    fn leave_alone(&self, id: u64) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let (order, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        word == (id - 1) << SHIFT | ALONE
            && self.word.compare_exchange(word, id << SHIFT, order, failed).is_ok()
    }

    /// True if the re-entry of that number is inside.
    pub(super) fn is_inside(&self, id: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        match word & MARKS {
            0 => false,
            ALONE => (word >> SHIFT) + 1 == id,
            _ => {
                let crowd = self.crowd.lock();
                crowd.iter().flat_map(|crowd| &crowd.inside).any(|inside| inside.id == id)
            }
        }
    }

    /// True if a re-entry is inside or in the queue.
    pub(super) fn any(&self) -> bool {
        self.word.load(Ordering::Acquire) & MARKS != 0
    }

    /// Locks the crowd, and moves the re-entry that was alone into it.
    fn lock(&self) -> MappedMutexGuard<'_, State> {
        let crowd = self.crowd.lock();
        let mut crowd = MutexGuard::map(crowd, |crowd| &mut **crowd.get_or_insert_default());
        let before = self.word.fetch_or(CROWD, Ordering::SeqCst);
        if before & CROWD == 0 {
            crowd.last_id = before >> SHIFT;
            if before & ALONE != 0 {
                let id = crowd.next_id();
                crowd.inside.push(Inside::new(id, 0, Claim::Whole));
            }
        }
        crowd
    }

    /// Goes inside if it is the waiter's turn; otherwise returns when to look again.
    fn poll_turn(&self, id: u64, waker: &Waker) -> Option<Instant> {
        let now = Instant::now();
        let _old_waker;
        let mut state = self.lock();
        // A waiter that is not in the queue any more is inside.
        let place = state.requeue(id, now)?;
        let its = &mut state.queue[place].waker;
        _old_waker = (!its.will_wake(waker)).then(|| std::mem::replace(its, waker.clone()));
        let passed_over = state.pass_over(None, place + 1, now);
        let Waiter { claim, around, .. } = &state.queue[place];
        if state.has_to_wait(claim, around, place) {
            let look = state.next_look(place, now);
            drop(state);
            passed_over.finish();
            return Some(look);
        }
        let waiter = state.queue.remove(place);
        let parent = state.last_of(&waiter.around);
        state.inside.push(Inside::new(waiter.id, parent, waiter.claim));
        // Others may share with it.
        let called = state.call(now);
        drop(state);
        passed_over.finish();
        called.into_iter().for_each(Waker::wake);
        None
    }

    /// Removes a re-entry, which is inside or in the queue.
    #[inline]
    pub(super) fn leave(&self, id: u64) {
        if !self.leave_alone(id) {
            self.leave_crowd(id);
        }
    }

    #[inline(never)]
    fn leave_crowd(&self, id: u64) {
        let mut state = self.lock();
        let _removed = state.remove(id);
        if state.queue.is_empty() {
            if state.inside.is_empty() {
                self.word.store(state.last_id << SHIFT, Ordering::SeqCst);
            }
            drop(state);
            return;
        }
        let called = state.call(Instant::now());
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Returns the re-entries around a caller, given those that enclose it.
    fn around(&self, enclosing: &Enclosing<'_>) -> Vec<u64> {
        let mut around = Vec::new();
        let add = |around: &mut Vec<u64>, id| {
            if !around.contains(&id) && self.inside.iter().any(|it| it.id == id) {
                around.push(id);
            }
        };
        enclosing(&mut |id| {
            add(&mut around, id);
            false
        });
        let mut next = 0;
        while let Some(id) = around.get(next) {
            let parent = self.inside.iter().find(|it| it.id == *id).map_or(0, |it| it.parent);
            add(&mut around, parent);
            next += 1;
        }
        around
    }

    fn last_of(&self, around: &[u64]) -> u64 {
        self.inside.iter().rev().find(|it| around.contains(&it.id)).map_or(0, |it| it.id)
    }

    /// Returns the parent of a caller that goes inside at once, if that is clear without a list: no re-entry is
    /// inside, or the last one encloses the caller and excludes every re-entry that is not around it.
    fn obvious_parent(&self, enclosing: &Enclosing<'_>) -> Option<u64> {
        if !self.queue.is_empty() {
            return None;
        }
        let Some(last) = self.inside.last() else { return Some(0) };
        let is_last = |id| id == last.id;
        let encloses = matches!(last.claim, Claim::Whole) && is_innermost(enclosing, is_last);
        encloses.then_some(last.id)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the removed re-entry or waiter, to be dropped after the mutex is unlocked (invariant 4).
    fn remove(&mut self, id: u64) -> (Option<Inside>, Option<Waiter>) {
        let Some(at) = self.inside.iter().position(|inside| inside.id == id) else {
            let at = self.queue.iter().position(|waiter| waiter.id == id);
            return (None, at.map(|at| self.queue.remove(at)));
        };
        let left = self.inside.remove(at);
        for orphan in self.inside.iter_mut().filter(|inside| inside.parent == id) {
            orphan.parent = left.parent;
        }
        (Some(left), None)
    }

    /// True if a re-entry with this claim waits for one that is inside, or for one of the first `behind`
    /// waiters.
    fn has_to_wait(&self, claim: &Claim, around: &[u64], behind: usize) -> bool {
        let in_the_way = |it: &Inside| it.claim.conflicts(claim) && !around.contains(&it.id);
        // A waiter does not wait for re-entries around it. If all those around this one are also around the
        // waiter, the waiter does not wait for this one.
        let goes_first = |waiter: &Waiter| {
            let all_around = || self.inside.iter().filter(|it| around.contains(&it.id));
            waiter.standing != Standing::PassedOver
                && waiter.claim.conflicts(claim)
                && all_around().all(|it| waiter.around.contains(&it.id))
        };
        self.inside.iter().any(in_the_way) || self.queue[..behind].iter().any(goes_first)
    }

    fn obstacle(&self, claim: &Claim, around: &[u64]) -> Option<Obstacle> {
        if !self.has_to_wait(claim, around, self.queue.len()) {
            return None;
        }
        let read = |is_around| {
            let in_the_way = |it: &&Inside| it.claim.reads() && it.claim.conflicts(claim);
            self.inside.iter().filter(in_the_way).any(|it| around.contains(&it.id) == is_around)
        };
        Some(if read(true) && read(false) { Obstacle::Reads } else { Obstacle::Others })
    }

    /// Returns the waiter's place in the queue now that it is polled.
    fn requeue(&mut self, id: u64, now: Instant) -> Option<usize> {
        let mut place = self.queue.iter().position(|waiter| waiter.id == id)?;
        if self.queue[place].standing == Standing::PassedOver {
            let waiter = self.queue.remove(place);
            place = self.queue.len();
            self.queue.push(waiter);
        }
        self.queue[place].standing = Standing::Waits;
        self.queue[place].polled_at = now;
        Some(place)
    }

    /// Marks the waiters whose turn has come, and returns their wakers.
    fn call(&mut self, now: Instant) -> Vec<Waker> {
        let mut called = Vec::new();
        for place in 0..self.queue.len() {
            let Waiter { claim, around, standing, waker, .. } = &self.queue[place];
            if *standing == Standing::Waits && !self.has_to_wait(claim, around, place) {
                called.push(waker.clone());
                self.queue[place].standing = Standing::Called(now);
            }
        }
        called
    }
}
