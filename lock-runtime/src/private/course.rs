//! The course of an annotated call, whatever its body is: acquire, run, release.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::body::Ground;
use super::wanted::{Lock, Wanted};
use crate::acquire::Acquire;
use crate::any_lock::AnyLock;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::guard::{LockGuard, Release, Started, Watch};
use crate::options::{LockOptions, OnReleaseLost, Wait};

/// A body that can be started.
pub(super) trait Start: Started {
    /// Starts it there. False if it has nothing to do there, or was started before.
    fn start(self: Pin<&mut Self>, ground: &mut Ground) -> bool;
}

pin_project! {
    #[project = CourseProjection]
    pub(super) enum Course {
        Acquiring { acquire: Acquire, enforced: bool, on_release_lost: OnReleaseLost },
        Running { #[pin] watch: Watch, ground: Ground, on_release_lost: OnReleaseLost },
        Releasing {
            release: Release,
            result: Option<Result<(), LockError>>,
            on_release_lost: OnReleaseLost,
        },
        /// The lock is not wanted; the body has not been started.
        Unlocked,
        /// The body without the lock, or what is done instead.
        Free,
    }
}

impl Course {
    pub(super) fn new(wanted: Wanted, unless_said: Option<Wait>, needs_guard: bool) -> Self {
        // The attribute lets no body name a guard that it may not get.
        if !wanted.is_wanted() && !needs_guard {
            return Self::Unlocked;
        }
        match wanted.lock(unless_said) {
            Ok(Lock { lock, options, enforced }) => {
                let enforced = enforced || needs_guard;
                let acquire = if enforced { lock.lock() } else { look(&lock, options) };
                Self::Acquiring { acquire, enforced, on_release_lost: options.on_release_lost() }
            }
            Err(error) => Self::Acquiring {
                acquire: Acquire::failed(error),
                enforced: true,
                on_release_lost: OnReleaseLost::Log,
            },
        }
    }

    /// Ready once all is over. `Ok` means that the body has a value; an error, that it is gone.
    /// Whatever is polled after that stays pending.
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        mut body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LockError>> {
        loop {
            let next = match self.as_mut().project() {
                CourseProjection::Acquiring { acquire, enforced, on_release_lost } => {
                    let acquired = ready!(Pin::new(acquire).poll(cx));
                    match start(body.as_mut(), acquired, *enforced) {
                        Ok(Ground::Nothing | Ground::Busy) => Self::Free,
                        Ok(ground) => Self::Running {
                            watch: Watch::default(),
                            ground,
                            on_release_lost: *on_release_lost,
                        },
                        Err(error) => {
                            body.end();
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                CourseProjection::Running { watch, ground, on_release_lost } => {
                    let Some(guard) = ground.guard() else { return Poll::Pending };
                    let result = ready!(watch.poll(guard, body.as_mut(), cx));
                    let ground = std::mem::replace(ground, Ground::Nothing);
                    let Some(guard) = ground.into_guard() else { return Poll::Ready(result) };
                    Self::Releasing {
                        release: guard.release(),
                        result: Some(result),
                        on_release_lost: *on_release_lost,
                    }
                }
                CourseProjection::Releasing { release, result, on_release_lost } => {
                    let released = ready!(Pin::new(release).poll(cx));
                    let Some(result) = result.take() else { return Poll::Pending };
                    let result = judge(result, released, *on_release_lost);
                    if result.is_err() {
                        body.end();
                    }
                    return Poll::Ready(result);
                }
                CourseProjection::Unlocked => {
                    if !body.as_mut().start(&mut Ground::Nothing) {
                        return Poll::Pending;
                    }
                    Self::Free
                }
                CourseProjection::Free => return body.poll(cx).map(Ok),
            };
            self.set(next);
        }
    }
}

/// Starts the body on what was acquired; the error, where it has nothing to do there.
fn start(
    body: Pin<&mut (dyn Start + '_)>,
    acquired: Result<LockGuard, LockError>,
    enforced: bool,
) -> Result<Ground, LockError> {
    let (mut ground, error) = match acquired {
        Ok(guard) => (Ground::Lock(guard), None),
        Err(error) if !enforced => {
            tracing::info!(
                error = &error as &dyn std::error::Error,
                "runs without the lock, which its policy does not enforce"
            );
            (Ground::Nothing, Some(error))
        }
        Err(error) if error.is_busy() => (Ground::Busy, Some(error)),
        Err(error) => return Err(error),
    };
    match (body.start(&mut ground), error) {
        (false, Some(error)) => Err(error),
        // On its lock, every body has something to do.
        (_, _) => Ok(ground),
    }
}

/// How long a lock that is not enforced may hold up the body: a round trip, and nothing that hangs.
const A_LOOK: Duration = Duration::from_millis(100);

/// Takes the lock if it is free, to tell whether it would have been.
fn look(lock: &AnyLock, options: LockOptions) -> Acquire {
    let silence = StoreError::new(StoreErrorKind::Unavailable, "the store did not answer in time");
    lock.clone().with(options.with_wait(Wait::Never)).lock().within(A_LOOK, silence.into())
}

/// S-13: a body that ended in time keeps its value, unless it is to hear of a loss that only the
/// release found. A loss that stopped it is in the result already.
fn judge(
    result: Result<(), LockError>,
    released: Result<(), LockError>,
    on_release_lost: OnReleaseLost,
) -> Result<(), LockError> {
    result?;
    match released {
        Err(error @ LockError::Lost { .. }) if on_release_lost == OnReleaseLost::Error => {
            Err(error)
        }
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the body ended, but its release failed"
            );
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
