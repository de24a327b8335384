//! An annotated function under way: it takes the lock, runs the body, gives the lock back.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::body::Body;
use super::returns::{ErrorReturn, SkipReturn};
use super::wanted::{Lock, Wanted};
use crate::acquire::Acquire;
use crate::any_lock::AnyLock;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::guard::{Release, RunOwned};
use crate::options::{LockOptions, OnReleaseLost, Wait};

/// Runs `body` under the lock; any failure of the lock is returned as an error.
pub fn locked<B: Body>(wanted: Wanted, body: B) -> Locked<B>
where
    B::Output: ErrorReturn,
{
    let returns = Returns { failed: B::Output::failed, skipped: None };
    Locked { state: State::new(wanted, body, None), returns }
}

/// Runs `body` under the lock, or skips it if somebody else has the lock. Does not wait unless told.
pub fn locked_or_skip<B: Body>(wanted: Wanted, body: B) -> Locked<B>
where
    B::Output: SkipReturn,
{
    let returns = Returns { failed: B::Output::failed, skipped: Some(B::Output::skipped) };
    Locked { state: State::new(wanted, body, Some(Wait::Never)), returns }
}

/// How failures are put into the return type. Here and not a bound on the future: a bound that fails
/// would be reported for the call and once more for its `.await`.
struct Returns<T> {
    failed: fn(LockError) -> T,
    skipped: Option<fn() -> T>,
}

impl<T> Returns<T> {
    fn error(&self, error: LockError) -> T {
        match self.skipped {
            Some(skipped) if error.is_busy() => skipped(),
            _ => (self.failed)(error),
        }
    }
}

pin_project! {
    /// A locked function under way: see [`locked`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<B: Body> {
        #[pin]
        state: State<B>,
        returns: Returns<B::Output>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<B: Body> {
        Acquiring {
            acquire: Acquire,
            body: Option<B>,
            enforced: bool,
            on_release_lost: OnReleaseLost,
        },
        Running { #[pin] run: RunOwned<B::Guard, B::Future>, on_release_lost: OnReleaseLost },
        Releasing {
            release: Release,
            result: Option<Result<B::Output, LockError>>,
            on_release_lost: OnReleaseLost,
        },
        // The body without the lock, or what is done instead.
        Free { #[pin] body: B::Future },
    }
}

impl<B: Body> State<B> {
    fn new(wanted: Wanted, body: B, unless_said: Option<Wait>) -> Self {
        let body = if wanted.is_wanted() {
            body
        } else {
            match body.start_without() {
                Ok(body) => return Self::Free { body },
                // The attribute lets no body name a guard that it may not get.
                Err(body) => body,
            }
        };
        let body = Some(body);
        match wanted.lock(unless_said) {
            Ok(Lock { lock, options, enforced }) => {
                let enforced = enforced || B::NEEDS_GUARD;
                let acquire = if enforced { lock.lock() } else { look(&lock, options) };
                let on_release_lost = options.on_release_lost();
                Self::Acquiring { acquire, body, enforced, on_release_lost }
            }
            Err(error) => Self::Acquiring {
                acquire: Acquire::failed(error),
                body,
                enforced: true,
                on_release_lost: OnReleaseLost::Log,
            },
        }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<B::Output, LockError>> {
        loop {
            let next = match self.as_mut().project() {
                StateProjection::Acquiring { acquire, body, enforced, on_release_lost } => {
                    let acquired = ready!(Pin::new(acquire).poll(cx));
                    // Polled after completion.
                    let Some(body) = body.take() else { return Poll::Pending };
                    match acquired {
                        Ok(guard) => {
                            let (guard, future) = body.start(guard);
                            let run = RunOwned::new(guard, future);
                            Self::Running { run, on_release_lost: *on_release_lost }
                        }
                        Err(error) if !*enforced => {
                            tracing::info!(
                                error = &error as &dyn std::error::Error,
                                "runs without the lock, which its policy does not enforce"
                            );
                            match body.start_without() {
                                Ok(body) => Self::Free { body },
                                Err(_) => return Poll::Ready(Err(error)),
                            }
                        }
                        Err(error) if error.is_busy() => match body.start_busy() {
                            Ok(body) => Self::Free { body },
                            Err(_) => return Poll::Ready(Err(error)),
                        },
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                StateProjection::Running { run, on_release_lost } => {
                    let (guard, result) = ready!(run.poll(cx));
                    let Some(guard) = B::guard_back(guard) else { return Poll::Ready(result) };
                    Self::Releasing {
                        release: guard.release(),
                        result: Some(result),
                        on_release_lost: *on_release_lost,
                    }
                }
                StateProjection::Releasing { release, result, on_release_lost } => {
                    let released = ready!(Pin::new(release).poll(cx));
                    let Some(result) = result.take() else { return Poll::Pending };
                    return Poll::Ready(judge(result, released, *on_release_lost));
                }
                StateProjection::Free { body } => return body.poll(cx).map(Ok),
            };
            self.set(next);
        }
    }
}

/// How long a lock that is not enforced may hold up the body: a round trip, and nothing that hangs.
const A_LOOK: Duration = Duration::from_millis(100);

/// Takes the lock if it is free, to tell whether it would have been.
fn look(lock: &AnyLock, options: LockOptions) -> Acquire {
    let silence = StoreError::new(StoreErrorKind::Unavailable, "the store did not answer in time");
    lock.clone()
        .with(options.with_wait(Wait::Never))
        .not_enforced()
        .lock()
        .within(A_LOOK, silence.into())
}

/// S-13: a body that ended in time keeps its value, unless it is to hear of a loss that only the
/// release found. A loss that stopped it is in the result already.
fn judge<T>(
    result: Result<T, LockError>,
    released: Result<(), LockError>,
    on_release_lost: OnReleaseLost,
) -> Result<T, LockError> {
    let value = result?;
    match released {
        Ok(()) => Ok(value),
        Err(error @ LockError::Lost { .. }) if on_release_lost == OnReleaseLost::Error => {
            Err(error)
        }
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the body ended, but its release failed"
            );
            Ok(value)
        }
    }
}

impl<B: Body> Future for Locked<B> {
    type Output = B::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        let this = self.project();
        let result = ready!(this.state.poll(cx));
        Poll::Ready(result.unwrap_or_else(|error| this.returns.error(error)))
    }
}

impl<B: Body> fmt::Debug for Locked<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}
