//! Records one acquire and one hold: the end of each once, whatever ends it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::span::AcquireSpan;
use super::{AcquireOutcome, Label, Meter, RenewOutcome};
use crate::clock::Tick;
use crate::error::{LockError, LossCause};
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::store::Target;

/// Records one acquire, from its first poll on. If it is dropped earlier, it records a cancellation.
pub(crate) struct AcquireRecorder {
    meter: Meter,
    span: AcquireSpan,
    /// `None` until the acquire is known to take time.
    started: Option<Instant>,
    waits: bool,
    over: bool,
}

impl AcquireRecorder {
    pub(crate) fn new(target: &Target, label: Label) -> Self {
        let recorder = Self {
            span: AcquireSpan::new(target, &label),
            meter: Meter::new(label, target.kind()),
            started: None,
            waits: false,
            over: false,
        };
        recorder.meter.register();
        recorder
    }

    pub(crate) fn timed_from(mut self, started: Instant) -> Self {
        self.started = Some(started);
        self
    }

    pub(crate) fn label(&self) -> &Label {
        &self.meter.label
    }

    pub(crate) fn span(&self) -> AcquireSpan {
        self.span.clone()
    }

    /// Marks that it waits: in the queue, or after the store's first answer.
    pub(crate) fn waits(&mut self) {
        if !std::mem::replace(&mut self.waits, true) {
            self.meter.waits(true);
        }
    }

    /// Records its end, with the token if it was acquired.
    pub(crate) fn over(&mut self, outcome: AcquireOutcome, token: Option<FencingToken>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        if self.waits {
            self.meter.waits(false);
        }
        let waited = || self.started.map_or(Duration::ZERO, |started| started.elapsed());
        self.meter.acquired(outcome, self.started.map(|_| waited));
        self.span.over(outcome, waited, token);
    }

    /// Records its failure to acquire the lock of that name.
    pub(crate) fn failed(&mut self, name: &LockKey, error: &LockError) {
        self.over(AcquireOutcome::of(error, self.label().is_enforced()), None);
        if !self.label().is_enforced() {
            self.label().not_enforced(name.as_str(), error);
        }
    }
}

impl Drop for AcquireRecorder {
    fn drop(&mut self) {
        self.over(AcquireOutcome::Cancelled, None);
    }
}

/// Records one hold for its current holder. It counts outside of its mutex, because a recorder may call any
/// code.
#[derive(Default)]
pub(crate) struct HoldRecorder(Mutex<Whose>);

#[derive(Default)]
struct Whose {
    /// The meter of the current or last holder.
    meter: Option<Meter>,
    /// Since when it has a holder, if it has one.
    since: Option<Tick>,
    /// True once its end has been, or will be, counted.
    ended: bool,
}

impl HoldRecorder {
    /// For a hold whose parts are counted in its place: it has only the label of its holder.
    pub(crate) fn uncounted(meter: Meter) -> Self {
        Self(Mutex::new(Whose { meter: Some(meter), since: None, ended: true }))
    }

    /// Records that a task holds it from now on.
    pub(crate) fn begin(&self, meter: Meter, now: Tick) {
        meter.holds();
        let before = {
            let mut whose = self.0.lock();
            let before = whose.meter.replace(meter);
            before.zip(whose.since.replace(now))
        };
        if let Some((before, since)) = before {
            before.held_for(now.since(since));
        }
    }

    /// Counts the end of the hold, unless that was counted. Returns the meter of the last holder.
    pub(crate) fn end(&self, now: Tick) -> Option<Meter> {
        let (meter, since) = {
            let mut whose = self.0.lock();
            (whose.meter.clone(), whose.since.take())
        };
        if let (Some(meter), Some(since)) = (&meter, since) {
            meter.held_for(now.since(since));
        }
        meter
    }

    /// Records its loss.
    pub(crate) fn lost(&self, cause: LossCause, now: Tick) {
        if let Some(meter) = self.end(now) {
            meter.lost(cause);
        }
    }

    /// Returns the meter that counts its end, to the first caller.
    pub(crate) fn to_end(&self) -> Option<Meter> {
        let mut whose = self.0.lock();
        (!std::mem::replace(&mut whose.ended, true)).then(|| whose.meter.clone()).flatten()
    }

    /// Records an attempt to renew it.
    pub(crate) fn renewed(&self, outcome: RenewOutcome) {
        let meter = self.0.lock().meter.clone();
        if let Some(meter) = meter {
            meter.renewed(outcome);
        }
    }

    /// Returns the label of its holder.
    pub(crate) fn label(&self) -> Label {
        self.0.lock().meter.as_ref().map_or_else(Label::default, |meter| meter.label.clone())
    }
}
