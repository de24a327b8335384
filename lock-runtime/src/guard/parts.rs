//! The guard of several locks that were acquired in turn: a guard of guards.
// S-28.

use std::sync::Arc;

use futures_util::future::join_all;

use super::{Held, LockGuard};
use crate::error::LockError;
use crate::lease::Hold;
use crate::observe::Meter;
use crate::store::Target;

/// What makes a guard that of several locks. The guard itself is that of the first.
pub(super) struct Parts {
    /// The hold of all of them.
    pub(super) hold: Arc<Hold>,
    /// The guards of the others, the last first: an acquire of the same locks in the same order then finds the others free once it
    /// has the first.
    pub(super) others: Vec<LockGuard>,
}

impl Drop for Parts {
    /// The guard ends here, before its locks are released. If one was lost before, it stays so for the guard's observers.
    fn drop(&mut self) {
        let now = self.hold.check().unwrap_or_else(|_| self.hold.clock().now());
        self.hold.mark_released(now);
    }
}

impl LockGuard {
    /// Makes one guard of those of at least two locks, in the order in which they were acquired. `whole` is the name of all of them.
    pub(crate) fn of_parts(mut guards: Vec<Self>, whole: Arc<Target>, meter: Meter) -> Self {
        let holds = guards.iter().map(|guard| Arc::clone(guard.hold())).collect();
        let hold = Arc::new(Hold::of_parts(whole, holds, meter));
        let others = guards.split_off(1).into_iter().rev().collect();
        let mut first = guards.remove(0);
        first.owned.parts = Some(Box::new(Parts { hold, others }));
        first
    }

    /// The holds that it keeps: one for each part.
    pub(super) fn each(&self) -> impl Iterator<Item = &Held> {
        let others = self.owned.parts.iter().flat_map(|parts| &parts.others);
        std::iter::once(&self.owned).chain(others.map(|guard| &guard.owned))
    }

    pub(crate) fn set_shadow(&mut self, is_shadow: bool) {
        self.is_shadow = is_shadow;
        let others = self.owned.parts.iter_mut().flat_map(|parts| &mut parts.others);
        others.for_each(|guard| guard.is_shadow = is_shadow);
    }

    /// Releases all its parts, even if one fails. A loss of one is the result, whatever the others answer.
    pub(super) async fn release_parts(mut self) -> Result<(), LockError> {
        let held = self.hold().ensure_held().map(drop);
        let mut guards = self.owned.end_parts();
        guards.push(self);
        let released = join_all(guards.into_iter().map(Self::release)).await;
        let failed = std::iter::once(held).chain(released).filter_map(Result::err);
        let worse =
            |first, next| if matches!(first, LockError::Lost { .. }) { first } else { next };
        failed.reduce(worse).map_or(Ok(()), Err)
    }
}
