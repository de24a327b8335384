//! Logs a wait that lasts: it may be two locks in opposite orders, or a task that waits for itself, which
//! without an end to the wait no error ends.
// S-36.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::PendingAcquire;
use crate::error::LocalHolder;
use crate::lease::Hold;
use crate::lease::manager::LeaseManager;
use crate::observe::{NO_POLICY, log_lock};
use crate::store::{HoldKind, Target};
use crate::timer::{Timer, poll_attended};

/// A wait longer than this is logged.
const LONG: Duration = Duration::from_secs(10);

/// The usual fix for a wait for a lock that this process itself holds.
const HINT: &str = "a task that is spawned inside of a guard's `run` re-enters its lock only if it is \
                    wrapped in `scope::inherit`; a second `lock()` beside a plain guard, which nothing is \
                    run under, waits for that guard; two tasks that take two locks in opposite orders wait \
                    for each other";

impl PendingAcquire {
    /// Drives `taking`, and logs once if it waits for long. An acquire that does not wait has no timer.
    pub(super) fn log_if_long<F: Future>(&self, taking: F) -> LogIfLong<'_, F> {
        self.log_if_longer(LongWait::default(), taking)
    }

    /// The same, for an acquire that has waited before.
    pub(super) fn log_if_longer<F: Future>(&self, long: LongWait, taking: F) -> LogIfLong<'_, F> {
        LogIfLong { pending: self, taking, timer: None, long }
    }

    fn log_long_wait(&self) {
        let (key, label) = (self.spec.target.key(), self.recorder.label());
        let holder = self.holder();
        log_lock!(warn, key, label, lock.holder = %holder, "has waited {LONG:?} for the lock");
    }

    /// Describes the holder, as far as this process knows it.
    fn holder(&self) -> String {
        if self.spec.target.kind() == HoldKind::Latch {
            return "none: the latch is not counted down to zero".to_owned();
        }
        if let Some(LocalHolder { site, held_for }) = self.local_holder() {
            let site = site.as_deref().unwrap_or("unknown");
            return format!("this process, which acquired it {held_for:.1?} ago at {site}; {HINT}");
        }
        let own = *self.holder_ends.lock();
        match own.or_else(|| self.spec.engine.gates.holder_ends(&self.spec.target)) {
            Some(ends) => format!(
                "another client, whose lease has {:.1?} left unless it is renewed",
                ends.saturating_duration_since(Instant::now())
            ),
            None => "another client, or unknown to this one".to_owned(),
        }
    }

    /// Describes the hold of this process that has the lock.
    pub(super) fn local_holder(&self) -> Option<LocalHolder> {
        let hold = self.hold_of_this_process()?;
        let site = hold.recorder.label().call_site().map(|site| site.to_string());
        Some(LocalHolder { site, held_for: hold.clock().now().since(hold.taken_at) })
    }

    /// Returns the hold of this process that has the lock as another kind, under the same policy: its kind was changed
    /// by a reload. Two kinds without a policy are a mistake in the code.
    pub(super) fn hold_of_earlier_kind(&self) -> Option<Arc<Hold>> {
        let policy = self.recorder.label().as_str();
        let is_earlier = |hold: &Arc<Hold>| {
            hold.recorder.label().as_str() == policy
                && hold.target.kind() != self.spec.target.kind()
        };
        self.hold_of_this_process().filter(|hold| self.has_policy() && is_earlier(hold))
    }

    /// True if the lock follows a policy, whose kind a reload may change.
    pub(super) fn has_policy(&self) -> bool {
        self.recorder.label().as_str() != NO_POLICY
    }

    /// Returns a hold of one of these locks. It belongs to this client or, for a multi lock, to one of its
    /// clients.
    fn hold_of_this_process(&self) -> Option<Arc<Hold>> {
        let mine = self.spec.engine.leases.id;
        let is_wanted = |(home, lock): (u64, &Target)| {
            let is_same = |(by, it): (u64, &Target)| by == home && it.key() == lock.key();
            self.spec.target.locks_at_home(mine).any(is_same)
        };
        self.spec.engine.relatives().iter().find_map(|engine| {
            let LeaseManager { id, watchdog, .. } = &*engine.leases;
            // Does not declare a loss: that would wake tasks under the queue's mutex.
            let is_held = |hold: &Hold| !hold.is_released() && !hold.peek_remaining().is_zero();
            watchdog.find(|hold| hold.target.locks_at_home(*id).any(is_wanted) && is_held(hold))
        })
    }

    /// Records the holder's lease as the store reported it.
    pub(super) fn note_holder(&self, remaining: Option<Duration>) {
        let ends = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        *self.holder_ends.lock() = ends;
    }
}

/// Whether a wait is logged.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LongWait {
    /// It was not looked at yet.
    #[default]
    New,
    /// It was not long when it was last looked at.
    Waits,
    Logged,
}

impl LongWait {
    /// Logs the wait, once, if it is long by now. For a wait that is polled often enough without a timer; most are polled
    /// only once before they end, and the first call reads no clock.
    pub(super) fn look(&mut self, pending: &PendingAcquire) {
        match self {
            Self::New => *self = Self::Waits,
            Self::Waits if Instant::now() >= pending.started + LONG => self.log(pending),
            Self::Waits | Self::Logged => {}
        }
    }

    fn log(&mut self, pending: &PendingAcquire) {
        *self = Self::Logged;
        pending.log_long_wait();
    }
}

pin_project! {
    /// The future of [`log_if_long`](PendingAcquire::log_if_long), which keeps `taking` once.
    pub(super) struct LogIfLong<'a, F> {
        pending: &'a PendingAcquire,
        #[pin]
        taking: F,
        timer: Option<Timer>,
        long: LongWait,
    }
}

impl<F: Future> Future for LogIfLong<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let (pending, long) = (this.pending, this.long);
        let is_attended = match poll_attended(this.taking, cx) {
            (Poll::Ready(taken), _) => return Poll::Ready(taken),
            (Poll::Pending, is_attended) => is_attended,
        };
        if *long == LongWait::Logged || !pending.recorder.is_waiting() {
            return Poll::Pending;
        }
        if is_attended {
            long.look(pending);
        } else {
            let timer = this.timer.get_or_insert_with(|| Timer::at(pending.started + LONG, cx));
            if timer.poll(cx).is_ready() {
                long.log(pending);
            }
        }
        Poll::Pending
    }
}
