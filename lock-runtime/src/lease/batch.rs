//! Renewals that are sent together, and what a hold says of its renewals.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Hold;
use crate::clock::Tick;
use crate::error::StoreError;
use crate::observe::{RenewOutcome, log_lock};
use crate::options::Lease;

/// Most holds in one request to the store, which may split it.
const MAX_BATCH: usize = 256;

/// What is asked of the store for a hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Manner {
    /// To keep it for so long.
    Renew(Duration),
    /// Only whether it is held, with this lease, which must not move.
    Ask(Duration),
}

impl Manner {
    pub(super) fn lease(self) -> Duration {
        match self {
            Self::Renew(lease) | Self::Ask(lease) => lease,
        }
    }

    /// The lease that a success confirms.
    pub(super) fn renewed(self) -> Option<Duration> {
        match self {
            Self::Renew(lease) => Some(lease),
            Self::Ask(_) => None,
        }
    }
}

/// Holds that are renewed with one request.
pub(super) struct Batch {
    pub(super) manner: Manner,
    pub(super) renewals: Vec<Renewal>,
    /// The holds without an answer, or whose renewal failed.
    pub(super) failed: Mutex<Vec<Arc<Hold>>>,
}

/// A renewal of one hold under way, counted until it is answered or dropped.
pub(super) struct Renewal {
    pub(super) hold: Arc<Hold>,
    // | `open` | `failed` | |
    // |---|---|---|
    // | yes | no | it is under way |
    // | yes | yes | its answer is overdue: it counts as failed, and an answer may still confirm it |
    // | no | either | it is answered, or was dropped |
    //
    // A store may answer more than once, and by the type of `OnRenewed` from any task. Each flag is its own partner: the `swap`
    // that comes first ends the renewal, or counts the failure.
    open: AtomicBool,
    /// True once it counts as failed.
    failed: AtomicBool,
}

impl Renewal {
    /// A renewal that the hold has already counted.
    pub(super) fn new(hold: Arc<Hold>) -> Self {
        Self { hold, open: AtomicBool::new(true), failed: AtomicBool::new(false) }
    }

    /// True for the first call.
    pub(super) fn end(&self) -> bool {
        let is_first = self.open.swap(false, Ordering::AcqRel);
        if is_first {
            self.hold.renewal_ends();
        }
        is_first
    }
}

impl Renewal {
    /// Counts it as failed, once: without an answer in time, or with none at all.
    pub(super) fn fails(&self) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.hold.recorder.renewed(RenewOutcome::Failed);
        }
    }

    /// Counts it as failed if it is still without an answer.
    pub(super) fn fails_if_open(&self) {
        if self.open.load(Ordering::Acquire) && self.hold.is_held() {
            self.fails();
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        // A task that ends with its runtime, or whose successor drops what it has begun, leaves no renewal counted.
        self.end();
    }
}

/// Groups renewals of equal lease into batches.
pub(super) fn batches(due: HashMap<Manner, Vec<Renewal>>) -> Vec<Batch> {
    let mut batches = Vec::new();
    for (manner, renewals) in due {
        let mut renewals = renewals.into_iter().peekable();
        while renewals.peek().is_some() {
            let renewals = renewals.by_ref().take(MAX_BATCH).collect();
            batches.push(Batch { manner, renewals, failed: Mutex::default() });
        }
    }
    batches
}

/// Logs a problem of several holds with the name of the first: a batch has hundreds.
pub(super) fn log_first(holds: &[Arc<Hold>], error: Option<&StoreError>, what: &'static str) {
    let Some(first) = holds.first() else { return };
    let (label, error) = (first.recorder.label(), error.map(tracing::field::display));
    log_lock!(warn, first.target.key(), label, lock.holds = holds.len(), error, "{what}");
}

impl Hold {
    /// Returns the lease to renew for at `now`, if this hold should be renewed.
    pub(crate) fn renewal(&self, now: Tick) -> Option<Duration> {
        let Lease::Watchdog(lease) = self.lease else { return None };
        let until = Tick::from_nanos(self.renew_until.load(Ordering::Acquire));
        (now < until).then_some(lease)
    }

    /// Counts a renewal that is sent now. False if `most` are under way.
    pub(super) fn renewal_begins(&self, most: u8) -> bool {
        // The partner is `renewal_ends`. A bound only: a hold that has so many is due again after a sixth of its lease.
        let one_more = |under_way| (under_way < most).then_some(under_way + 1);
        self.renewals.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// True if a renewal is under way.
    pub(super) fn has_renewals(&self) -> bool {
        self.renewals.load(Ordering::Acquire) > 0
    }

    /// Counts a renewal as ended.
    pub(super) fn renewal_ends(&self) {
        self.renewals.fetch_sub(1, Ordering::AcqRel);
    }

    /// Allows renewals until then, as the current holder's guard has it. True if they were to end earlier
    /// before.
    pub(crate) fn set_renew_until(&self, until: Option<Tick>) -> bool {
        let until = until.map_or(u64::MAX, Tick::as_nanos);
        // Nothing else sets it: usually there is no limit, and nothing to write. The partner of the store is the load in
        // `renewal`: a watchdog that misses it is woken by `reconsider`, or sends a renewal more.
        let before = self.renew_until.load(Ordering::Relaxed);
        if before != until {
            self.renew_until.store(until, Ordering::Release);
        }
        before != u64::MAX
    }
}
