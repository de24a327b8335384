//! Which re-entries are inside one hold: side by side one at a time, in order.
//!
//! A re-entry is a guard on a hold that encloses the caller. Re-entries exclude each other inside the
//! hold as they would without it: one is *inside*, the others wait in line. Reads share, and so do
//! different locks of a multi lock. A re-entry never waits for one that is *around* it: one that
//! encloses it, or was around one that does when that went inside.
//!
//! A waiter is told that its turn has come, and goes inside when it is polled. One that is not polled
//! for [`ASLEEP_AFTER`](crate::liveness::ASLEEP_AFTER) is passed over, and lines up again when it is polled; so is one that is inside and asks
//! the store: see [`life`].
//!
//! # Invariants
//!
//! 1. Of two re-entries inside that conflict, one is around the other.
//! 2. A waiter stands behind every earlier one that it conflicts with, unless that one may be waiting
//!    for a re-entry around the later one.
//! 3. Leaving, from inside or from the line, tells the waiters whose turn it then is.
//! 4. Wakers and what gives a grant back are called after the mutex is unlocked: they may come back here.

mod life;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker, ready};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::life::drive;
use self::life::{Afterwards, Asking};
use super::Hold;
use super::claim::Claim;
use crate::store::HoldKind;

/// Calls the function it is given with the re-entries of the hold that enclose the caller, from the
/// innermost on, until that returns true.
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
    /// It waits for others to leave.
    Others,
    /// It is inside a read and wants to write beside another read, which may want the same.
    Reads,
}

/// The re-entries inside one hold, and those in line.
///
/// One that is alone and takes the whole hold, the usual case, is only in the word: its number less one,
/// above one of the two marks. Everything else is in the crowd, behind the mutex.
#[derive(Default)]
pub(super) struct Reentries {
    word: AtomicU64,
    crowd: Mutex<State>,
}

/// Mark of a word: one is inside, alone. With neither mark, nobody is.
const ALONE: u64 = 1;
/// Mark of a word: look behind the mutex. Set and removed under the mutex only.
const CROWD: u64 = 2;
const MARKS: u64 = ALONE | CROWD;

#[derive(Default)]
struct State {
    last_id: u64,
    /// In the order in which they came.
    inside: Vec<Inside>,
    line: Vec<Waiter>,
}

struct Inside {
    id: u64,
    /// The last that is around it; zero for none.
    parent: u64,
    claim: Claim,
    /// None once it is a guard, or about to be.
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
    /// Told then that its turn has come, and not polled since.
    Called(Instant),
    /// Nobody waits for it. Lines up again when it is polled.
    PassedOver,
}

impl Reentries {
    /// Goes inside if nobody is there.
    fn enter_alone(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Relaxed);
        (word & MARKS == 0
            && self
                .word
                .compare_exchange(word, word | ALONE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok())
        .then_some((word >> 2) + 1)
    }

    /// True if this one was alone, and has left.
    fn leave_alone(&self, id: u64) -> bool {
        let (word, free) = ((id - 1) << 2 | ALONE, id << 2);
        self.word.compare_exchange(word, free, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// True if the re-entry of that number is inside.
    pub(super) fn is_inside(&self, id: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        match word & MARKS {
            0 => false,
            ALONE => (word >> 2) + 1 == id,
            _ => {
                let crowd = self.crowd.lock();
                crowd.inside.iter().any(|inside| inside.id == id)
            }
        }
    }

    /// True if a re-entry is inside or in line.
    pub(super) fn any(&self) -> bool {
        self.word.load(Ordering::Acquire) & MARKS != 0
    }

    /// The crowd, with whoever was alone.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut crowd = self.crowd.lock();
        let before = self.word.fetch_or(CROWD, Ordering::AcqRel);
        if before & CROWD == 0 {
            crowd.last_id = before >> 2;
            if before & ALONE != 0 {
                let id = crowd.next_id();
                crowd.inside.push(Inside::new(id, 0, Claim::Whole));
            }
        }
        crowd
    }

    /// Goes inside if that is the waiter's turn; else says when to look again.
    fn poll_turn(&self, id: u64, waker: &Waker) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        // A waiter that is not in line any more is inside.
        let place = state.line_up_again(id, now)?;
        state.line[place].waker.clone_from(waker);
        let passed_over = state.pass_over(None, place + 1, now);
        let Waiter { claim, around, .. } = &state.line[place];
        if state.has_to_wait(claim, around, place) {
            let look = state.next_look(place, now);
            drop(state);
            passed_over.finish();
            return Some(look);
        }
        let waiter = state.line.remove(place);
        let parent = state.last_of(&waiter.around);
        state.inside.push(Inside::new(waiter.id, parent, waiter.claim));
        // Others may share with it.
        let called = state.call(now);
        drop(state);
        passed_over.finish();
        called.into_iter().for_each(Waker::wake);
        None
    }

    fn leave(&self, id: u64) {
        if self.leave_alone(id) {
            return;
        }
        let mut state = self.lock();
        let _left = state.remove(id);
        if state.line.is_empty() {
            if state.inside.is_empty() {
                self.word.store(state.last_id << 2, Ordering::Release);
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
    /// What is around a caller, given those that enclose it.
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

    /// The parent of a caller that goes inside at once, where that is clear without a list: nobody is
    /// there, or the last to come encloses the caller and excludes all that are not around it.
    fn obvious_parent(&self, enclosing: &Enclosing<'_>) -> Option<u64> {
        if !self.line.is_empty() {
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

    /// Returns what was inside, to be dropped after the mutex is unlocked (invariant 4).
    fn remove(&mut self, id: u64) -> Option<Inside> {
        let Some(at) = self.inside.iter().position(|inside| inside.id == id) else {
            self.line.retain(|waiter| waiter.id != id);
            return None;
        };
        let left = self.inside.remove(at);
        for orphan in self.inside.iter_mut().filter(|inside| inside.parent == id) {
            orphan.parent = left.parent;
        }
        Some(left)
    }

    /// True if it waits for one that is inside, or for one of the first `behind` in line.
    fn has_to_wait(&self, claim: &Claim, around: &[u64], behind: usize) -> bool {
        let in_the_way = |it: &Inside| it.claim.conflicts(claim) && !around.contains(&it.id);
        // A waiter does not wait for what is around it. So if all that is around us is around it, too,
        // it does not wait for us.
        let goes_first = |waiter: &Waiter| {
            let all_around = || self.inside.iter().filter(|it| around.contains(&it.id));
            waiter.standing != Standing::PassedOver
                && waiter.claim.conflicts(claim)
                && all_around().all(|it| waiter.around.contains(&it.id))
        };
        self.inside.iter().any(in_the_way) || self.line[..behind].iter().any(goes_first)
    }

    fn obstacle(&self, claim: &Claim, around: &[u64]) -> Option<Obstacle> {
        if !self.has_to_wait(claim, around, self.line.len()) {
            return None;
        }
        let read = |is_around| {
            let in_the_way = |it: &&Inside| it.claim.reads() && it.claim.conflicts(claim);
            self.inside.iter().filter(in_the_way).any(|it| around.contains(&it.id) == is_around)
        };
        Some(if read(true) && read(false) { Obstacle::Reads } else { Obstacle::Others })
    }

    /// The waiter's place in line now that it is polled.
    fn line_up_again(&mut self, id: u64, now: Instant) -> Option<usize> {
        let mut place = self.line.iter().position(|waiter| waiter.id == id)?;
        if self.line[place].standing == Standing::PassedOver {
            let waiter = self.line.remove(place);
            place = self.line.len();
            self.line.push(waiter);
        }
        self.line[place].standing = Standing::Waits;
        self.line[place].polled_at = now;
        Some(place)
    }

    /// Notes whose turn it is, and returns how to tell them.
    fn call(&mut self, now: Instant) -> Vec<Waker> {
        let mut called = Vec::new();
        for place in 0..self.line.len() {
            let Waiter { claim, around, standing, waker, .. } = &self.line[place];
            if *standing == Standing::Waits && !self.has_to_wait(claim, around, place) {
                called.push(waker.clone());
                self.line[place].standing = Standing::Called(now);
            }
        }
        called
    }
}

/// A place inside a hold, or in the line for it. Dropping it lets the next in line in.
pub(crate) struct ReentryGuard {
    hold: Arc<Hold>,
    /// Zero if it keeps nobody out.
    id: u64,
}

impl ReentryGuard {
    /// A place that keeps nobody out.
    pub(crate) fn shared(hold: &Arc<Hold>) -> Self {
        Self { hold: Arc::clone(hold), id: 0 }
    }

    /// Goes inside at once.
    ///
    /// # Errors
    ///
    /// What is in the way.
    pub(crate) fn enter(
        hold: &Arc<Hold>,
        claim: Claim,
        enclosing: &Enclosing<'_>,
    ) -> Result<Self, Obstacle> {
        if hold.target.kind() == HoldKind::Read {
            // What is inside of a read can only read.
            return Ok(Self::shared(hold));
        }
        let reentries = &hold.reentries;
        if let Claim::Whole = claim
            && let Some(id) = reentries.enter_alone()
        {
            return Ok(Self { hold: Arc::clone(hold), id });
        }
        let mut state = reentries.lock();
        let mut passed_over = Afterwards::default();
        let parent = match state.obvious_parent(enclosing) {
            Some(parent) => Ok(parent),
            None => {
                let around = state.around(enclosing);
                let mut obstacle = state.obstacle(&claim, &around);
                if obstacle.is_some() {
                    let behind = state.line.len();
                    passed_over = state.pass_over(Some(&claim), behind, Instant::now());
                    obstacle = state.obstacle(&claim, &around);
                }
                obstacle.map_or_else(|| Ok(state.last_of(&around)), Err)
            }
        };
        let entered = parent.map(|parent| {
            let id = state.next_id();
            state.inside.push(Inside::new(id, parent, claim));
            id
        });
        drop(state);
        passed_over.finish();
        entered.map(|id| Self { hold: Arc::clone(hold), id })
    }

    /// Lines up; [`turn`](Self::turn) waits. `None` if so many are in line already.
    pub(crate) fn line_up(
        hold: &Arc<Hold>,
        claim: Claim,
        enclosing: &Enclosing<'_>,
        max: usize,
    ) -> Option<Self> {
        let mut state = hold.reentries.lock();
        if state.line.len() >= max {
            return None;
        }
        let id = state.next_id();
        let around = state.around(enclosing);
        let (standing, polled_at) = (Standing::Waits, Instant::now());
        let waker = Waker::noop().clone();
        state.line.push(Waiter { id, claim, around, standing, polled_at, waker });
        drop(state);
        Some(Self { hold: Arc::clone(hold), id })
    }

    /// Waits until it is inside. False if the hold is `over` before; asked now and then.
    pub(crate) async fn turn(&self, over: impl Fn() -> bool) -> bool {
        let mut timer = pin!(sleep_until(Instant::now()));
        poll_fn(|cx| {
            loop {
                if over() {
                    return Poll::Ready(false);
                }
                let Some(look) = self.hold.reentries.poll_turn(self.id, cx.waker()) else {
                    return Poll::Ready(true);
                };
                timer.as_mut().reset(look);
                ready!(timer.as_mut().poll(cx));
            }
        })
        .await
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Its number among those of its hold; zero if it keeps nobody out.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        if self.id != 0 {
            self.hold.reentries.leave(self.id);
        }
    }
}
