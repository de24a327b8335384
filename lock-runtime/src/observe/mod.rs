//! The names of every metric, span and field, and the values that they take.
//!
//! Metrics (feature `metrics`) go to the recorder of the crate [`metrics`](https://docs.rs/metrics) that the
//! program installs. Their labels are `policy`, `kind` and an outcome or a cause: never the name of a lock, so
//! that the number of series depends only on the number of policies. [`METRICS`] lists them; `describe`
//! describes them to a recorder. A recorder that panics counts nothing, and no lock is affected.
//!
//! Spans (feature `tracing`, on by default) are at level `DEBUG` of target `lock_runtime`:
//!
//! - [`SPAN_ACQUIRE`] lasts from the first poll of an acquire to its outcome.
//! - [`SPAN_HOLD`] encloses the body that [`LockGuard::run`](crate::LockGuard::run) polls.
//!
//! Their fields are in [`ACQUIRE_FIELDS`] and [`HOLD_FIELDS`]. A lock's name is written as a Rust string
//! literal, quotes and escapes included, so that no name can forge a line of a log. No field contains an owner
//! id or a password.
//!
//! An acquire counts one outcome; a hold counts one start, one end and one release. A hold is one in the store:
//! a re-entry, or a reader that joins the readers of its process, uses the existing hold and counts none. An
//! error before the request (an invalid name, options that contradict each other, an unknown policy) is the
//! caller's and counts as no acquire.
//!
//! # Examples
//!
//! ```
//! use lock_runtime::observe::METRICS;
//!
//! let waits = METRICS.iter().find(|metric| metric.name == "lock_wait_seconds").unwrap();
//! assert_eq!(waits.labels, ["policy", "kind", "outcome"]);
//! ```

pub(crate) mod label;
#[cfg_attr(not(feature = "metrics"), path = "no_meter.rs")]
mod meter;
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod names;
#[cfg(not(feature = "__internals"))]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "what the tests of the workspace use, with the feature `__internals`"
)]
mod names;
mod recorder;
mod span;

pub(crate) use self::label::{Label, Meter, log_lock};
#[cfg(feature = "metrics")]
pub use self::meter::describe;
#[cfg(feature = "metrics")]
pub(crate) use self::names::cause_label;
pub(crate) use self::names::kind_label;
pub(crate) use self::names::{AcquireOutcome, ReleaseOutcome, RenewOutcome, RunOutcome};
pub(crate) use self::recorder::{AcquireRecorder, HoldRecorder};
pub(crate) use self::span::{AcquireSpan, HoldSpan};

/// The span around an acquire.
pub const SPAN_ACQUIRE: &str = "lock.acquire";

/// The span around the body that runs under a guard.
pub const SPAN_HOLD: &str = "lock.hold";

/// The fields of [`SPAN_ACQUIRE`]: the lock's full name, escaped; its kind; its policy or [`NO_POLICY`]; the
/// outcome, as in [`ACQUIRE_TOTAL`]; the fencing token, if it was acquired; how long the acquire
/// took, in the format of [`Duration`](std::time::Duration) (`1.5ms`).
pub const ACQUIRE_FIELDS: &[&str] =
    &["lock.name", "lock.kind", "lock.policy", "lock.outcome", "lock.token", "lock.waited"];

/// The fields of [`SPAN_HOLD`]: as [`ACQUIRE_FIELDS`], but the outcome is `done`, `lost` or `cancelled`,
/// and the duration is that of the body. The policy is that of the task that acquired the hold, even for a re-entry.
pub const HOLD_FIELDS: &[&str] =
    &["lock.name", "lock.kind", "lock.policy", "lock.outcome", "lock.token", "lock.held"];

/// The value of the policy label for a lock without a policy.
pub const NO_POLICY: &str = "none";

/// A metric: its name, type, labels and description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name that the recorder receives.
    pub name: &'static str,
    /// The type of its number.
    pub kind: MetricKind,
    /// The labels that it always has.
    pub labels: &'static [&'static str],
    /// Its description, in one sentence.
    pub help: &'static str,
}

/// The type of a [`Metric`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Durations, in seconds.
    Histogram,
}

/// Acquires that ended, by outcome: `acquired` from the store; `handed_over` by a task of this process, `joined` by a reader or
/// `reentered`, without the store; `timeout`; `busy`, where the call did not wait or too many tasks did; `cancelled`; `lost`,
/// the hold to re-enter; `would_deadlock`; `collision` with another kind; `not_replicated`; `closed`; `failed`, by the store.
/// Under a policy that is not enforced, `not_enforced` for a busy lock, and `unanswered` where the store did not tell.
pub const ACQUIRE_TOTAL: &str = "lock_acquire_total";
/// How long acquires took, by outcome as [`ACQUIRE_TOTAL`].
pub const WAIT_SECONDS: &str = "lock_wait_seconds";
/// How long holds were kept.
pub const HOLD_SECONDS: &str = "lock_hold_seconds";
/// Current holds.
pub const HELD: &str = "lock_held";
/// Acquires that wait now.
pub const WAITING: &str = "lock_waiting";
/// Holds that were lost, by cause: `deadline` or `not_owner`.
pub const LOST_TOTAL: &str = "lock_lost_total";
/// Renewals of a hold, by outcome: `renewed`, `not_owner` or `failed`.
pub const RENEW_TOTAL: &str = "lock_renew_total";
/// Ends of holds, by outcome: `released`, `lost`, or `failed` where the store did not confirm it in time.
pub const RELEASE_TOTAL: &str = "lock_release_total";
/// Holds that were handed on inside the process.
pub const HANDOFF_TOTAL: &str = "lock_handoff_total";

const PLAIN: &[&str] = &["policy", "kind"];
const BY_OUTCOME: &[&str] = &["policy", "kind", "outcome"];
const BY_CAUSE: &[&str] = &["policy", "kind", "cause"];

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help }
}

/// Every metric.
pub const METRICS: &[Metric] = {
    use MetricKind::{Counter, Gauge, Histogram};
    &[
        metric(ACQUIRE_TOTAL, Counter, BY_OUTCOME, "Acquires that came to an end, by outcome."),
        metric(
            WAIT_SECONDS,
            Histogram,
            BY_OUTCOME,
            "Time from the first poll of an acquire to its outcome; what is answered at once, as a \
             re-entry, is not timed.",
        ),
        metric(
            HOLD_SECONDS,
            Histogram,
            PLAIN,
            "Time from the grant of a hold to its release, hand-off or loss.",
        ),
        metric(HELD, Gauge, PLAIN, "Holds of this process now."),
        metric(WAITING, Gauge, PLAIN, "Acquires of this process that queue or wait for the store."),
        metric(
            LOST_TOTAL,
            Counter,
            BY_CAUSE,
            "Holds that were lost before they were released, by cause.",
        ),
        metric(
            RENEW_TOTAL,
            Counter,
            BY_OUTCOME,
            "Renewals by the watchdog, for each hold and attempt, by outcome; one that is answered too late counts as failed, and then by its answer.",
        ),
        metric(
            RELEASE_TOTAL,
            Counter,
            BY_OUTCOME,
            "Ends of holds that were not handed on, by outcome.",
        ),
        metric(
            HANDOFF_TOTAL,
            Counter,
            PLAIN,
            "Holds handed to the next waiter of this process, without a request to the store.",
        ),
    ]
};
