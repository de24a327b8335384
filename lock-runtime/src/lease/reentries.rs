//! Which re-entries are inside one hold (S-6): side by side one at a time, in order.
//!
//! A re-entry is a guard on a hold that encloses the caller. Re-entries exclude each other inside the
//! hold as they would without it: one is *inside*, the others wait in line. Reads share, and so do
//! different locks of a multi lock. A re-entry never waits for one that is *around* it.
//!
//! A waiter is told that its turn has come, and goes inside when it is polled. One that is not polled
//! for [`TURN`] is passed over, and lines up again when it is polled (S-34).
//!
//! # Invariants
//!
//! 1. Of two re-entries inside that conflict, one is around the other.
//! 2. A waiter stands behind every earlier one that it conflicts with, unless that one may be waiting
//!    for a re-entry around the later one.
//! 3. Leaving, from inside or from the line, tells the waiters whose turn it then is (S-17).
//! 4. Wakers are called after the mutex is unlocked: they may come back here.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Hold;
use crate::store::{LockKind, Target};

/// How long a turn waits for its waiter to be polled (S-34).
const TURN: Duration = Duration::from_secs(1);

/// What a re-entry uses of the hold around it.
#[derive(Clone)]
pub(crate) enum Claim {
    /// The hold's only lock, as a reader.
    Read,
    /// The hold's only lock.
    Whole,
    /// Some locks of a multi lock. The number is the id of the keeper that has those that do not say.
    Part(Arc<Target>, u64),
}

impl Claim {
    /// What `wanted`, a lock of the keeper with the id `mine`, uses of a hold of `held`.
    pub(crate) fn of(wanted: &Arc<Target>, mine: u64, held: &Target) -> Self {
        if !held.members().is_empty() {
            Self::Part(Arc::clone(wanted), mine)
        } else if reads(wanted) {
            Self::Read
        } else {
            Self::Whole
        }
    }

    fn reads(&self) -> bool {
        match self {
            Self::Read => true,
            Self::Whole => false,
            Self::Part(target, _) => reads(target),
        }
    }

    fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => false,
            (Self::Part(one, mine), Self::Part(two, theirs)) => {
                one.locks_at_home(*mine).any(|(home, lock)| {
                    two.locks_at_home(*theirs).any(|(of, other)| {
                        let share = lock.kind() == LockKind::Read && other.kind() == LockKind::Read;
                        of == home && other.key() == lock.key() && !share
                    })
                })
            }
            _ => true,
        }
    }
}

fn reads(target: &Target) -> bool {
    target.locks().all(|lock| lock.kind() == LockKind::Read)
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
#[derive(Default)]
pub(super) struct Reentries(Mutex<State>);

#[derive(Default)]
struct State {
    last_id: u64,
    /// The usual case is one at a time, which allocates nothing.
    first: Option<Inside>,
    others: Vec<Inside>,
    line: Vec<Waiter>,
}

struct Inside {
    id: u64,
    claim: Claim,
}

struct Waiter {
    id: u64,
    claim: Claim,
    /// The re-entries around it.
    around: Vec<u64>,
    standing: Standing,
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
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes inside if that is the waiter's turn; else says when to look again.
    fn poll_turn(&self, id: u64, waker: &Waker) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        // A waiter that is not in line any more is inside.
        let place = state.line_up_again(id, now)?;
        state.line[place].waker.clone_from(waker);
        let Waiter { claim, around, .. } = &state.line[place];
        if state.has_to_wait(claim, &|id| around.contains(&id), place) {
            return Some(state.next_look(place, now));
        }
        let waiter = state.line.remove(place);
        state.take(waiter.id, waiter.claim);
        // Others may share with it.
        let called = state.call(now);
        drop(state);
        called.into_iter().for_each(Waker::wake);
        None
    }

    fn leave(&self, id: u64) {
        let mut state = self.lock();
        state.remove(id);
        if state.line.is_empty() {
            return;
        }
        let called = state.call(Instant::now());
        drop(state);
        called.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn inside(&self) -> impl Iterator<Item = &Inside> {
        self.first.iter().chain(&self.others)
    }

    fn take(&mut self, id: u64, claim: Claim) {
        let inside = Inside { id, claim };
        match self.first {
            None => self.first = Some(inside),
            Some(_) => self.others.push(inside),
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn remove(&mut self, id: u64) {
        if self.first.take_if(|inside| inside.id == id).is_some() {
            return;
        }
        self.others.retain(|inside| inside.id != id);
        self.line.retain(|waiter| waiter.id != id);
    }

    /// True if it waits for one that is inside, or for one of the first `behind` in line.
    fn has_to_wait(&self, claim: &Claim, is_around: &dyn Fn(u64) -> bool, behind: usize) -> bool {
        let in_the_way = |inside: &Inside| inside.claim.conflicts(claim) && !is_around(inside.id);
        // What a waiter has around it, it does not wait for, and so not for what is around both.
        let goes_first = |waiter: &Waiter| {
            waiter.standing != Standing::PassedOver
                && waiter.claim.conflicts(claim)
                && self.inside().all(|it| !is_around(it.id) || waiter.around.contains(&it.id))
        };
        self.inside().any(in_the_way) || self.line[..behind].iter().any(goes_first)
    }

    fn obstacle(&self, claim: &Claim, is_around: &dyn Fn(u64) -> bool) -> Option<Obstacle> {
        if !self.has_to_wait(claim, is_around, self.line.len()) {
            return None;
        }
        let read = |around| {
            let in_the_way = |it: &&Inside| it.claim.reads() && it.claim.conflicts(claim);
            self.inside().filter(in_the_way).any(|it| is_around(it.id) == around)
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
        for earlier in &mut self.line[..place] {
            if matches!(earlier.standing, Standing::Called(since) if now >= since + TURN) {
                earlier.standing = Standing::PassedOver;
            }
        }
        Some(place)
    }

    /// When a waiter at this place looks for one to pass over.
    fn next_look(&self, place: usize, now: Instant) -> Instant {
        let called = self.line[..place].iter().filter_map(|earlier| match earlier.standing {
            Standing::Called(since) => Some(since),
            Standing::Waits | Standing::PassedOver => None,
        });
        called.min().unwrap_or(now) + TURN
    }

    /// Notes whose turn it is, and returns how to tell them.
    fn call(&mut self, now: Instant) -> Vec<Waker> {
        let mut called = Vec::new();
        for place in 0..self.line.len() {
            let Waiter { claim, around, standing, waker, .. } = &self.line[place];
            if *standing == Standing::Waits
                && !self.has_to_wait(claim, &|id| around.contains(&id), place)
            {
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
        is_around: impl Fn(u64) -> bool,
    ) -> Result<Self, Obstacle> {
        if hold.target.kind() == LockKind::Read {
            // What is inside of a read can only read.
            return Ok(Self::shared(hold));
        }
        let mut state = hold.reentries.lock();
        if let Some(obstacle) = state.obstacle(&claim, &is_around) {
            return Err(obstacle);
        }
        let id = state.next_id();
        state.take(id, claim);
        drop(state);
        Ok(Self { hold: Arc::clone(hold), id })
    }

    /// Lines up; [`turn`](Self::turn) waits. `None` if so many are in line already.
    pub(crate) fn line_up(
        hold: &Arc<Hold>,
        claim: Claim,
        is_around: impl Fn(u64) -> bool,
        max: usize,
    ) -> Option<Self> {
        let mut state = hold.reentries.lock();
        if state.line.len() >= max {
            return None;
        }
        let id = state.next_id();
        let around = state.inside().map(|it| it.id).filter(|id| is_around(*id)).collect();
        let (standing, waker) = (Standing::Waits, Waker::noop().clone());
        state.line.push(Waiter { id, claim, around, standing, waker });
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

impl fmt::Debug for ReentryGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentryGuard").field("id", &self.id).finish_non_exhaustive()
    }
}
