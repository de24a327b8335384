//! The spans, disabled without the feature `tracing`. A span that no subscriber enables costs a load.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;
use tracing::field::{Empty, debug};
use tracing::{Instrument, Span};

use super::{AcquireOutcome, Label, RunOutcome, kind_label};
use crate::fence::FencingToken;
use crate::store::Target;

/// A span of this crate with the common fields, and an outcome to be recorded.
macro_rules! lock_span {
    ($name:literal, $target:expr, $label:expr, $($fields:tt)+) => {
        if cfg!(feature = "tracing") {
            tracing::debug_span!(
                target: "lock_runtime",
                $name,
                lock.name = ?$target.key(),
                lock.kind = kind_label($target.kind()),
                lock.policy = ?$label,
                lock.outcome = Empty,
                $($fields)+
            )
        } else {
            Span::none()
        }
    };
}

/// The span of one acquire.
#[derive(Clone)]
pub(crate) struct AcquireSpan(Span);

impl AcquireSpan {
    pub(crate) fn none() -> Self {
        Self(Span::none())
    }

    #[inline]
    pub(super) fn new(target: &Target, label: &Label) -> Self {
        Self(lock_span!("lock.acquire", target, label, lock.token = Empty, lock.waited = Empty))
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

    /// Boxes `future`, inside the span if a subscriber enables it.
    pub(crate) fn around<'a, F>(self, future: F) -> ReusableBoxFuture<'a, F::Output>
    where
        F: Future + Send + 'a,
    {
        match self.0.is_disabled() {
            true => ReusableBoxFuture::new(future),
            false => ReusableBoxFuture::new(future.instrument(self.0)),
        }
    }

    /// Boxes what is done elsewhere for the acquire.
    pub(crate) fn boxed(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        match self.0.is_disabled() {
            true => Box::pin(future),
            false => Box::pin(future.instrument(self.0.clone())),
        }
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.0.is_disabled()
    }
}

/// The span of the body under a guard. Ends as cancelled unless another outcome was recorded.
pub(crate) struct HoldSpan {
    span: Span,
    started: Option<Instant>,
}

impl HoldSpan {
    pub(crate) fn new(target: &Target, label: impl Fn() -> Label, token: FencingToken) -> Self {
        let token = token.get();
        let span = lock_span!("lock.hold", target, label(), lock.token = token, lock.held = Empty);
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
