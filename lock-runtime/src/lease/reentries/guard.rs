//! [`ReentryGuard`]: a place among the re-entries of a hold.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use tokio::time::{Instant, sleep_until};

use super::life::Afterwards;
use super::{Claim, Enclosing, Hold, Inside, Obstacle, Standing, Waiter};
use crate::store::HoldKind;

/// What a [`ReentryGuard`] keeps alive: the hold alone, or something that has it.
pub(crate) trait KeepsHold: Clone {
    fn hold(&self) -> &Arc<Hold>;
}

impl KeepsHold for Arc<Hold> {
    fn hold(&self) -> &Self {
        self
    }
}

/// A guard of a place inside a hold, or in its queue. Dropping it admits the next waiter.
pub(crate) struct ReentryGuard<K: KeepsHold = Arc<Hold>> {
    pub(super) kept: K,
    /// Zero if it excludes no other re-entry.
    pub(super) id: u64,
}

impl<K: KeepsHold> ReentryGuard<K> {
    /// A place that excludes no other re-entry.
    pub(crate) fn shared(kept: &K) -> Self {
        Self { kept: kept.clone(), id: 0 }
    }

    /// Goes inside at once.
    ///
    /// # Errors
    ///
    /// The [`Obstacle`].
    pub(crate) fn enter(
        kept: &K,
        claim: Claim,
        enclosing: &Enclosing<'_>,
    ) -> Result<Self, Obstacle> {
        let hold = kept.hold();
        if hold.target.kind() == HoldKind::Read {
            // A re-entry of a read is a read.
            return Ok(Self::shared(kept));
        }
        let reentries = &hold.reentries;
        if let Claim::Whole = claim
            && let Some(id) = reentries.enter_alone()
        {
            return Ok(Self { kept: kept.clone(), id });
        }
        let mut state = reentries.lock();
        let mut passed_over = Afterwards::default();
        let parent = match state.obvious_parent(enclosing) {
            Some(parent) => Ok(parent),
            None => {
                let around = state.around(enclosing);
                let mut obstacle = state.obstacle(&claim, &around);
                if obstacle.is_some() {
                    let behind = state.queue.len();
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
        entered.map(|id| Self { kept: kept.clone(), id })
    }

    /// The same place, and what it keeps alive from now on.
    pub(crate) fn keeping<L: KeepsHold>(mut self, kept: &L) -> ReentryGuard<L> {
        ReentryGuard { kept: kept.clone(), id: std::mem::take(&mut self.id) }
    }

    pub(crate) fn kept(&self) -> &K {
        &self.kept
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.kept.hold()
    }

    /// Its number among the re-entries of its hold; zero if it excludes none.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl ReentryGuard {
    /// Queues; [`turn`](Self::turn) waits. `None` if the queue is full.
    pub(crate) fn enqueue(
        hold: &Arc<Hold>,
        claim: Claim,
        enclosing: &Enclosing<'_>,
        max: usize,
    ) -> Option<Self> {
        let mut state = hold.reentries.lock();
        if state.queue.len() >= max {
            return None;
        }
        let id = state.next_id();
        let around = state.around(enclosing);
        let (standing, polled_at) = (Standing::Waits, Instant::now());
        let waker = Waker::noop().clone();
        state.queue.push(Waiter { id, claim, around, standing, polled_at, waker });
        drop(state);
        Some(Self { kept: Arc::clone(hold), id })
    }

    /// Waits until it is inside. False once the hold is `over`, which is checked regularly.
    pub(crate) async fn turn(&self, over: impl Fn() -> bool) -> bool {
        let mut timer = pin!(sleep_until(Instant::now()));
        poll_fn(|cx| {
            loop {
                if over() {
                    return Poll::Ready(false);
                }
                let Some(look) = self.kept.reentries.poll_turn(self.id, cx.waker()) else {
                    return Poll::Ready(true);
                };
                timer.as_mut().reset(look);
                ready!(timer.as_mut().poll(cx));
            }
        })
        .await
    }
}

impl<K: KeepsHold> Drop for ReentryGuard<K> {
    fn drop(&mut self) {
        if self.id != 0 {
            self.hold().reentries.leave(self.id);
        }
    }
}
