//! Signs of life of re-entries: one that nobody polls holds up those beside it for a second.
//!
//! A re-entry that is inside and still asks the store, and a waiter in line, prove every
//! [`SIGN_OF_LIFE`] that they are polled, by timers of their own. Those who wait measure: see
//! [`State::pass_over`].

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::{Claim, Hold, ReentryGuard, Standing, State, TURN};

/// How often a waiter, or a re-entry that asks the store, proves that it is polled.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// Gives back what the store may have granted to a future that is not polled.
type GiveBack = Box<dyn FnOnce() + Send>;

/// A re-entry that is inside and is no guard yet.
pub(super) struct Asking {
    polled_at: Instant,
    give_back: Option<GiveBack>,
}

/// What is to be done after the mutex is unlocked (invariant 4).
#[must_use]
#[derive(Default)]
pub(super) struct Afterwards {
    passed_over: Vec<Asking>,
    called: Vec<Waker>,
}

impl Afterwards {
    pub(super) fn finish(self) {
        self.passed_over.into_iter().filter_map(|asking| asking.give_back).for_each(|it| it());
        self.called.into_iter().for_each(Waker::wake);
    }
}

fn is_asleep(polled_at: Instant, now: Instant) -> bool {
    now >= polled_at + TURN
}

impl State {
    /// Passes over futures that are not polled and that the first `behind` in line wait for, or a caller
    /// with that claim: those who ask the store for longer than a second, and those whose turn has been
    /// there for as long. Those whose turn comes thereby and who are asleep as well go with them, so
    /// that many cost a second in all.
    pub(super) fn pass_over(
        &mut self,
        claim: Option<&Claim>,
        behind: usize,
        now: Instant,
    ) -> Afterwards {
        let mut afterwards = Afterwards::default();
        let mut any = false;
        for earlier in &mut self.line[..behind] {
            if matches!(earlier.standing, Standing::Called(since) if is_asleep(since, now)) {
                earlier.standing = Standing::PassedOver;
                any = true;
            }
        }
        let mut place = 0;
        while let Some(inside) = self.inside.get(place) {
            let asleep = inside.asking.as_ref().is_some_and(|it| is_asleep(it.polled_at, now));
            let in_the_way = || {
                let waiting = self.line[..behind].iter().map(|waiter| &waiter.claim);
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
            for earlier in &mut self.line[..behind] {
                let called = matches!(earlier.standing, Standing::Called(_));
                if called && is_asleep(earlier.polled_at, now) {
                    earlier.standing = Standing::PassedOver;
                    any = true;
                }
            }
        }
        afterwards
    }

    /// When a waiter at this place looks for one to pass over, and gives a sign of life.
    pub(super) fn next_look(&self, place: usize, now: Instant) -> Instant {
        let called = self.line[..place].iter().filter_map(|earlier| match earlier.standing {
            Standing::Called(since) => Some(since),
            Standing::Waits | Standing::PassedOver => None,
        });
        let asking =
            self.inside.iter().filter_map(|inside| Some(inside.asking.as_ref()?.polled_at));
        let over = called.chain(asking).map(|since| since + TURN).filter(|over| *over > now);
        over.min().unwrap_or(now + TURN).min(now + SIGN_OF_LIFE)
    }
}

impl ReentryGuard {
    /// How a caller asks the store on behalf of this re-entry, which is inside.
    pub(crate) fn asker(&self) -> Asker {
        Asker { hold: Arc::clone(&self.hold), id: self.id }
    }

    /// Has this give back what the store grants from now on, if this re-entry is passed over meanwhile.
    pub(crate) fn on_passed_over(&self, give_back: impl FnOnce() + Send + 'static) {
        if self.id == 0 {
            return;
        }
        let mut give_back: Option<GiveBack> = Some(Box::new(give_back));
        let mut state = self.hold.reentries.lock();
        let inside = state.inside.iter_mut().find(|inside| inside.id == self.id);
        if let Some(asking) = inside.and_then(|inside| inside.asking.as_mut()) {
            std::mem::swap(&mut asking.give_back, &mut give_back);
        }
        // The old one is dropped after the unlock (invariant 4).
        drop(state);
    }
}

/// Asks the store on behalf of a re-entry that is inside.
pub(crate) struct Asker {
    hold: Arc<Hold>,
    /// Zero if it keeps nobody out.
    id: u64,
}

impl Asker {
    /// Drives `asking`. None once others went inside because it was not polled: it is to line up again,
    /// and what it was granted is nobody's.
    pub(crate) async fn drive<F: Future>(self, asking: F) -> Option<F::Output> {
        let mut asking = pin!(asking);
        let mut timer = pin!(None::<Sleep>);
        poll_fn(|cx| {
            if !self.is_inside(true) {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = asking.as_mut().poll(cx) {
                return Poll::Ready(self.is_inside(false).then_some(output));
            }
            while timer.as_mut().as_pin_mut().is_none_or(|timer| timer.poll(cx).is_ready()) {
                timer.set(Some(sleep_until(Instant::now() + SIGN_OF_LIFE)));
            }
            Poll::Pending
        })
        .await
    }

    /// A sign of life, of one that is `asking` still or has the answer, and cannot be passed over any
    /// more. False if it was.
    fn is_inside(&self, asking: bool) -> bool {
        if self.id == 0 {
            return true;
        }
        let mut state = self.hold.reentries.lock();
        let Some(inside) = state.inside.iter_mut().find(|inside| inside.id == self.id) else {
            return false;
        };
        let mut give_back = inside.asking.take().and_then(|before| before.give_back);
        if asking {
            let give_back = give_back.take();
            inside.asking = Some(Asking { polled_at: Instant::now(), give_back });
        }
        // What is left of it is dropped after the unlock (invariant 4).
        drop(state);
        true
    }
}
