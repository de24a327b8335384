//! Counting, through the crate `metrics`.
//!
//! Keys are created once for each policy and kind: after that, counting allocates nothing here. Handles are not
//! kept, because a program may install its recorder after its first lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Key, Level, Metadata, Recorder, SharedString, Unit, with_recorder};

use super::names::KINDS;
use super::{
    ACQUIRE_TOTAL, AcquireOutcome, HANDOFF_TOTAL, HELD, HOLD_SECONDS, LOST_TOTAL, METRICS, Meter,
    MetricKind, NO_POLICY, RELEASE_TOTAL, RENEW_TOTAL, ReleaseOutcome, RenewOutcome, WAIT_SECONDS,
    WAITING, cause_label, kind_label,
};
use crate::error::LossCause;
use crate::store::HoldKind;

const METADATA: Metadata<'static> =
    Metadata::new("lock_runtime", Level::INFO, Some("lock_runtime::observe"));

/// Describes the unit and the meaning of every metric in [`METRICS`] to the installed recorder. Call it once,
/// after the recorder was installed; metrics are counted without it too.
///
/// # Examples
///
/// ```
/// // After, say, `metrics_exporter_prometheus::PrometheusBuilder::new().install()?`:
/// lock_runtime::observe::describe();
/// ```
pub fn describe() {
    with_recorder(|recorder| {
        for metric in METRICS {
            let (name, help) = (metric.name.into(), SharedString::const_str(metric.help));
            match metric.kind {
                MetricKind::Counter => recorder.describe_counter(name, Some(Unit::Count), help),
                MetricKind::Gauge => recorder.describe_gauge(name, Some(Unit::Count), help),
                MetricKind::Histogram => {
                    recorder.describe_histogram(name, Some(Unit::Seconds), help);
                }
            }
        }
    });
}

/// The keys of one policy, by kind.
#[derive(Default)]
pub(super) struct Keys([OnceLock<Box<OfKind>>; KINDS]);

static OF_NO_POLICY: Keys = Keys([const { OnceLock::new() }; KINDS]);

/// The keys of one policy and kind. Lists are in the order of the enums' values.
struct OfKind {
    acquired: Vec<Key>,
    waited: Vec<Key>,
    renewed: Vec<Key>,
    released: Vec<Key>,
    lost: [Key; 2],
    held_for: Key,
    held: Key,
    waiting: Key,
    handed_on: Key,
    /// The address of the recorder with which all keys were registered; zero for none.
    registered_with: AtomicUsize,
}

impl OfKind {
    fn new(policy: SharedString, kind: HoldKind) -> Self {
        let policy = || ("policy", policy.clone());
        let kind = ("kind", SharedString::const_str(kind_label(kind)));
        let labels = |more: Option<(&'static str, &'static str)>| {
            let more = more.map(|(key, word)| (key, SharedString::const_str(word)));
            let labels = [policy(), kind.clone()].into_iter().chain(more);
            labels.map(|(key, word)| metrics::Label::new(key, word)).collect::<Vec<_>>()
        };
        let plain = |name: &'static str| Key::from_parts(name, labels(None));
        let outcome =
            |name: &'static str, word| Key::from_parts(name, labels(Some(("outcome", word))));
        let lost = |cause| Key::from_parts(LOST_TOTAL, labels(Some(("cause", cause_label(cause)))));
        let acquires = |name| {
            let word = |each: &AcquireOutcome| outcome(name, each.as_str());
            AcquireOutcome::ALL.iter().map(word).collect()
        };
        let renewal = |each: &RenewOutcome| outcome(RENEW_TOTAL, each.as_str());
        let release = |each: &ReleaseOutcome| outcome(RELEASE_TOTAL, each.as_str());
        Self {
            acquired: acquires(ACQUIRE_TOTAL),
            waited: acquires(WAIT_SECONDS),
            renewed: RenewOutcome::ALL.iter().map(renewal).collect(),
            released: ReleaseOutcome::ALL.iter().map(release).collect(),
            lost: [LossCause::Deadline, LossCause::NotOwner].map(lost),
            held_for: plain(HOLD_SECONDS),
            held: plain(HELD),
            waiting: plain(WAITING),
            handed_on: plain(HANDOFF_TOTAL),
            registered_with: AtomicUsize::new(0),
        }
    }

    /// Returns the counters that this kind can count, and its gauges.
    fn series(&self, kind: HoldKind) -> (impl Iterator<Item = &Key>, impl Iterator<Item = &Key>) {
        // A latch has no holder.
        let holds = kind != HoldKind::Latch;
        let of_holds = [&self.handed_on].into_iter().chain(&self.lost);
        let of_holds = of_holds.chain(&self.renewed).chain(&self.released);
        let counters = self.acquired.iter().chain(of_holds.filter(move |_| holds));
        let gauges = std::iter::once(&self.waiting).chain(holds.then_some(&self.held));
        (counters, gauges)
    }
}

/// Lets the installed recorder record, which may run any code. Its panic ends here: inside of a release it would leave the waiter
/// behind that has just been taken out of the queue.
fn record(with: impl FnOnce(&dyn Recorder)) {
    // The panic hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(|| with_recorder(with)));
}

fn count(key: &Key) {
    record(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

fn change(key: &Key, more: bool) {
    record(|recorder| {
        let gauge = recorder.register_gauge(key, &METADATA);
        if more { gauge.increment(1.0) } else { gauge.decrement(1.0) }
    });
}

fn time(key: &Key, took: Duration) {
    record(|recorder| recorder.register_histogram(key, &METADATA).record(took));
}

impl Meter {
    fn keys(&self) -> &OfKind {
        let named = self.label.named();
        let Keys(of_policy) = named.map_or(&OF_NO_POLICY, |named| &named.keys);
        of_policy[self.kind as usize].get_or_init(|| {
            let name = named.map(|named| SharedString::from(Arc::clone(&named.name)));
            Box::new(OfKind::new(name.unwrap_or(SharedString::const_str(NO_POLICY)), self.kind))
        })
    }

    /// Registers the metrics of this policy and kind, at zero, once with each recorder: a counter whose first
    /// sample is 1 shows no increase.
    pub(super) fn register(&self) {
        let keys = self.keys();
        record(|recorder| {
            // A program may install its recorder after its first lock, and tests have one each.
            let address = std::ptr::from_ref(recorder).addr();
            if keys.registered_with.load(Ordering::Relaxed) == address {
                return;
            }
            keys.registered_with.store(address, Ordering::Relaxed);
            let (counters, gauges) = keys.series(self.kind);
            counters.for_each(|key| recorder.register_counter(key, &METADATA).increment(0));
            gauges.for_each(|key| recorder.register_gauge(key, &METADATA).increment(0.0));
        });
    }

    /// Counts the end of an acquire, and its duration if it was timed.
    pub(super) fn acquired(
        &self,
        outcome: AcquireOutcome,
        waited: Option<impl FnOnce() -> Duration>,
    ) {
        let keys = self.keys();
        count(&keys.acquired[outcome as usize]);
        if outcome == AcquireOutcome::HandedOver {
            count(&keys.handed_on);
        }
        if let Some(waited) = waited {
            time(&keys.waited[outcome as usize], waited());
        }
    }

    /// Counts an acquire that begins or stops waiting.
    pub(super) fn waits(&self, begins: bool) {
        change(&self.keys().waiting, begins);
    }

    /// Counts a hold that begins.
    pub(super) fn holds(&self) {
        change(&self.keys().held, true);
    }

    /// Counts a hold that ends, and its duration.
    pub(super) fn held_for(&self, held: Duration) {
        let keys = self.keys();
        change(&keys.held, false);
        time(&keys.held_for, held);
    }

    pub(crate) fn lost(&self, cause: LossCause) {
        count(&self.keys().lost[cause as usize]);
    }

    pub(crate) fn renewed(&self, outcome: RenewOutcome) {
        count(&self.keys().renewed[outcome as usize]);
    }

    pub(crate) fn released(&self, outcome: ReleaseOutcome) {
        count(&self.keys().released[outcome as usize]);
    }
}
