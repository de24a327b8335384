//! The spans. One that nobody listens to costs a load.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{Empty, debug};
use tracing::{Instrument, Span, debug_span};

use super::{AcquireOutcome, Label, RunOutcome, kind_label};
use crate::fence::FencingToken;
use crate::store::Target;

/// Around one acquire.
#[derive(Clone)]
pub(crate) struct AcquireSpan(Span);

impl AcquireSpan {
    pub(super) fn none() -> Self {
        Self(Span::none())
    }

    pub(super) fn new(target: &Target, label: &Label) -> Self {
        Self(debug_span!(
            target: "lock_runtime",
            "lock.acquire",
            lock.name = ?target.key(),
            lock.kind = kind_label(target.kind()),
            lock.policy = ?label,
            lock.outcome = Empty,
            lock.token = Empty,
            lock.waited = Empty,
        ))
    }

    pub(super) fn over(
        &self,
        outcome: AcquireOutcome,
        waited: impl FnOnce() -> Duration,
        token: Option<FencingToken>,
    ) {
        if self.0.is_disabled() {
            return;
        }
        self.0.record("lock.outcome", outcome.as_str());
        self.0.record("lock.waited", debug(waited()));
        if let Some(token) = token {
            self.0.record("lock.token", token.get());
        }
    }

    /// Has what `future` logs and starts belong to the span.
    pub(crate) fn around<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        future.instrument(self.0)
    }
}

/// Around what runs under a guard. Ends as cancelled, unless it was told otherwise.
pub(crate) struct HoldSpan {
    span: Span,
    started: Option<Instant>,
}

impl HoldSpan {
    pub(crate) fn new(target: &Target, label: impl Fn() -> Label, token: FencingToken) -> Self {
        let span = debug_span!(
            target: "lock_runtime",
            "lock.hold",
            lock.name = ?target.key(),
            lock.kind = kind_label(target.kind()),
            lock.policy = ?label(),
            lock.outcome = Empty,
            lock.token = token.get(),
            lock.held = Empty,
        );
        let started = (!span.is_disabled()).then(Instant::now);
        Self { span, started }
    }

    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }

    pub(crate) fn over(&mut self, outcome: RunOutcome) {
        if let Some(started) = self.started.take() {
            self.span.record("lock.outcome", outcome.as_str());
            self.span.record("lock.held", debug(started.elapsed()));
        }
    }
}

impl Drop for HoldSpan {
    fn drop(&mut self) {
        self.over(RunOutcome::Cancelled);
    }
}

impl fmt::Debug for HoldSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldSpan").finish_non_exhaustive()
    }
}
