//! The [liveness](crate::liveness) of re-entries: one that is not polled delays the others for at most a
//! second.
//!
//! A re-entry that is inside and asks the store, and a waiter in the queue, give signs of life. Waiters pass
//! over those that give none: see [`State::pass_over`].

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::{Claim, Hold, Reentries, ReentryGuard, Standing, State};
use crate::liveness::{self, ASLEEP_AFTER, SIGN_OF_LIFE, is_asleep};

/// Releases what the store may have granted to a future that is not polled.
type ReleaseGrant = Box<dyn FnOnce() + Send>;

/// A re-entry that is inside and not a guard yet.
pub(super) struct Asking {
    polled_at: Instant,
    release_grant: Option<ReleaseGrant>,
}

/// Work for after the mutex is unlocked (invariant 4).
#[must_use]
#[derive(Default)]
pub(super) struct Afterwards {
    passed_over: Vec<Asking>,
    called: Vec<Waker>,
}

impl Afterwards {
    pub(super) fn finish(self) {
        self.passed_over.into_iter().filter_map(|asking| asking.release_grant).for_each(|it| it());
        self.called.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Passes over futures that are not polled and for which the first `behind` waiters, or a caller with that
    /// claim, wait: futures that have asked the store for longer than a second, and waiters whose turn came as
    /// long ago. Waiters whose turn comes thereby and that are not polled either are passed over with them, so
    /// that many cost one second in all.
    pub(super) fn pass_over(
        &mut self,
        claim: Option<&Claim>,
        behind: usize,
        now: Instant,
    ) -> Afterwards {
        let mut afterwards = Afterwards::default();
        let mut any = false;
        for earlier in &mut self.queue[..behind] {
            if matches!(earlier.standing, Standing::Called(since) if is_asleep(since, now)) {
                earlier.standing = Standing::PassedOver;
                any = true;
            }
        }
        let mut place = 0;
        while let Some(inside) = self.inside.get(place) {
            let asleep = inside.asking.as_ref().is_some_and(|it| is_asleep(it.polled_at, now));
            let in_the_way = || {
                let waiting = self.queue[..behind].iter().map(|waiter| &waiter.claim);
                waiting.chain(claim).any(|claim| claim.conflicts(&inside.claim))
            };
            if asleep && in_the_way() {
                afterwards.passed_over.extend(self.inside.remove(place).asking);
                any = true;
            } else {
                place += 1;
            }
        }
        while any {
            afterwards.called.extend(self.call(now));
            any = false;
            for earlier in &mut self.queue[..behind] {
                let called = matches!(earlier.standing, Standing::Called(_));
                if called && is_asleep(earlier.polled_at, now) {
                    earlier.standing = Standing::PassedOver;
                    any = true;
                }
            }
        }
        afterwards
    }

    /// Returns when the waiter at this place next checks for one to pass over, and gives a sign of life.
    pub(super) fn next_look(&self, place: usize, now: Instant) -> Instant {
        let called = self.queue[..place].iter().filter_map(|earlier| match earlier.standing {
            Standing::Called(since) => Some(since),
            Standing::Waits | Standing::PassedOver => None,
        });
        let asking =
            self.inside.iter().filter_map(|inside| Some(inside.asking.as_ref()?.polled_at));
        let over =
            called.chain(asking).map(|since| since + ASLEEP_AFTER).filter(|over| *over > now);
        over.min().unwrap_or(now + ASLEEP_AFTER).min(now + SIGN_OF_LIFE)
    }
}

impl ReentryGuard {
    /// Drives `asking`, which asks the store on behalf of this re-entry: see [`drive`].
    pub(crate) fn drive<F: Future>(
        &self,
        asking: F,
    ) -> impl Future<Output = Option<F::Output>> + use<F> {
        drive(Arc::clone(&self.kept), self.id, asking)
    }

    /// Sets the callback that releases what the store grants from now on, if this re-entry is passed over.
    pub(crate) fn on_passed_over(&self, release_grant: impl FnOnce() + Send + 'static) {
        if self.id == 0 {
            return;
        }
        let mut release_grant: Option<ReleaseGrant> = Some(Box::new(release_grant));
        let mut state = self.kept.reentries.lock();
        let inside = state.inside.iter_mut().find(|inside| inside.id == self.id);
        if let Some(asking) = inside.and_then(|inside| inside.asking.as_mut()) {
            std::mem::swap(&mut asking.release_grant, &mut release_grant);
        }
        // The old one is dropped after the unlock (invariant 4).
        drop(state);
    }
}

/// Drives `asking`, which asks the store on behalf of the re-entry of that number, which is inside `hold`.
/// `None` once others went inside because it was not polled: it then queues again, and what the store granted
/// to it is released.
pub(crate) async fn drive<F: Future>(hold: Arc<Hold>, id: u64, asking: F) -> Option<F::Output> {
    if id == 0 {
        // It excludes no other re-entry, so none passes it over.
        return Some(asking.await);
    }
    let reentries = &hold.reentries;
    if !reentries.sign_of_life(id, true) {
        return None;
    }
    let sign_of_life = |_| reentries.sign_of_life(id, true);
    let answer = liveness::drive(SIGN_OF_LIFE, sign_of_life, asking).await;
    answer.filter(|_| reentries.sign_of_life(id, false))
}

impl Reentries {
    /// Records a sign of life of a re-entry that is inside, and `asks` the store or has the answer. With the
    /// answer it cannot be passed over any more. False if it was.
    fn sign_of_life(&self, id: u64, asks: bool) -> bool {
        let mut state = self.lock();
        let Some(inside) = state.inside.iter_mut().find(|inside| inside.id == id) else {
            return false;
        };
        let mut release_grant = inside.asking.take().and_then(|before| before.release_grant);
        if asks {
            let release_grant = release_grant.take();
            inside.asking = Some(Asking { polled_at: Instant::now(), release_grant });
        }
        // The rest of it is dropped after the unlock (invariant 4).
        drop(state);
        true
    }
}
