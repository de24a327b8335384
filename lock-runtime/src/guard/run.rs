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
    /// Something that is polled only while a hold is valid, and dropped when it is lost (S-13): what
    /// [`LockGuard::run`] is made of, for hand-written futures and streams that keep their guard apart.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll};
    ///
    /// use lock_runtime::{LockError, LockGuard, Protected};
    ///
    /// /// Two numbers, each looked up while the lock is held.
    /// fn poll_both<F: Future<Output = u32>>(
    ///     mut lookup: Pin<&mut Protected<F>>,
    ///     guard: &LockGuard,
    ///     cx: &mut Context<'_>,
    /// ) -> Poll<Result<u32, LockError>> {
    ///     lookup.as_mut().poll_with(guard, cx, |lookup, cx| lookup.poll(cx))
    /// }
    /// ```
    pub struct Protected<B> {
        #[pin]
        body: Option<B>,
        #[pin]
        alarm: Alarm,
        // The body's place in the chain of holds.
        link: Option<Arc<Link>>,
        span: Option<HoldSpan>,
    }
}

impl<B> Protected<B> {
    /// Protects `body` once it is polled. Costs nothing before that.
    pub fn new(body: B) -> Self {
        Self { body: Some(body), alarm: Alarm::default(), link: None, span: None }
    }

    /// What is protected; `None` once it is dropped.
    pub fn get_ref(&self) -> Option<&B> {
        self.body.as_ref()
    }

    /// What is protected, to be polled on without a guard, where that has been given back.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Option<Pin<&mut B>> {
        self.project().body.as_pin_mut()
    }

    /// Drops what is protected, so that its destructor runs before the guard's.
    pub fn clear(self: Pin<&mut Self>) {
        let mut this = self.project();
        // A destructor sees the chain that the body saw: it may release nested guards.
        let _entered = this.link.clone().map(|link| scope::enter(Some(link)));
        match this.span {
            None => this.body.set(None),
            Some(span) => {
                span.inside(|| this.body.set(None));
                span.over(RunOutcome::Done);
            }
        }
    }

    /// Polls the body under `guard`, which has to be the same each time.
    ///
    /// Inside, an acquire of the guard's lock is re-entry (S-6). If nothing comes of it, the task is
    /// also woken when the hold is lost. Polled on after the body is gone it stays pending.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] as soon as the hold is lost; the body has been dropped then. With
    /// [`OnLost::Finish`] it is polled on, and the caller may ask
    /// [`is_lost`](LockGuard::is_lost) when it has ended.
    ///
    /// # Cancel safety
    ///
    /// It is a poll: nothing is under way between two of them but the body itself.
    pub fn poll_with<T>(
        self: Pin<&mut Self>,
        guard: &LockGuard,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut B>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LockError>> {
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
            span.inside(|| poll(body, cx))
        };
        if let Poll::Ready(value) = polled {
            return Poll::Ready(Ok(value));
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

impl<F: Future> Protected<F> {
    fn run(
        mut self: Pin<&mut Self>,
        guard: &LockGuard,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        let result = ready!(self.as_mut().poll_with(guard, cx, |body, cx| body.poll(cx)));
        let value = match result {
            Ok(value) => value,
            Err(lost) => return Poll::Ready(Err(lost)),
        };
        let mut this = self.project();
        let hold = guard.hold();
        match this.span {
            None => this.body.set(None),
            Some(span) => span.inside(|| this.body.set(None)),
        }
        let lost = hold.check().err().filter(|_| guard.on_lost == OnLost::Finish);
        if let Some(span) = this.span {
            span.over(if lost.is_some() { RunOutcome::Lost } else { RunOutcome::Done });
        }
        Poll::Ready(lost.map_or(Ok(value), |cause| Err(hold.lost_error(cause))))
    }
}

impl<B> fmt::Debug for Protected<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protected").finish_non_exhaustive()
    }
}

pin_project! {
    /// A body that runs under a borrowed guard: see [`LockGuard::run`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Run<'a, F> {
        #[pin]
        runner: Protected<F>,
        guard: &'a LockGuard,
    }
}

impl<'a, F: Future> Run<'a, F> {
    pub(crate) fn new(guard: &'a LockGuard, body: F) -> Self {
        Self { runner: Protected::new(body), guard }
    }
}

impl<F: Future> Future for Run<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.runner.run(this.guard, cx)
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
        runner: Protected<F>,
        guard: Option<G>,
    }
}

impl<G: AsRef<LockGuard>, F: Future> RunOwned<G, F> {
    pub(crate) fn new(guard: G, body: F) -> Self {
        Self { runner: Protected::new(body), guard: Some(guard) }
    }
}

impl<G: AsRef<LockGuard>, F: Future> Future for RunOwned<G, F> {
    type Output = (G, Result<F::Output, LockError>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // Polled after completion, which a future may answer as it likes short of a panic.
        let Some(guard) = this.guard.as_ref() else { return Poll::Pending };
        let result = ready!(this.runner.run(guard.as_ref(), cx));
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
