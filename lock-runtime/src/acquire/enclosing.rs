//! Re-entry: what encloses the caller, and what that means for the lock that it wants (S-6, S-27).

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Started};
use crate::guard::LockGuard;
use crate::options::{Lease, LockOptions};
use crate::scope;
use crate::stand::Stand;
use crate::store::{LockKind, Target};

/// What around the caller concerns a lock that it wants (S-6).
pub(super) enum Enclosing {
    Nothing,
    /// A hold that covers it.
    Same(Arc<Stand>),
    /// The write side, where the read side is wanted (S-27).
    Writer(Arc<Stand>),
    /// A hold that it would wait for.
    InTheWay(&'static str),
}

pub(super) fn enclosing(engine: &Engine, target: &Arc<Target>) -> Enclosing {
    if !target.kind().is_reentrant() {
        return Enclosing::Nothing;
    }
    let mine = engine.keeper.id;
    let whole = |whose, around: &Target| {
        target.locks_at_home(mine).all(|wanted| {
            let held = around.locks_at_home(whose).any(|held| held == wanted);
            // Permits are counted: more of them are not had by having some.
            held && wanted.1.kind().is_reentrant()
        })
    };
    if let Some(stand) = scope::enclosing_stand(whole) {
        return Enclosing::Same(stand);
    }
    // What is held around the caller under the name of one of the wanted locks, as that kind.
    let held_as = |is: &dyn Fn(LockKind) -> bool| {
        scope::enclosing_stand(|whose, around| {
            around.locks_at_home(whose).any(|(of, held)| {
                let same_name = |(by, lock): (u64, &Target)| by == of && lock.key() == held.key();
                is(held.kind()) && target.locks_at_home(mine).any(same_name)
            })
        })
    };
    match target.kind() {
        LockKind::Read => {
            held_as(&|kind| kind == LockKind::Write).map_or(Enclosing::Nothing, Enclosing::Writer)
        }
        LockKind::Write if held_as(&|kind| kind == LockKind::Read).is_some() => {
            Enclosing::InTheWay(
                "the read side is held around it; take the write side first, or release the read \
                 side",
            )
        }
        LockKind::Multi if held_as(&LockKind::is_reentrant).is_some() => {
            Enclosing::InTheWay("some of its locks are held around it; take them all together")
        }
        _ => Enclosing::Nothing,
    }
}

/// S-6: a count in memory and no round trip, unless a fixed lease has to be made longer first. Looks at
/// the clock once: that is a fifth of its time.
pub(super) fn re_enter(stand: Arc<Stand>, options: &LockOptions) -> Started {
    let hold = &stand.hold;
    let now = match hold.check() {
        Ok(now) => now,
        Err(cause) => return Ok(Err(hold.lost_error(cause))),
    };
    let (wanted, renew_as) = match (hold.lease, options.lease()) {
        // The watchdog keeps the hold for as long as anybody stands on it.
        (Lease::Watchdog(_), _) => (Duration::ZERO, None),
        (Lease::Fixed(_), Lease::Fixed(lease)) => (lease, None),
        (Lease::Fixed(_), Lease::Watchdog(lease)) => (lease, Some(lease)),
    };
    // The margin of S-8 is not asked for again, or every equal lease would cost a round trip.
    let is_enough = wanted <= hold.deadline().since(now) + wanted / 20;
    let guard = LockGuard::nested(stand, options.on_lost(), renew_as);
    if is_enough {
        return Ok(Ok(guard));
    }
    Err(Box::pin(async move {
        guard.extend(wanted).await?;
        Ok(guard)
    }))
}
