//! Runs of bodies: under a guard, or acquire, run and release in one future, and the result of a release after a body.
// S-13.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::Acquire;
use crate::error::LockError;
use crate::guard::protected::Protected;
use crate::guard::{BoundedRelease, LockGuard, RunOwned};
use crate::lease::Hold;
use crate::observe::log_lock;
use crate::opaque::opaque_debug;
use crate::options::{OnReleaseLost, ReleaseTerms};

pin_project! {
    /// A future that runs a body under a lock: under a guard, as [`LockGuard::run`] makes it, or with an acquire before
    /// and a release after it, as [`Mutex::run`](crate::Mutex::run) does.
    ///
    /// # Panics
    ///
    /// If it is polled after it has completed.
    #[must_use = "futures do nothing unless polled"]
    pub struct Run<'a, F: Future> {
        #[pin]
        step: Step<'a, F>,
        terms: ReleaseTerms,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<'a, F: Future> {
        Acquiring { acquire: Acquire, body: Option<F> },
        Running { #[pin] run: RunOwned<F> },
        Releasing { release: BoundedRelease, result: Option<Result<F::Output, LockError>> },
        Under { #[pin] body: Protected<F>, guard: &'a LockGuard },
        Over,
    }
}

impl<'a, F: Future> Run<'a, F> {
    pub(crate) fn new(acquire: Acquire, terms: ReleaseTerms, body: F) -> Self {
        Self { step: Step::Acquiring { acquire, body: Some(body) }, terms }
    }

    pub(crate) fn under(guard: &'a LockGuard, body: F) -> Self {
        Self {
            step: Step::Under { body: Protected::to_end(body), guard },
            terms: ReleaseTerms::LOG,
        }
    }
}

impl<F: Future> Future for Run<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = loop {
            let next = match this.step.as_mut().project() {
                StepProjection::Acquiring { acquire, body } => {
                    match (ready!(Pin::new(acquire).poll(cx)), body.take()) {
                        (Ok(guard), Some(body)) => Step::Running { run: guard.run_owned(body) },
                        (Err(error), _) => break Err(error),
                        (Ok(_), None) => Step::Over,
                    }
                }
                StepProjection::Running { run } => {
                    let (guard, result) = ready!(run.poll(cx));
                    let release = guard.release_within(this.terms.timeout);
                    Step::Releasing { release, result: Some(result) }
                }
                StepProjection::Releasing { release, result } => {
                    let released = ready!(release.poll(cx));
                    let Some(result) = result.take() else { return Poll::Pending };
                    let after =
                        |value| after_body(released, *this.terms, release.hold()).map(|()| value);
                    break result.and_then(after);
                }
                StepProjection::Under { body, guard } => break ready!(body.poll_to_end(guard, cx)),
                StepProjection::Over => panic!("`Run` polled after completion"),
            };
            this.step.set(next);
        };
        this.step.set(Step::Over);
        Poll::Ready(result)
    }
}

opaque_debug!(<'a, F: Future> Run<'a, F>);

pin_project! {
    /// As [`Run`], of a body that may fail: the failure of the lock becomes an error of the body's. See
    /// [`Mutex::try_run`](crate::Mutex::try_run).
    ///
    /// # Panics
    ///
    /// If it is polled after it has completed.
    #[must_use = "futures do nothing unless polled"]
    pub struct TryRun<F: Future> {
        #[pin]
        run: Run<'static, F>,
    }
}

impl<F: Future> TryRun<F> {
    pub(crate) fn new(run: Run<'static, F>) -> Self {
        Self { run }
    }
}

impl<T, E, F> Future for TryRun<F>
where
    E: From<LockError>,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().run.poll(cx))?)
    }
}

opaque_debug!(<F: Future> TryRun<F>);

/// Handles a failed release after a body that ended in time: a log line, unless the options report a loss as an
/// error. A release that has had no answer, `None`, has found no loss.
pub(crate) fn after_body(
    released: Option<Result<(), LockError>>,
    terms: ReleaseTerms,
    hold: &Hold,
) -> Result<(), LockError> {
    match released {
        Some(Err(error @ LockError::Lost { .. })) if terms.on_lost == OnReleaseLost::Error => {
            Err(error)
        }
        Some(Err(error)) => {
            log_lock!(
                warn,
                hold.target.key(),
                hold.recorder.label(),
                error = &error as &dyn std::error::Error,
                "the body ended, but its release failed"
            );
            Ok(())
        }
        Some(Ok(())) | None => Ok(()),
    }
}
