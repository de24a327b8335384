//! Going inside a hold, and [`ReentryGuard`]: a place among its re-entries.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use tokio::time::{Instant, sleep_until};

use super::life::Afterwards;
use super::{Claim, Enclosing, Hold, Inside, Obstacle, Reentries, Standing, Waiter};
use crate::store::HoldKind;

/// Goes inside a hold at once. Returns the number of the re-entry, which its caller lets [leave](Reentries::leave); zero if it
/// excludes no other.
///
/// # Errors
///
/// The [`Obstacle`].
#[inline]
pub(crate) fn go_inside(
    hold: &Hold,
    claim: Claim,
    enclosing: &Enclosing<'_>,
) -> Result<u64, Obstacle> {
    if hold.target.kind() == HoldKind::Read {
        // A re-entry of a read is a read.
        return Ok(0);
    }
    if let Claim::Whole = claim
        && let Some(id) = hold.reentries.enter_alone()
    {
        return Ok(id);
    }
    go_into_crowd(&hold.reentries, claim, enclosing)
}

#[inline(never)]
fn go_into_crowd(
    reentries: &Reentries,
    claim: Claim,
    enclosing: &Enclosing<'_>,
) -> Result<u64, Obstacle> {
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
    entered
}

/// A guard of a place inside a hold, or in its queue. Dropping it admits the next waiter.
pub(crate) struct ReentryGuard {
    pub(super) kept: Arc<Hold>,
    /// Zero if it excludes no other re-entry.
    pub(super) id: u64,
}

impl ReentryGuard {
    /// A guard of the place that [`go_inside`] has returned.
    pub(crate) fn of(hold: &Arc<Hold>, id: u64) -> Self {
        Self { kept: Arc::clone(hold), id }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.kept
    }

    /// Its number among the re-entries of its hold; zero if it excludes none.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of a place that the caller leaves from now on.
    pub(crate) fn into_id(mut self) -> u64 {
        std::mem::take(&mut self.id)
    }

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

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        if self.id != 0 {
            self.kept.reentries.leave(self.id);
        }
    }
}
