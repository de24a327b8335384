//! Acquire, run and release in one future, and the result of a release after a body.
// S-13.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::Acquire;
use crate::error::LockError;
use crate::guard::{LockGuard, Release, RunOwned};
use crate::lease::Hold;
use crate::observe::log_lock;
use crate::opaque::opaque_debug;
use crate::options::OnReleaseLost;

pin_project! {
    /// A future that acquires a lock, runs a body under it and releases it: see
    /// [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Panics
    ///
    /// If it is polled after it has completed.
    #[must_use = "futures do nothing unless polled"]
    pub struct RunLocked<F: Future> {
        #[pin]
        step: Step<F>,
        on_release_lost: OnReleaseLost,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<F: Future> {
        Acquiring { acquire: Acquire, body: Option<F> },
        Running { #[pin] run: RunOwned<LockGuard, F>, hold: Arc<Hold> },
        Releasing {
            release: Release,
            result: Option<Result<F::Output, LockError>>,
            hold: Arc<Hold>,
        },
        Over,
    }
}

impl<F: Future> RunLocked<F> {
    pub(crate) fn new(acquire: Acquire, on_release_lost: OnReleaseLost, body: F) -> Self {
        Self { step: Step::Acquiring { acquire, body: Some(body) }, on_release_lost }
    }
}

impl<F: Future> Future for RunLocked<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.step.as_mut().project() {
                StepProjection::Acquiring { acquire, body } => {
                    match (ready!(Pin::new(acquire).poll(cx)), body.take()) {
                        (Ok(guard), Some(body)) => {
                            let hold = Arc::clone(guard.hold());
                            Step::Running { run: guard.run_owned(body), hold }
                        }
                        (Err(error), _) => {
                            this.step.set(Step::Over);
                            return Poll::Ready(Err(error));
                        }
                        (Ok(_), None) => Step::Over,
                    }
                }
                StepProjection::Running { run, hold } => {
                    let (guard, result) = ready!(run.poll(cx));
                    let (release, hold) = (guard.release(), Arc::clone(hold));
                    Step::Releasing { release, result: Some(result), hold }
                }
                StepProjection::Releasing { release, result, hold } => {
                    let released = ready!(Pin::new(release).poll(cx));
                    let Some(result) = result.take() else { return Poll::Pending };
                    let result = result.and_then(|value| {
                        after_body(released, *this.on_release_lost, hold).map(|()| value)
                    });
                    this.step.set(Step::Over);
                    return Poll::Ready(result);
                }
                StepProjection::Over => panic!("`RunLocked` polled after completion"),
            };
            this.step.set(next);
        }
    }
}

opaque_debug!(<F: Future> RunLocked<F>);

/// Handles a failed release after a body that ended in time: a log line, unless the options report a loss as an
/// error.
pub(crate) fn after_body(
    released: Result<(), LockError>,
    on_release_lost: OnReleaseLost,
    hold: &Hold,
) -> Result<(), LockError> {
    match released {
        Err(error @ LockError::Lost { .. }) if on_release_lost == OnReleaseLost::Error => {
            Err(error)
        }
        Err(error) => {
            log_lock!(
                warn,
                hold.target.key(),
                hold.recorder.label(),
                error = &error as &dyn std::error::Error,
                "the body ended, but its release failed"
            );
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
