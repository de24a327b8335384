//! An annotated call apart from its body, as a state machine: acquire, run, release.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::StartContext;
use super::returns::Returns;
use super::spec::{About, CallSpec, Lock};
use crate::acquire::{Acquire, after_body};
use crate::error::LockError;
use crate::guard::{BoundedRelease, LockGuard, Started, Watch};
use crate::options::{ReleaseTerms, Wait};

/// A body that can be started.
pub(super) trait Start: Started {
    /// Starts the body. Returns false if it does nothing in this context, or was started before.
    fn start(self: Pin<&mut Self>, context: &mut StartContext) -> bool;
}

/// The results for which a function's return type has a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct CanSay {
    pub(super) errors: bool,
    pub(super) skipped: bool,
}

impl CanSay {
    pub(super) fn of<T, E>(returns: &Returns<T, E>) -> Self {
        Self { errors: returns.has_errors(), skipped: returns.skips() }
    }

    /// True if some failure is logged, because the return type cannot express it.
    pub(super) fn logs(self) -> bool {
        self.skipped || !self.errors
    }
}

pin_project! {
    /// An annotated call without its body.
    pub(super) struct CallState {
        #[pin]
        stage: Stage,
        terms: ReleaseTerms,
        can_say: CanSay,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage {
        Acquiring { acquire: Acquire, enforced: bool, about: Option<About> },
        Running { #[pin] watch: Watch, context: StartContext },
        Releasing { release: BoundedRelease, result: Option<Result<(), LockError>> },
        /// `when` is false; the body has not been started.
        Unlocked,
        /// The body runs without the lock, or the fallback runs in its place.
        Free,
    }
}

impl CallState {
    pub(super) fn new(
        spec: CallSpec,
        unless_said: Option<Wait>,
        needs_guard: bool,
        can_say: CanSay,
    ) -> Self {
        // A body that cannot do without its guard has no `when`.
        if !spec.is_wanted() && !needs_guard {
            return Self { stage: Stage::Unlocked, terms: ReleaseTerms::LOG, can_say };
        }
        let site = spec.site();
        let lock = spec
            .lock(unless_said, needs_guard, can_say)
            .unwrap_or_else(|error| Lock::failed(site, error));
        let Lock { acquire, terms, enforced, about, .. } = lock;
        Self { stage: Stage::Acquiring { acquire, enforced, about }, terms, can_say }
    }

    /// Runs the call to its end. `Ok` means that the body has a value, and an error that the body was dropped.
    /// Do not poll it after its end.
    ///
    /// The body may poll itself again from within another box, so little may stay on the stack while it is polled:
    /// steps that move a whole stage are functions of their own.
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        mut body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LockError>> {
        loop {
            let step = match self.as_mut().project().stage.project() {
                StageProjection::Acquiring { .. } => self.as_mut().poll_acquire(body.as_mut(), cx),
                StageProjection::Running { watch, context } => {
                    let Some(guard) = context.guard() else { return Poll::Pending };
                    let result = ready!(watch.poll(guard, body.as_mut(), cx));
                    self.as_mut().begin_release(result)
                }
                StageProjection::Releasing { .. } => self.as_mut().poll_release(body.as_mut(), cx),
                StageProjection::Unlocked => self.as_mut().start_unlocked(body.as_mut()),
                StageProjection::Free => return body.poll(cx).map(Ok),
            };
            match step {
                Step::Next => {}
                Step::Wait => return Poll::Pending,
                Step::End(result) => return Poll::Ready(result),
            }
        }
    }

    #[inline(never)]
    fn poll_acquire(
        self: Pin<&mut Self>,
        mut body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Step {
        let mut this = self.project();
        let StageProjection::Acquiring { acquire, enforced, about } = this.stage.as_mut().project()
        else {
            return Step::Wait;
        };
        let Poll::Ready(acquired) = Pin::new(acquire).poll(cx) else { return Step::Wait };
        match start(body.as_mut(), acquired, *enforced) {
            Ok(StartContext::Nothing | StartContext::Busy) => this.stage.set(Stage::Free),
            Ok(context) => {
                let watch = if *enforced { Watch::default() } else { Watch::unheeded() };
                this.stage.set(Stage::Running { watch, context });
            }
            Err(error) => {
                body.end();
                if let Some(about) = about {
                    about.log_failure(&error, *this.can_say, false);
                }
                return Step::End(Err(error));
            }
        };
        Step::Next
    }

    #[inline(never)]
    fn start_unlocked(self: Pin<&mut Self>, body: Pin<&mut (dyn Start + '_)>) -> Step {
        if !body.start(&mut StartContext::Nothing) {
            return Step::Wait;
        }
        self.project().stage.set(Stage::Free);
        Step::Next
    }

    #[inline(never)]
    fn begin_release(self: Pin<&mut Self>, result: Result<(), LockError>) -> Step {
        let mut this = self.project();
        let StageProjection::Running { context, .. } = this.stage.as_mut().project() else {
            return Step::Wait;
        };
        let context = std::mem::replace(context, StartContext::Nothing);
        let Some(guard) = context.into_guard() else { return Step::End(result) };
        let release = guard.release_within(this.terms.timeout);
        this.stage.set(Stage::Releasing { release, result: Some(result) });
        Step::Next
    }

    #[inline(never)]
    fn poll_release(
        self: Pin<&mut Self>,
        body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Step {
        let this = self.project();
        let StageProjection::Releasing { release, result } = this.stage.project() else {
            return Step::Wait;
        };
        let Poll::Ready(released) = release.poll(cx) else { return Step::Wait };
        let Some(result) = result.take() else { return Step::Wait };
        let hold = release.hold();
        let result = result.and_then(|()| after_body(released, *this.terms, hold));
        if let Err(error) = &result {
            body.end();
            About::of(hold).log_failure(error, *this.can_say, true);
        }
        Step::End(result)
    }
}

/// What `poll` does after a step.
enum Step {
    Next,
    Wait,
    End(Result<(), LockError>),
}

/// Starts the body with what was acquired. Returns the error if the body does nothing without the lock.
fn start(
    body: Pin<&mut (dyn Start + '_)>,
    acquired: Result<LockGuard, LockError>,
    enforced: bool,
) -> Result<StartContext, LockError> {
    let error = match acquired {
        Ok(guard) => {
            // Every body runs under its lock.
            let mut context = StartContext::Lock(guard);
            body.start(&mut context);
            return Ok(context);
        }
        Err(error) => error,
    };
    if let Some(mut context) = without_lock(&error, enforced)
        && body.start(&mut context)
    {
        return Ok(context);
    }
    Err(error)
}

/// Returns what a body is started with after a failed acquire; `None` if that fails the call.
pub(super) fn without_lock(error: &LockError, enforced: bool) -> Option<StartContext> {
    match error {
        _ if !enforced => Some(StartContext::Nothing),
        error if error.is_contended() => Some(StartContext::Busy),
        _ => None,
    }
}
