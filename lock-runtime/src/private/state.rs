//! An annotated call apart from its body, as a state machine: acquire, run, release.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::RunGuard;
use super::returns::CanSay;
use super::spec::{About, CallSpec, Lock};
use crate::acquire::after_body;
use crate::error::LockError;
use crate::guard::{BoundedRelease, Started, Watch};
use crate::options::ReleaseTerms;

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
        Acquiring { lock: Lock },
        Running { #[pin] watch: Watch, guard: Option<RunGuard> },
        Releasing { release: BoundedRelease, result: Option<Result<(), LockError>> },
        /// The body runs without the lock, or the fallback runs in its place.
        Free,
    }
}

impl CallState {
    #[track_caller]
    pub(super) fn new(spec: CallSpec, can_say: CanSay) -> Self {
        if !spec.is_wanted() {
            return Self { stage: Stage::Free, terms: ReleaseTerms::LOG, can_say };
        }
        let lock = spec.lock(can_say);
        Self { terms: lock.terms, stage: Stage::Acquiring { lock }, can_say }
    }

    /// Runs the call to its end. `Ok` means that the body has a value, and an error that the body was dropped.
    /// Do not poll it after its end.
    ///
    /// The body may poll itself again from within another box, so little may stay on the stack while it is polled:
    /// steps that move a whole stage are functions of their own.
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        mut body: Pin<&mut (dyn Started + '_)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LockError>> {
        loop {
            let step = match self.as_mut().project().stage.project() {
                StageProjection::Acquiring { .. } => self.as_mut().poll_acquire(body.as_mut(), cx),
                StageProjection::Running { watch, guard } => {
                    let Some(guard) = guard else { return Poll::Pending };
                    let result = ready!(watch.poll(guard.get(), body.as_mut(), cx));
                    self.as_mut().begin_release(result)
                }
                StageProjection::Releasing { .. } => self.as_mut().poll_release(body.as_mut(), cx),
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
        body: Pin<&mut (dyn Started + '_)>,
        cx: &mut Context<'_>,
    ) -> Step {
        let mut this = self.project();
        let StageProjection::Acquiring { lock } = this.stage.as_mut().project() else {
            return Step::Wait;
        };
        let Poll::Ready(acquired) = Pin::new(&mut lock.acquire).poll(cx) else {
            return Step::Wait;
        };
        match acquired {
            Ok(guard) => {
                let watch = if lock.enforced { Watch::default() } else { Watch::unheeded() };
                let guard = Some(RunGuard::new(guard, lock.view.take()));
                this.stage.set(Stage::Running { watch, guard });
            }
            Err(error) if lock.goes_on_without(&error) => this.stage.set(Stage::Free),
            Err(error) => {
                body.end();
                if let Some(about) = &lock.about {
                    about.log_failure(&error, *this.can_say, false);
                }
                return Step::End(Err(error));
            }
        }
        Step::Next
    }

    #[inline(never)]
    fn begin_release(self: Pin<&mut Self>, result: Result<(), LockError>) -> Step {
        let mut this = self.project();
        let StageProjection::Running { guard, .. } = this.stage.as_mut().project() else {
            return Step::Wait;
        };
        let Some(guard) = guard.take().and_then(RunGuard::into_inner) else {
            return Step::End(result);
        };
        let release = guard.release_within(this.terms.timeout);
        this.stage.set(Stage::Releasing { release, result: Some(result) });
        Step::Next
    }

    #[inline(never)]
    fn poll_release(
        self: Pin<&mut Self>,
        body: Pin<&mut (dyn Started + '_)>,
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
