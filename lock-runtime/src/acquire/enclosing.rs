//! Re-entry: finds the holds that enclose the caller, and what they mean for the lock that it acquires.
// S-6, S-27.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::request::Request;
use super::{AcquireSpec, Engine, Extending, until};
use crate::clock::Tick;
use crate::error::{BusyReason, LockError};
use crate::guard::{self, Held, LockGuard};
use crate::lease::Hold;
use crate::lease::claim::Claim;
use crate::lease::reentries::{Obstacle, ReentryGuard, drive, go_inside};
use crate::options::{Lease, LockOptions, Wait};
use crate::owned_hold::OwnedHold;
use crate::scope::{self, Around};
use crate::store::{HoldKind, OwnerId, Target, holds_any};

/// How the holds around the caller affect the lock that it acquires.
// S-6.
pub(super) enum Enclosing {
    Nothing,
    /// A hold that covers the lock.
    Same(Around),
    /// The write side of the lock, whose read side the caller acquires.
    // S-27.
    Writer(Around),
    /// A hold that blocks this acquire.
    InTheWay(&'static str),
}

pub(super) fn enclosing(engine: &Engine, target: &Arc<Target>) -> Enclosing {
    if !target.kind().is_reentrant() {
        return Enclosing::Nothing;
    }
    let mine = engine.leases.id;
    let whole = |whose, around: &Target| {
        if let (Some(lock), Some(held)) = (target.alone_at_home(mine), around.alone_at_home(whose))
        {
            return lock == held;
        }
        target.locks_at_home(mine).all(|spec| {
            let held = around.locks_at_home(whose).any(|held| held == spec);
            // Permits are counted: holding some grants no more of them.
            held && spec.1.kind().is_reentrant()
        })
    };
    if let Some(around) = scope::enclosing_hold(whole) {
        return Enclosing::Same(around);
    }
    // A hold around the caller of that kind, under the name of one of the locks to acquire.
    let held_as = |is: &dyn Fn(HoldKind) -> bool| {
        scope::enclosing_hold(|whose, around| {
            around.locks_at_home(whose).any(|(of, held)| {
                let same_name = |(by, lock): (u64, &Target)| by == of && lock.key() == held.key();
                is(held.kind()) && target.locks_at_home(mine).any(same_name)
            })
        })
    };
    match target.kind() {
        HoldKind::Read => {
            held_as(&|kind| kind == HoldKind::Write).map_or(Enclosing::Nothing, Enclosing::Writer)
        }
        HoldKind::Write if held_as(&|kind| kind == HoldKind::Read).is_some() => {
            Enclosing::InTheWay(
                "the read side is held around it; take the write side first, or release the read \
                 side",
            )
        }
        HoldKind::Multi if held_as(&HoldKind::is_reentrant).is_some() => {
            Enclosing::InTheWay("some of its locks are held around it; take them all together")
        }
        _ => Enclosing::Nothing,
    }
}

/// Calls `visit` with each lock that a hold around the caller has by another client, under the name of a lock to acquire
/// and so that the two exclude each other if the clients have one store; and with the client that is to acquire it.
fn visit_other_clients(
    engine: &Engine,
    target: &Target,
    mut visit: impl FnMut(u64, &Target, &OwnerId),
) {
    let mine = engine.leases.id;
    let is_side = |kind| matches!(kind, HoldKind::Read | HoldKind::Write);
    let excludes = |held: HoldKind, wanted: HoldKind| {
        held.is_reentrant()
            && wanted.is_reentrant()
            // Another kind of lock is reported as that.
            && is_side(held) == is_side(wanted)
            && (held, wanted) != (HoldKind::Read, HoldKind::Read)
    };
    scope::each_hold(|whose, hold| {
        for (of, held) in hold.target.locks_at_home(whose) {
            for (by, lock) in target.locks_at_home(mine) {
                if by != of && lock.key() == held.key() && excludes(held.kind(), lock.kind()) {
                    visit(by, held, &hold.owner);
                }
            }
        }
    });
}

/// True if a hold around the caller has a lock of that name by another client: the store has to be asked whether the two
/// are one.
pub(super) fn may_wait_for_itself(engine: &Engine, target: &Target, options: &LockOptions) -> bool {
    let mut is_there = false;
    if options.get_wait() != Wait::None {
        visit_other_clients(engine, target, |_, _, _| is_there = true);
    }
    is_there
}

/// Why a re-entry has no guard yet.
pub(super) enum NoGuard {
    Lost(LockError),
    /// A fixed lease must be extended first.
    Extends(Extending),
}

/// A count in memory and no round trip, unless a fixed lease must be extended first. Reads the clock once: that
/// is a fifth of its time.
// S-6.
#[inline]
pub(super) fn re_enter(
    owned: Arc<OwnedHold>,
    reentry: u64,
    options: &LockOptions,
) -> Result<LockGuard, NoGuard> {
    // First, so that the re-entry leaves in any case.
    let guard = LockGuard::of(Held::nested(owned, reentry), options.get_on_lost());
    let hold = guard.hold();
    let now = hold.check().map_err(|cause| NoGuard::Lost(hold.lost_error(cause)))?;
    match hold.lease {
        // The watchdog keeps the hold for as long as a guard uses it.
        Lease::Watchdog(_) => Ok(guard),
        Lease::Fixed(_) => re_enter_fixed(guard, options, now),
    }
}

/// As [`re_enter`], for a hold that the watchdog does not renew.
fn re_enter_fixed(
    guard: LockGuard,
    options: &LockOptions,
    now: Tick,
) -> Result<LockGuard, NoGuard> {
    let wanted = options.get_lease().duration();
    // The margin of S-8 is not required again, or every equal lease would cost a round trip.
    if wanted <= guard.hold().deadline().since(now) + wanted / 20 {
        return Ok(guard);
    }
    Err(NoGuard::Extends(Box::pin(async move {
        guard.extend(wanted).await?;
        Ok(guard)
    })))
}

/// Enters the hold around the caller, if no other re-entry excludes `wanted` there.
// S-6.
#[inline]
pub(super) fn enter(
    hold: &Arc<Hold>,
    engine: &Engine,
    wanted: &Arc<Target>,
) -> Result<u64, Obstacle> {
    let claim = Claim::of(wanted, engine.leases.id, &hold.target);
    go_inside(hold, claim, &|visit| scope::enclosing_reentries(hold, visit))
}

/// What the holds around the caller mean for an acquire that takes time.
pub(super) enum Within {
    /// It has the lock, as a re-entry.
    Reentered(LockGuard),
    /// It acquires the read side inside of this write hold.
    Writer(ReentryGuard),
    Nothing,
}

impl Request {
    /// Waits for its turn inside of the hold around the caller, if one affects this acquire.
    pub(super) async fn enter_within(&self, limit: Option<Instant>) -> Result<Within, LockError> {
        loop {
            let (around, reads) = match enclosing(&self.spec.engine, &self.spec.target) {
                Enclosing::Same(around) => (around, false),
                Enclosing::Writer(around) => (around, true),
                Enclosing::InTheWay(detail) => return Err(self.would_deadlock(detail)),
                Enclosing::Nothing => {
                    Box::pin(self.check_other_clients(limit)).await?;
                    return Ok(Within::Nothing);
                }
            };
            let owned = Arc::downgrade(&around.owned);
            let hold = &around.owned.hold;
            let reentry = match enter(hold, &self.spec.engine, &self.spec.target) {
                Ok(id) => Some(ReentryGuard::of(hold, id)),
                Err(Obstacle::Others) => Box::pin(self.queue_within(around, limit)).await?,
                Err(Obstacle::Reads) => {
                    return Err(self.would_deadlock(
                        "the read side is held around it, and beside it inside the same write hold; \
                         take the write side first, or release the read sides",
                    ));
                }
            };
            match (reentry, owned.upgrade()) {
                (Some(reentry), _) if reads => return Ok(Within::Writer(reentry)),
                (Some(reentry), Some(owned)) => {
                    let (hold, id) = (Arc::clone(reentry.hold()), reentry.into_id());
                    let reentered = match re_enter(owned, id, &self.spec.options) {
                        Ok(guard) => Some(Ok(guard)),
                        Err(NoGuard::Lost(lost)) => Some(Err(lost)),
                        Err(NoGuard::Extends(extending)) => {
                            Box::pin(drive(hold, id, extending)).await
                        }
                    };
                    // If it was passed over, it queues again (S-34).
                    if let Some(reentered) = reentered {
                        return reentered.map(Within::Reentered);
                    }
                }
                // The hold has ended, or the code under it runs on without it: look again.
                (None, _) | (_, None) => {}
            }
        }
    }

    /// Fails if this acquire would wait for a hold around the caller that another client of the same store has.
    // S-6.
    async fn check_other_clients(&self, limit: Option<Instant>) -> Result<(), LockError> {
        let AcquireSpec { engine, target, options } = &*self.spec;
        if options.get_wait() == Wait::None {
            return Ok(());
        }
        let mut held = Vec::new();
        visit_other_clients(engine, target, |by, lock, owner| {
            held.push((by, Arc::new(lock.with_replicas(None)), owner.clone()));
        });
        for (by, lock, owner) in held {
            let Some(store) = engine.store_of(by) else { continue };
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            let most = engine.leases.timing.command_timeout;
            let timeout = left.map_or(most, |left| left.min(most));
            // A store that fails now is asked for the lock next, and then reported.
            if let Ok(true) = holds_any(&*store, vec![(lock, owner)], timeout).await {
                return Err(self.would_deadlock(
                    "it is held around it through another client of the same server; acquire both \
                     through one client, which re-enters",
                ));
            }
        }
        Ok(())
    }

    /// Waits with other re-entries inside of the hold. Returns `None` if the hold has no guards any more.
    async fn queue_within(
        &self,
        around: Around,
        limit: Option<Instant>,
    ) -> Result<Option<ReentryGuard>, LockError> {
        let is_shadow = around.is_shadow;
        let hold = Arc::clone(&around.owned.hold);
        // Waiting keeps no hold alive.
        let owned = Arc::downgrade(&around.owned);
        drop(around);
        if self.spec.options.get_wait() == Wait::None {
            hold.ensure_held()?;
            return Err(self.busy(BusyReason::Held, None));
        }
        let claim = Claim::of(&self.spec.target, self.spec.engine.leases.id, &hold.target);
        let enclosing =
            |visit: &mut dyn FnMut(u64) -> bool| scope::enclosing_reentries(&hold, visit);
        let most = self.spec.options.get_max_waiters();
        let Some(reentry) = ReentryGuard::enqueue(&hold, claim, &enclosing, most) else {
            return Err(self.busy(BusyReason::TooManyWaiters, None));
        };
        self.waits.store(true, Ordering::Relaxed);
        let mut closing = pin!(self.spec.engine.closing.notified());
        // Register, then check, then wait.
        closing.as_mut().enable();
        if self.spec.engine.closed.load(Ordering::SeqCst) {
            return Err(LockError::Closed);
        }
        let turn = reentry.turn(|| owned.strong_count() == 0);
        tokio::select! {
            biased;
            lost = guard::lost(&hold) => if is_shadow { Ok(None) } else { Err(lost) },
            () = closing => Err(LockError::Closed),
            turn = until(limit, turn) => match turn {
                None => Err(self.timed_out(None)),
                Some(is_inside) => Ok(is_inside.then_some(reentry)),
            },
        }
    }
}
