//! Running a body under a guard: polled while the hold is valid, dropped when it is lost.
// S-13.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Sleep, sleep_until};

use super::LockGuard;
use super::protected::Protected;
use crate::clock::Tick;
use crate::error::{LockError, LossCause};
use crate::lease::Hold;
use crate::observe::{HoldSpan, RunOutcome};
use crate::opaque::opaque_debug;
use crate::options::OnLost;
use crate::scope::{self, Link};

pin_project! {
    /// Wakes its task when a hold is lost: by a timer at the deadline, or earlier by the store's answer. Costs
    /// nothing until it is first polled.
    #[project = AlarmProjection]
    pub(crate) enum Alarm {
        One { #[pin] told: Option<OwnedNotified>, #[pin] timer: Option<Sleep> },
        // Of several locks: one for each of their holds, and one for the hold of all of them.
        Several { alarms: Vec<Pin<Box<Alarm>>> },
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::One { told: None, timer: None }
    }
}

impl Alarm {
    /// Resolves once the hold is lost.
    pub(crate) fn poll_lost(
        self: Pin<&mut Self>,
        hold: &Arc<Hold>,
        cx: &mut Context<'_>,
    ) -> Poll<LossCause> {
        self.poll_until(hold, || hold.lost(), || hold.check(), cx)
    }

    /// Resolves once `check` fails: it is called after each notification of `told`, and at the deadline.
    pub(super) fn poll_until(
        mut self: Pin<&mut Self>,
        hold: &Arc<Hold>,
        told: impl Fn() -> Arc<Notify>,
        check: impl Fn() -> Result<Tick, LossCause>,
        cx: &mut Context<'_>,
    ) -> Poll<LossCause> {
        let parts = hold.parts();
        if parts.len() > 1 && matches!(*self, Self::One { .. }) {
            let alarms = (0..=parts.len()).map(|_| Box::pin(Self::default()));
            self.set(Self::Several { alarms: alarms.collect() });
        }
        if let AlarmProjection::Several { alarms } = self.as_mut().project() {
            for (alarm, part) in alarms.iter_mut().zip(parts) {
                // The check below finds the same.
                let _ = alarm.as_mut().poll_lost(part, cx);
            }
            let Some(whole) = alarms.last_mut() else { return Poll::Pending };
            return whole.as_mut().poll_one(hold, told, check, cx);
        }
        self.poll_one(hold, told, check, cx)
    }

    fn poll_one(
        self: Pin<&mut Self>,
        hold: &Hold,
        told: impl Fn() -> Arc<Notify>,
        check: impl Fn() -> Result<Tick, LossCause>,
        cx: &mut Context<'_>,
    ) -> Poll<LossCause> {
        let AlarmProjection::One { told: mut notified, mut timer } = self.project() else {
            return Poll::Pending;
        };
        loop {
            // Register, then check, then wait: a loss in between is found by the check.
            if notified.is_none() {
                notified.set(Some(told().notified_owned()));
            }
            if let Some(its) = notified.as_mut().as_pin_mut()
                && its.poll(cx).is_ready()
            {
                notified.set(None);
            }
            if let Err(cause) = check() {
                return Poll::Ready(cause);
            }
            if notified.is_none() {
                continue;
            }
            if timer.is_none() {
                // Also wakes in between, to check that renewals go on.
                let soon = hold.clock().now().after(hold.lease.duration() / 3);
                let look = hold.clock().timer_for(hold.deadline().min(soon));
                timer.set(Some(sleep_until(look)));
            }
            // Renewals extend the deadline; the timer notices when it fires.
            let Some(its) = timer.as_mut().as_pin_mut() else { continue };
            ready!(its.poll(cx));
            timer.set(None);
        }
    }
}

/// A body that has been started, behind `dyn`: the code that watches it is compiled once, not for each body.
pub(crate) trait Started {
    /// Ready once the body has ended; its value stays in here. Pending forever after that.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    /// Drops the body, or its value.
    fn end(self: Pin<&mut Self>);
}

pin_project! {
    /// The state of a body that runs under a hold: the waker for the loss of the hold, and the body's place in
    /// the chain of holds.
    #[derive(Default)]
    pub(crate) struct Watch {
        #[pin]
        alarm: Alarm,
        link: Option<Arc<Link>>,
        span: Option<HoldSpan>,
        ending: Ending,
    }
}

/// What a ready body means.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Ending {
    /// It has ended; with [`OnLost::Finish`] a loss is reported only now.
    #[default]
    Heeds,
    /// It has ended, and ignores the loss of this hold.
    Unheeded,
    /// It may be polled on, as a stream is.
    GoesOn,
}

impl Watch {
    /// For a body that ignores the loss of the hold: it only has a place in the chain.
    pub(crate) fn unheeded() -> Self {
        Self { ending: Ending::Unheeded, ..Self::default() }
    }

    /// For a body that may be polled again after it was ready, until it is [left](Self::leave).
    pub(super) fn going_on() -> Self {
        Self { ending: Ending::GoesOn, ..Self::default() }
    }

    /// Runs `work`, which drops the body, where the body's destructors see the same chain as the body did.
    pub(super) fn leave(self: Pin<&mut Self>, outcome: RunOutcome, work: impl FnOnce()) {
        let this = self.project();
        let _entered = this.link.clone().map(|link| scope::enter(Some(link)));
        match this.span {
            None => work(),
            Some(span) => {
                span.inside(work);
                span.over(outcome);
            }
        }
    }

    /// Polls the body while the hold is valid.
    pub(crate) fn poll(
        self: Pin<&mut Self>,
        guard: &LockGuard,
        mut body: Pin<&mut (dyn Started + '_)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), LockError>> {
        let this = self.project();
        let hold = guard.hold();
        // The runtime that ran the watchdog may end, before or during this run.
        for held in guard.each() {
            held.leases.revive(false);
            if this.link.is_none() {
                match held.leases.check_caller() {
                    Ok(runtime) => held.leases.ensure_running(runtime),
                    Err(error) => {
                        body.end();
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
        let link = this.link.get_or_insert_with(|| guard.link());
        let span = this.span.get_or_insert_with(|| {
            HoldSpan::new(&hold.target, || hold.recorder.label(), guard.token())
        });
        let on_lost = match this.ending {
            Ending::Unheeded => OnLost::Finish,
            Ending::Heeds | Ending::GoesOn => guard.on_lost,
        };
        if let (Err(cause), OnLost::Cancel) = (hold.check(), on_lost) {
            return lose(hold, link, span, body, cause);
        }
        let polled = {
            let _entered = scope::enter(Some(Arc::clone(link)));
            span.inside(|| body.as_mut().poll(cx))
        };
        if polled.is_ready() {
            // S-13: the poll itself may have lasted past the deadline. Its result is late then.
            let heeds = *this.ending == Ending::Heeds || on_lost == OnLost::Cancel;
            if heeds && let Err(cause) = hold.check() {
                return lose(hold, link, span, body, cause);
            }
            if *this.ending != Ending::GoesOn {
                span.over(RunOutcome::Done);
            }
            return Poll::Ready(Ok(()));
        }
        if on_lost == OnLost::Finish {
            return Poll::Pending;
        }
        let cause = ready!(this.alarm.poll_lost(hold, cx));
        lose(hold, link, span, body, cause)
    }
}

/// Ends the body. Its destructors run inside the chain too: they may release nested guards.
#[inline(never)]
fn lose(
    hold: &Hold,
    link: &Arc<Link>,
    span: &mut HoldSpan,
    body: Pin<&mut (dyn Started + '_)>,
    cause: LossCause,
) -> Poll<Result<(), LockError>> {
    let _entered = scope::enter(Some(Arc::clone(link)));
    span.inside(|| body.end());
    span.over(RunOutcome::Lost);
    Poll::Ready(Err(hold.lost_error(cause)))
}

pin_project! {
    /// A body that runs under a guard of its own: see [`LockGuard::run_owned`].
    ///
    /// # Panics
    ///
    /// If it is polled after it has completed.
    #[must_use = "futures do nothing unless polled"]
    pub struct RunOwned<F: Future> {
        // Before the guard: fields are dropped in this order, and the body goes first (S-13).
        #[pin]
        body: Protected<F>,
        guard: Option<LockGuard>,
    }
}

impl<F: Future> RunOwned<F> {
    pub(crate) fn new(guard: LockGuard, body: F) -> Self {
        Self { body: Protected::to_end(body), guard: Some(guard) }
    }
}

impl<F: Future> Future for RunOwned<F> {
    type Output = (LockGuard, Result<F::Output, LockError>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(guard) = this.guard.as_ref() else {
            panic!("`RunOwned` polled after completion");
        };
        let result = ready!(this.body.poll_to_end(guard, cx));
        this.guard.take().map_or(Poll::Pending, |guard| Poll::Ready((guard, result)))
    }
}

opaque_debug!(<F: Future> RunOwned<F>);
