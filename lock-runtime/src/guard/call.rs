//! A body that is a function: called once, while the hold is valid.

use super::LockGuard;
use crate::error::LockError;
use crate::observe::{HoldSpan, RunOutcome};
use crate::scope;

impl LockGuard {
    /// Calls `body` as [`run`](Self::run) polls a future that is ready at once: not after a loss, and a loss while it runs
    /// makes its value late. A call that is not enforced ignores a loss.
    // S-6, S-13.
    pub(crate) fn call<T>(&self, enforced: bool, body: impl FnOnce() -> T) -> Result<T, LockError> {
        let hold = self.hold();
        if enforced {
            hold.ensure_held()?;
        }
        // Ends as cancelled if the body panics.
        let mut span = HoldSpan::new(&hold.target, || hold.recorder.label(), self.token());
        // Also around the destructor of a late value: it may release nested guards.
        let _entered = scope::enter(Some(self.link()));
        let value = span.inside(body);
        if enforced && let Err(lost) = hold.ensure_held() {
            span.inside(|| drop(value));
            span.over(RunOutcome::Lost);
            return Err(lost);
        }
        span.over(RunOutcome::Done);
        Ok(value)
    }
}
