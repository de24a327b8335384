//! Without the feature `metrics` nothing is counted.

use std::time::Duration;

use super::{AcquireOutcome, Meter, ReleaseOutcome, RenewOutcome};
use crate::error::LossCause;

impl Meter {
    pub(super) fn register(&self) {}
    pub(super) fn acquired(&self, _: AcquireOutcome, _: Option<impl FnOnce() -> Duration>) {}
    pub(super) fn waits(&self, _: bool) {}
    pub(super) fn holds(&self) {}
    pub(super) fn held_for(&self, _: Duration) {}
    pub(crate) fn lost(&self, _: LossCause) {}
    pub(crate) fn renewed(&self, _: RenewOutcome) {}
    pub(crate) fn released(&self, _: ReleaseOutcome) {}
}
