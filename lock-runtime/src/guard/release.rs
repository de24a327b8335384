//! Releasing a guard and waiting for it.
// S-14, S-20.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::ReusableBoxFuture;

use super::LockGuard;
use crate::error::LockError;
use crate::lease::Hold;
use crate::observe::log_lock;
use crate::opaque::opaque_debug;
use crate::owned_hold::{LocalRelease, OwnedHold};

/// A release under way: see [`LockGuard::release`].
///
/// # Panics
///
/// If it is polled after it has completed.
#[must_use = "futures do nothing unless polled; the lock is then released in the background"]
pub struct Release(ReleaseState);

enum ReleaseState {
    Start(LockGuard),
    UnderWay(Releasing),
    Done,
}

type Releasing = ReusableBoxFuture<'static, Result<(), LockError>>;

impl Release {
    pub(super) fn of(guard: LockGuard) -> Self {
        Self(ReleaseState::Start(guard))
    }
}

impl Future for Release {
    type Output = Result<(), LockError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A loop over releases that end at once must let the other tasks of its thread run.
        let turn = ready!(coop::poll_proceed(cx));
        let polled = self.poll_further(cx);
        if polled.is_ready() {
            turn.made_progress();
        }
        polled
    }
}

opaque_debug!(Release);

impl Release {
    #[inline]
    fn poll_further(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        // Apart from the rest, whose frame is large: that would be a tenth of a re-entry's time.
        if let ReleaseState::Start(guard) = &mut self.0
            && guard.owned.is_shared()
            && guard.owned.parts.is_none()
        {
            let held = guard.hold().ensure_held();
            if guard.owned.end_shared() {
                self.0 = ReleaseState::Done;
                return match held {
                    Ok(_) => Poll::Ready(Ok(())),
                    Err(lost) => Poll::Ready(Err(lost)),
                };
            }
        }
        self.poll_outermost(cx)
    }

    fn poll_outermost(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        let mut release: Releasing = match std::mem::replace(&mut self.0, ReleaseState::Done) {
            ReleaseState::Start(guard) if guard.owned.parts.is_some() => {
                Releasing::new(guard.release_parts())
            }
            ReleaseState::Start(guard) => {
                let is_shadow = guard.is_shadow;
                // A hold that is handed on needs neither a runtime nor a box.
                let (owned, now) = match guard.release_here() {
                    LocalRelease::Done(released) => return Poll::Ready(released),
                    LocalRelease::NeedsStore(owned, now) => (owned, now),
                };
                // If this fails, a task of the hold's runtime releases the dropped hold.
                owned.leases.check_caller()?;
                match is_shadow {
                    true => Releasing::new(owned.shadow_release()),
                    false => Releasing::new(owned.release_from(now)),
                }
            }
            ReleaseState::UnderWay(release) => release,
            ReleaseState::Done => panic!("`Release` polled after completion"),
        };
        let polled = release.poll(cx);
        if polled.is_pending() {
            self.0 = ReleaseState::UnderWay(release);
        }
        polled
    }
}

/// A release that its caller waits for only so long: the releaser does the rest.
// S-20.
pub(crate) struct BoundedRelease {
    /// `None` once the releaser has it.
    release: Option<Release>,
    hold: Arc<Hold>,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl BoundedRelease {
    /// The hold that it releases.
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Ready with `None` if the store has not answered in time.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), LockError>>> {
        let Some(release) = &mut self.release else { return Poll::Pending };
        if let Poll::Ready(released) = Pin::new(release).poll(cx) {
            return Poll::Ready(Some(released));
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(timer.as_mut().poll(cx));
        self.release = None;
        let hold = &self.hold;
        log_lock!(
            debug,
            hold.target.key(),
            hold.recorder.label(),
            "the body ended, and its release is not confirmed in time; it goes on in the background"
        );
        Poll::Ready(None)
    }
}

impl LockGuard {
    /// As [`release`](Self::release), for a caller that waits no longer than `limit`.
    pub(crate) fn release_within(self, limit: Duration) -> BoundedRelease {
        let hold = Arc::clone(self.hold());
        BoundedRelease { release: Some(Release::of(self)), hold, limit, timer: None }
    }

    /// Releases it without the store, if other guards keep its hold, or its call is enforced and the hold is lost or passes to
    /// a task of this process.
    #[inline]
    fn release_here(self) -> LocalRelease {
        let Self { owned, is_shadow, .. } = self;
        if !is_shadow {
            return OwnedHold::release_here(owned.into_owned());
        }
        match OwnedHold::alone(owned.into_owned()) {
            Err(kept) => LocalRelease::Done(kept),
            Ok(owned) => {
                let now = owned.leases.clock.now();
                LocalRelease::NeedsStore(owned, now)
            }
        }
    }
}
