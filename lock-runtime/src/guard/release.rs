//! Releasing a guard and waiting for it.
// S-14, S-20.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::LockGuard;
use crate::error::{LockError, check_runtime};
use crate::opaque::opaque_debug;
use crate::owned_hold::OwnedHold;
use crate::reuse::{self, Boxed};

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

type Releasing = Boxed<Result<(), LockError>>;

thread_local! {
    static IDLE: RefCell<Vec<Releasing>> = const { RefCell::new(Vec::new()) };
}

impl Release {
    pub(super) fn of(guard: LockGuard) -> Self {
        Self(ReleaseState::Start(guard))
    }
}

impl Future for Release {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut release: Releasing = match std::mem::replace(&mut self.0, ReleaseState::Done) {
            ReleaseState::Start(guard) => {
                let is_shadow = guard.is_shadow;
                let mut owned = match guard.into_last() {
                    Ok(owned) => owned,
                    Err(None) => return Poll::Ready(Ok(())),
                    Err(Some(lost)) => return Poll::Ready(Err(lost)),
                };
                // A hold that is handed on needs neither a runtime nor a box.
                let now = match is_shadow {
                    true => None,
                    false => match owned.release_here() {
                        Ok(released) => return Poll::Ready(released),
                        Err(now) => Some(now),
                    },
                };
                // If this fails, a task of the hold's runtime releases the dropped hold.
                check_runtime()?;
                match now {
                    None => Boxed::new(owned.shadow_release()),
                    Some(now) => reuse::boxed(&IDLE, owned.release_from(now)),
                }
            }
            ReleaseState::UnderWay(release) => release,
            ReleaseState::Done => panic!("`Release` polled after completion"),
        };
        let polled = release.poll(cx);
        match polled {
            Poll::Pending => self.0 = ReleaseState::UnderWay(release),
            Poll::Ready(_) => reuse::keep(&IDLE, release),
        }
        polled
    }
}

opaque_debug!(Release);

impl LockGuard {
    /// Takes the guard apart. Returns its owned hold, if it was the last guard on it.
    ///
    /// # Errors
    ///
    /// If other guards keep the hold: its loss, if it is lost.
    #[inline]
    fn into_last(self) -> Result<OwnedHold, Option<LockError>> {
        let Self { nested, owned, .. } = self;
        match nested {
            Some(nested) => {
                let lost = owned.hold.ensure_held().err();
                drop(nested);
                Arc::into_inner(owned).ok_or(lost)
            }
            None => Arc::try_unwrap(owned).or_else(|owned| {
                // Another guard may be dropped meanwhile: then this is the last one.
                let hold = Arc::clone(&owned.hold);
                Arc::into_inner(owned).ok_or_else(|| hold.ensure_held().err())
            }),
        }
    }
}
