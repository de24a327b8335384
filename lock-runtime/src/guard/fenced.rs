//! What guards and watches tell a resource that refuses late writers.
// S-37.

use super::{LockGuard, LockWatch};
use crate::fence::{Fenced, Fences, FencingToken, NotExclusive};
use crate::lease::Hold;
use crate::store::HoldKind;

impl Fenced for LockGuard {
    fn fences(&self) -> Result<Fences, NotExclusive> {
        fences_of(self.hold(), self.token())
    }
}

impl Fenced for LockWatch {
    fn fences(&self) -> Result<Fences, NotExclusive> {
        fences_of(self.hold(), self.token())
    }
}

fn fences_of(hold: &Hold, token: FencingToken) -> Result<Fences, NotExclusive> {
    let shares = |kind| match kind {
        HoldKind::Read | HoldKind::Semaphore | HoldKind::Latch => true,
        HoldKind::Mutex | HoldKind::Fair | HoldKind::Write | HoldKind::Multi => false,
    };
    match hold.target.locks().find(|lock| shares(lock.kind())) {
        Some(lock) => Err(NotExclusive::new(lock.key().clone(), lock.kind())),
        None => {
            Ok(Fences::new(hold.target.locks().map(|lock| lock.key().clone()).collect(), token))
        }
    }
}
