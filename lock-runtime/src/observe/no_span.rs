//! Without the feature `tracing` there are no spans.

use std::time::Duration;

use super::{AcquireOutcome, Label, RunOutcome};
use crate::fence::FencingToken;
use crate::store::Target;

#[derive(Clone)]
pub(crate) struct AcquireSpan;

impl AcquireSpan {
    pub(super) fn none() -> Self {
        Self
    }

    pub(super) fn new(_: &Target, _: &Label) -> Self {
        Self
    }

    pub(super) fn over(
        &self,
        _: AcquireOutcome,
        _: impl FnOnce() -> Duration,
        _: Option<FencingToken>,
    ) {
    }

    pub(crate) fn around<F: Future>(self, future: F) -> F {
        future
    }
}

#[derive(Debug)]
pub(crate) struct HoldSpan;

impl HoldSpan {
    pub(crate) fn new(_: &Target, _: impl Fn() -> Label, _: FencingToken) -> Self {
        Self
    }

    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    pub(crate) fn over(&mut self, _: RunOutcome) {}
}
