//! Tells that this process stood still: stopped, suspended, or with a task that blocks its runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Hold;
use crate::clock::Tick;
use crate::error::LossCause;
use crate::observe::log_lock;

/// A task that runs this late is no sign that the process stood still.
const LATE: Duration = Duration::from_millis(500);

/// The times at which the watchdog meant to run, and did. While there are holds that is once a second at least.
#[derive(Debug)]
// Relaxed, all of it: a look between two stores makes a note in the log wrong, and decides nothing.
pub(crate) struct Pulse {
    /// When it means to run next, in nanoseconds of a [`Tick`]; the end of time while it has no reason to.
    next: AtomicU64,
    /// When the last time ended that the process stood still, and how long that was, in nanoseconds.
    stood_until: AtomicU64,
    stood_for: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(u64::MAX),
            stood_until: AtomicU64::new(0),
            stood_for: AtomicU64::new(0),
        }
    }
}

impl Pulse {
    /// Records that the watchdog runs.
    pub(super) fn runs(&self, now: Tick) {
        let late = self.late(now);
        if late >= LATE {
            self.stood_for.store(crate::clock::nanos(late), Ordering::Relaxed);
            self.stood_until.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Records when it means to run next.
    pub(super) fn plan(&self, next: Option<Tick>) {
        self.next.store(next.map_or(u64::MAX, Tick::as_nanos), Ordering::Relaxed);
    }

    /// Returns for how long the process stood still, if it did since `earliest`. The task that finds a loss may be the first
    /// that runs again, so a watchdog that is late now counts as well.
    pub(super) fn stood_still(&self, earliest: Tick, now: Tick) -> Option<Duration> {
        let late = self.late(now);
        if late >= LATE {
            return Some(late);
        }
        let until = Tick::from_nanos(self.stood_until.load(Ordering::Relaxed));
        let stood_for = Duration::from_nanos(self.stood_for.load(Ordering::Relaxed));
        (until > earliest).then_some(stood_for)
    }

    fn late(&self, now: Tick) -> Duration {
        now.since(Tick::from_nanos(self.next.load(Ordering::Relaxed)))
    }
}

impl Hold {
    /// Records and logs its loss.
    pub(super) fn log_loss(&self, cause: LossCause) {
        // Called after the state has changed and all were told: a subscriber of the log may take its time.
        let (now, label) = (self.clock.now(), self.recorder.label());
        self.recorder.lost(cause, now);
        let (token, held) = (self.token().get(), now.since(self.taken_at));
        let renewed_at = self.deadline().before(self.lease.duration());
        let stood_still = self.pulse.stood_still(renewed_at, now);
        let note = stood_still.filter(|_| cause == LossCause::Deadline);
        let note = note.map(|time| format!("this process stood still for {time:.1?}"));
        let note = note.as_ref().map(tracing::field::display);
        log_lock!(
            warn, self.target.key(), label, %cause, lock.token = token, lock.held = ?held, note,
            "lock lost"
        );
    }
}
