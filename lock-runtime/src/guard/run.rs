//! Running a body under a guard: polled while the hold is valid, dropped when it is lost (S-13).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Sleep, sleep_until};

use super::LockGuard;
use crate::error::{LockError, LossCause};
use crate::lease::Hold;
use crate::observe::{HoldSpan, RunOutcome};
use crate::options::OnLost;
use crate::scope::{self, Link};

pin_project! {
    /// Wakes its task when a hold is lost: at the deadline by a timer, before it by word from the
    /// store. Costs nothing until it is first polled.
    #[derive(Default)]
    pub(crate) struct Alarm {
        #[pin]
        told: Option<OwnedNotified>,
        #[pin]
        timer: Option<Sleep>,
    }
}

impl Alarm {
    /// Resolves once the hold is lost.
    pub(crate) fn poll_lost(
        self: Pin<&mut Self>,
        hold: &Arc<Hold>,
        cx: &mut Context<'_>,
    ) -> Poll<LossCause> {
        let mut this = self.project();
        loop {
            // Register, then check, then wait: a loss in between is found by the check.
            if this.told.is_none() {
                this.told.set(Some(Arc::clone(hold.lost()).notified_owned()));
            }
            if let Some(told) = this.told.as_mut().as_pin_mut()
                && told.poll(cx).is_ready()
            {
                this.told.set(None);
            }
            if let Err(cause) = hold.check() {
                return Poll::Ready(cause);
            }
            if this.told.is_none() {
                continue;
            }
            if this.timer.is_none() {
                // Also in between, so that somebody sees to it that renewals go on.
                let soon = hold.clock().now().after(hold.lease.duration() / 3);
                let look = hold.clock().timer_for(hold.deadline().min(soon));
                this.timer.set(Some(sleep_until(look)));
            }
            // Renewals move the deadline on; the timer finds out when it fires.
            let Some(timer) = this.timer.as_mut().as_pin_mut() else { continue };
            ready!(timer.poll(cx));
            this.timer.set(None);
        }
    }
}

pin_project! {
    /// The body, what wakes it up to die, and its place in the chain of holds.
    struct Runner<F> {
        #[pin]
        body: Option<F>,
        #[pin]
        alarm: Alarm,
        link: Option<Arc<Link>>,
        span: Option<HoldSpan>,
    }
}

impl<F: Future> Runner<F> {
    fn new(body: F) -> Self {
        Self { body: Some(body), alarm: Alarm::default(), link: None, span: None }
    }

    fn poll(
        self: Pin<&mut Self>,
        guard: &LockGuard,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        let mut this = self.project();
        let hold = guard.hold();
        // The runtime that ran the watchdog may be gone, before or while this runs.
        guard.stand.keeper.ensure_running();
        let link = this.link.get_or_insert_with(|| Link::hold(&guard.stand));
        let span = this.span.get_or_insert_with(|| {
            HoldSpan::new(&hold.target, || hold.seen.label(), guard.token())
        });
        let lost = hold.check().err();
        if let (Some(cause), OnLost::Cancel) = (lost, guard.on_lost) {
            // Its destructors run inside the chain too: they may release nested guards.
            let _entered = scope::enter(Some(Arc::clone(link)));
            span.inside(|| this.body.set(None));
            span.over(RunOutcome::Lost);
            return Poll::Ready(Err(hold.lost_error(cause)));
        }
        let polled = {
            let _entered = scope::enter(Some(Arc::clone(link)));
            let Some(body) = this.body.as_mut().as_pin_mut() else { return Poll::Pending };
            span.inside(|| body.poll(cx))
        };
        if let Poll::Ready(value) = polled {
            span.inside(|| this.body.set(None));
            let lost = hold.check().err().filter(|_| guard.on_lost == OnLost::Finish);
            span.over(if lost.is_some() { RunOutcome::Lost } else { RunOutcome::Done });
            return Poll::Ready(lost.map_or(Ok(value), |cause| Err(hold.lost_error(cause))));
        }
        if guard.on_lost == OnLost::Finish {
            return Poll::Pending;
        }
        let cause = ready!(this.alarm.poll_lost(hold, cx));
        let _entered = scope::enter(Some(Arc::clone(link)));
        span.inside(|| this.body.set(None));
        span.over(RunOutcome::Lost);
        Poll::Ready(Err(hold.lost_error(cause)))
    }
}

pin_project! {
    /// A body that runs under a borrowed guard: see [`LockGuard::run`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Run<'a, F> {
        #[pin]
        runner: Runner<F>,
        guard: &'a LockGuard,
    }
}

impl<'a, F: Future> Run<'a, F> {
    pub(crate) fn new(guard: &'a LockGuard, body: F) -> Self {
        Self { runner: Runner::new(body), guard }
    }
}

impl<F: Future> Future for Run<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.runner.poll(this.guard, cx)
    }
}

impl<F> fmt::Debug for Run<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("guard", self.guard).finish_non_exhaustive()
    }
}

pin_project! {
    /// A body that runs under a guard of its own: see [`LockGuard::run_owned`].
    #[must_use = "futures do nothing unless polled"]
    pub struct RunOwned<G, F> {
        // Before the guard: fields are dropped in this order, and the body goes first (S-13).
        #[pin]
        runner: Runner<F>,
        guard: Option<G>,
    }
}

impl<G: AsRef<LockGuard>, F: Future> RunOwned<G, F> {
    pub(crate) fn new(guard: G, body: F) -> Self {
        Self { runner: Runner::new(body), guard: Some(guard) }
    }
}

impl<G: AsRef<LockGuard>, F: Future> Future for RunOwned<G, F> {
    type Output = (G, Result<F::Output, LockError>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // Polled after completion, which a future may answer as it likes short of a panic.
        let Some(guard) = this.guard.as_ref() else { return Poll::Pending };
        let result = ready!(this.runner.poll(guard.as_ref(), cx));
        match this.guard.take() {
            Some(guard) => Poll::Ready((guard, result)),
            None => Poll::Pending,
        }
    }
}

impl<G, F> fmt::Debug for RunOwned<G, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOwned").finish_non_exhaustive()
    }
}
