//! The metric and the span of a fence.

use lock_runtime::fence::{Fences, NotExclusive};
use tracing::Span;
use tracing::field::Empty;

use crate::FenceError;

/// Calls of [`Fence::fence`](crate::Fence::fence) that ended, by the label `outcome`: `fenced`, `stale`, `not_exclusive` or `failed`.
/// One that is dropped before it ends is not counted.
pub const FENCE_TOTAL: &str = "lock_fence_total";

const FENCED: &str = "fenced";
const STALE: &str = "stale";
const NOT_EXCLUSIVE: &str = "not_exclusive";
const FAILED: &str = "failed";

pub(crate) fn span(fences: &Result<Fences, NotExclusive>) -> Span {
    if cfg!(not(feature = "tracing")) {
        return Span::none();
    }
    let span = tracing::debug_span!(
        "lock.fence",
        lock.name = Empty,
        lock.token = Empty,
        lock.outcome = Empty
    );
    if span.is_disabled() {
        return span;
    }
    match fences {
        Ok(fences) => {
            // Escaped, so that no name can forge a line of a log.
            let names: Vec<_> = fences.names().map(|name| format!("{name:?}")).collect();
            span.record("lock.name", tracing::field::display(names.join(", ")));
            span.record("lock.token", fences.token().get());
        }
        Err(error) => {
            span.record("lock.name", tracing::field::debug(error.name()));
        }
    }
    span
}

pub(crate) fn ended(span: &Span, result: &Result<(), FenceError>) {
    let outcome = match result {
        Ok(()) => FENCED,
        Err(FenceError::Stale { .. }) => STALE,
        Err(FenceError::NotExclusive(_)) => NOT_EXCLUSIVE,
        Err(_) => FAILED,
    };
    span.record("lock.outcome", outcome);
    #[cfg(feature = "metrics")]
    for each in [FENCED, STALE, NOT_EXCLUSIVE, FAILED] {
        // All four exist from the first fence: a counter whose first sample is 1 shows no increase.
        metrics::counter!(FENCE_TOTAL, "outcome" => each).increment(u64::from(each == outcome));
    }
}
