//! The course of an annotated call, whatever its body is: acquire, run, release.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::StartContext;
use super::spec::{About, CallSpec, Lock};
use crate::acquire::{Acquire, after_body};
use crate::error::LockError;
use crate::guard::{LockGuard, Release, Started, Watch};
use crate::lease::Hold;
use crate::options::{OnReleaseLost, Wait};

/// A body that can be started.
pub(super) trait Start: Started {
    /// Starts it there. False if it has nothing to do there, or was started before.
    fn start(self: Pin<&mut Self>, context: &mut StartContext) -> bool;
}

pin_project! {
    #[project = CourseProjection]
    pub(super) enum CallState {
        Acquiring { acquire: Acquire, enforced: bool, about: About, telling: Telling },
        Running { #[pin] watch: Watch, context: StartContext, telling: Telling },
        Releasing {
            release: Release,
            result: Option<Result<(), LockError>>,
            hold: Arc<Hold>,
            telling: Telling,
        },
        /// The lock is not wanted; the body has not been started.
        Unlocked,
        /// The body without the lock, or what is done instead.
        Free,
    }
}

/// What a function's return type can say.
#[derive(Debug, Clone, Copy)]
pub(super) struct CanSay {
    pub(super) errors: bool,
    pub(super) skipped: bool,
}

/// What is told to the caller, and what to the log.
#[derive(Clone, Copy)]
struct Telling {
    on_release_lost: OnReleaseLost,
    can_say: CanSay,
}

impl CallState {
    pub(super) fn new(
        spec: CallSpec,
        unless_said: Option<Wait>,
        needs_guard: bool,
        can_say: CanSay,
    ) -> Self {
        // The attribute lets no body name a guard that it may not get.
        if !spec.is_wanted() && !needs_guard {
            return Self::Unlocked;
        }
        let site = spec.site();
        match spec.lock(unless_said) {
            Ok(Lock { lock, on_release_lost, enforced, about }) => {
                let enforced = enforced || needs_guard;
                let acquire = if enforced { lock.lock() } else { lock.shadow_lock() };
                // Who runs in any case is told of no loss either.
                let on_release_lost = if enforced { on_release_lost } else { OnReleaseLost::Log };
                let telling = Telling { on_release_lost, can_say };
                Self::Acquiring { acquire, enforced, about, telling }
            }
            Err(error) => Self::Acquiring {
                acquire: Acquire::failed(error),
                enforced: true,
                about: About::site(site),
                telling: Telling { on_release_lost: OnReleaseLost::Log, can_say },
            },
        }
    }

    /// Ready once all is over. `Ok` means that the body has a value; an error, that it is gone.
    /// Whatever is polled after that stays pending.
    ///
    /// The body may poll itself again inside of another box: what is on the stack meanwhile is kept
    /// small, and so the steps that move a whole state are functions of their own.
    pub(super) fn poll(
        mut self: Pin<&mut Self>,
        mut body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LockError>> {
        loop {
            let step = match self.as_mut().project() {
                CourseProjection::Acquiring { .. } => self.as_mut().poll_acquire(body.as_mut(), cx),
                CourseProjection::Running { watch, context, .. } => {
                    let Some(guard) = context.guard() else { return Poll::Pending };
                    let result = ready!(watch.poll(guard, body.as_mut(), cx));
                    self.as_mut().begin_release(result)
                }
                CourseProjection::Releasing { .. } => self.as_mut().poll_release(body.as_mut(), cx),
                CourseProjection::Unlocked => self.as_mut().start_unlocked(body.as_mut()),
                CourseProjection::Free => return body.poll(cx).map(Ok),
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
        mut self: Pin<&mut Self>,
        mut body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Step {
        let CourseProjection::Acquiring { acquire, enforced, about, telling } =
            self.as_mut().project()
        else {
            return Step::Wait;
        };
        let Poll::Ready(acquired) = Pin::new(acquire).poll(cx) else { return Step::Wait };
        let next = match start(body.as_mut(), acquired, *enforced) {
            Ok(StartContext::Nothing | StartContext::Busy) => Self::Free,
            Ok(context) => {
                let watch = if *enforced { Watch::default() } else { Watch::unheeded() };
                Self::Running { watch, context, telling: *telling }
            }
            Err(error) => {
                body.end();
                about.log_failure(&error, telling.can_say);
                return Step::End(Err(error));
            }
        };
        self.set(next);
        Step::Next
    }

    #[inline(never)]
    fn start_unlocked(mut self: Pin<&mut Self>, body: Pin<&mut (dyn Start + '_)>) -> Step {
        if !body.start(&mut StartContext::Nothing) {
            return Step::Wait;
        }
        self.set(Self::Free);
        Step::Next
    }

    #[inline(never)]
    fn begin_release(mut self: Pin<&mut Self>, result: Result<(), LockError>) -> Step {
        let CourseProjection::Running { context, telling, .. } = self.as_mut().project() else {
            return Step::Wait;
        };
        let (context, telling) = (std::mem::replace(context, StartContext::Nothing), *telling);
        let Some(guard) = context.into_guard() else { return Step::End(result) };
        let hold = Arc::clone(guard.hold());
        let (release, result) = (guard.release(), Some(result));
        self.set(Self::Releasing { release, result, hold, telling });
        Step::Next
    }

    #[inline(never)]
    fn poll_release(
        self: Pin<&mut Self>,
        body: Pin<&mut (dyn Start + '_)>,
        cx: &mut Context<'_>,
    ) -> Step {
        let CourseProjection::Releasing { release, result, hold, telling } = self.project() else {
            return Step::Wait;
        };
        let Poll::Ready(released) = Pin::new(release).poll(cx) else { return Step::Wait };
        let Some(result) = result.take() else { return Step::Wait };
        let result = result.and_then(|()| after_body(released, telling.on_release_lost, hold));
        if let Err(error) = &result {
            body.end();
            About::of(hold).log_failure(error, telling.can_say);
        }
        Step::End(result)
    }
}

/// What there is to do after a step.
enum Step {
    Next,
    Wait,
    End(Result<(), LockError>),
}

/// Starts the body on what was acquired; the error, where it has nothing to do there.
fn start(
    body: Pin<&mut (dyn Start + '_)>,
    acquired: Result<LockGuard, LockError>,
    enforced: bool,
) -> Result<StartContext, LockError> {
    let (mut context, error) = match acquired {
        Ok(guard) => (StartContext::Lock(guard), None),
        Err(error) if !enforced => (StartContext::Nothing, Some(error)),
        Err(error) if error.is_busy() => (StartContext::Busy, Some(error)),
        Err(error) => return Err(error),
    };
    match (body.start(&mut context), error) {
        (false, Some(error)) => Err(error),
        // On its lock, every body has something to do.
        (_, _) => Ok(context),
    }
}
