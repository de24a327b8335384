//! Renewals that are sent together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Hold;
use crate::observe::RenewOutcome;

/// Most holds in one request to the store, which may split it.
pub(super) const MAX_BATCH: usize = 256;

/// Holds that are renewed with one request.
pub(super) struct Batch {
    pub(super) lease: Duration,
    pub(super) renewals: Vec<Renewal>,
    /// The holds without an answer, or whose renewal failed.
    pub(super) failed: Mutex<Vec<Arc<Hold>>>,
}

/// Leases that nested guards want a hold renewed with.
#[derive(Default)]
pub(super) struct Wishes(pub(super) Vec<Duration>);

/// A renewal of one hold under way, counted until it is answered or dropped.
pub(super) struct Renewal {
    pub(super) hold: Arc<Hold>,
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
        self.end();
    }
}

/// Groups renewals of equal lease into batches.
pub(super) fn batches(due: HashMap<Duration, Vec<Renewal>>) -> Vec<Batch> {
    let mut batches = Vec::new();
    for (lease, renewals) in due {
        let mut renewals = renewals.into_iter().peekable();
        while renewals.peek().is_some() {
            let renewals = renewals.by_ref().take(MAX_BATCH).collect();
            batches.push(Batch { lease, renewals, failed: Mutex::default() });
        }
    }
    batches
}
