//! Re-entry: finds the holds that enclose the caller, and what they mean for the lock that it acquires.
// S-6, S-27.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::request::Request;
use super::{AcquireSpec, Engine, until};
use crate::error::{BusyReason, LockError};
use crate::guard::{self, Held, LockGuard};
use crate::lease::Hold;
use crate::lease::reentries::{Level, Obstacle, Permit, ReentryGuard};
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
        // First what takes a tenth of the time.
        whose == mine
            && match (target.members(), around.members()) {
                ([], []) => **target == *around,
                _ => target.locks().all(|lock| around.locks().any(|held| held == lock)),
            }
    };
    if let Some(around) = scope::enclosing_hold(whole) {
        return Enclosing::Same(around);
    }
    // A hold around the caller of that kind, under the name of one of the locks to acquire.
    let held_as = |is: &dyn Fn(HoldKind) -> bool| {
        scope::enclosing_hold(|whose, around| {
            let same_name = |held: &Target| target.locks().any(|lock| lock.key() == held.key());
            whose == mine && around.locks().any(|held| is(held.kind()) && same_name(held))
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
/// and so that the two exclude each other if the clients have one store.
fn visit_other_clients(engine: &Engine, target: &Target, mut visit: impl FnMut(&Target, &OwnerId)) {
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
        for held in hold.target.locks().filter(|_| whose != mine) {
            for lock in target.locks() {
                if lock.key() == held.key() && excludes(held.kind(), lock.kind()) {
                    visit(held, &hold.owner);
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
        visit_other_clients(engine, target, |_, _| is_there = true);
    }
    is_there
}

/// Why a re-entry has no guard yet.
pub(super) enum NoGuard {
    Lost(LockError),
    /// The fixed lease must be extended first.
    TooShort(LockGuard),
}

/// A count in memory and no round trip, unless a fixed lease must be extended first. Reads the clock once: that
/// is a fifth of its time.
// S-6.
#[inline]
pub(super) fn re_enter(
    owned: Arc<OwnedHold>,
    level: Option<Arc<Level>>,
    options: &LockOptions,
) -> Result<LockGuard, NoGuard> {
    let guard = LockGuard::of(Held::nested(owned, level), options.get_on_lost());
    let hold = guard.hold();
    let now = hold.check().map_err(|cause| NoGuard::Lost(hold.lost_error(cause)))?;
    match hold.lease {
        // The watchdog keeps the hold for as long as a guard uses it.
        Lease::Watchdog(_) => Ok(guard),
        Lease::Fixed(_) => {
            let wanted = options.get_lease().duration();
            // Less than asked for by the margin of a deadline is enough, or every equal lease would cost a round trip.
            match wanted <= guard.hold().deadline().since(now) + wanted / 20 {
                true => Ok(guard),
                false => Err(NoGuard::TooShort(guard)),
            }
        }
    }
}

/// The locks of a hold that `wanted` uses: the number of each among the hold's, and whether it is read. None of a read hold,
/// which its guards share. In the order of the hold: several are taken in turn, and all callers keep to it.
fn locks_used<'a>(
    owned: &'a OwnedHold,
    wanted: &'a Target,
) -> impl Iterator<Item = (usize, bool)> + 'a {
    let held = Some(&*owned.hold.target).filter(|held| held.kind() != HoldKind::Read);
    held.into_iter().flat_map(Target::locks).enumerate().filter_map(|(number, lock)| {
        let same = wanted.locks().find(|wanted| wanted.key() == lock.key())?;
        Some((number, same.kind() == HoldKind::Read))
    })
}

/// Enters the hold around the caller, if that needs no wait.
#[inline]
pub(super) fn enter(owned: &OwnedHold, wanted: &Target) -> Result<Option<Arc<Level>>, Obstacle> {
    Level::of(locks_used(owned, wanted).map(|(number, reads)| {
        Permit::ask(scope::level_around(&owned.hold, number), number, reads, 0)
    }))
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
            let (owned, hold) = (Arc::downgrade(&around.owned), Arc::clone(&around.owned.hold));
            // Without a level, the hold has ended, or the code under it runs on without it: look again.
            let Some(level) = Box::pin(self.enter_in_turn(around, limit)).await? else { continue };
            if reads {
                return Ok(Within::Writer(ReentryGuard { hold, level }));
            }
            let Some(owned) = owned.upgrade() else { continue };
            let entered = re_enter(owned, level, &self.spec.options);
            return self.long_enough(entered).await.map(Within::Reentered);
        }
    }

    /// Extends the lease of the hold that it has entered, if that is needed.
    pub(super) async fn long_enough(
        &self,
        entered: Result<LockGuard, NoGuard>,
    ) -> Result<LockGuard, LockError> {
        match entered {
            Ok(guard) => Ok(guard),
            Err(NoGuard::Lost(lost)) => Err(lost),
            Err(NoGuard::TooShort(guard)) => {
                let wanted = self.spec.options.get_lease().duration();
                Box::pin(guard.extend(wanted)).await?;
                Ok(guard)
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
        visit_other_clients(engine, target, |lock, owner| {
            held.push((Arc::new(lock.with_replicas(None)), owner.clone()));
        });
        for hold in held {
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            let most = engine.leases.timing.command_timeout;
            let timeout = left.map_or(most, |left| left.min(most));
            // A store that fails now is asked for the lock next, and then reported.
            if let Ok(true) = holds_any(&*engine.leases.store, vec![hold], timeout).await {
                return Err(self.would_deadlock(
                    "it is held around it through another client of the same server; acquire both \
                     through one client, which re-enters",
                ));
            }
        }
        Ok(())
    }

    /// Waits for its turn inside of the hold around the caller. `None` if the hold has no guards any more.
    async fn enter_in_turn(
        &self,
        around: Around,
        limit: Option<Instant>,
    ) -> Result<Option<Option<Arc<Level>>>, LockError> {
        let AcquireSpec { target, options, .. } = &*self.spec;
        let max_waiters = match options.get_wait() {
            Wait::None => 0,
            _ => options.get_max_waiters(),
        };
        let (hold, is_shadow) = (Arc::clone(&around.owned.hold), around.is_shadow);
        let locks: Vec<_> = locks_used(&around.owned, target).collect();
        let owned = Arc::downgrade(&around.owned);
        let mut around = Some(around);
        let mut permits = Vec::with_capacity(locks.len());
        for (number, reads) in locks {
            let level = scope::level_around(&hold, number);
            let permit = Permit::ask(level, number, reads, max_waiters)
                .map_err(|obstacle| self.refused_inside(obstacle, &hold))?;
            if permit.has_queued() {
                // Waiting keeps no hold alive. Given up behind the permit, which is counted inside of the hold: if this is the
                // last reference, the hold goes to the store and not to the next waiter, who would find this one inside.
                drop(around.take());
                if !self.turn_inside(&permit, &hold, &owned, is_shadow, limit).await? {
                    return Ok(None);
                }
            }
            permits.push(Ok(permit));
        }
        Level::of(permits).map(Some)
    }

    /// Waits until the permit is inside. False if the hold has no guards any more.
    async fn turn_inside(
        &self,
        permit: &Permit,
        hold: &Arc<Hold>,
        owned: &Weak<OwnedHold>,
        is_shadow: bool,
        limit: Option<Instant>,
    ) -> Result<bool, LockError> {
        self.waits();
        let mut closing = pin!(self.spec.engine.closing.notified());
        // Register, then check, then wait.
        closing.as_mut().enable();
        if self.spec.engine.closed.load(Ordering::SeqCst) {
            return Err(LockError::Closed);
        }
        // In this order: the first branch registers with `lost`, which the end of the hold notifies, and `turn` then looks
        // whether that was before. What wakes one branch has all of them polled.
        tokio::select! {
            biased;
            lost = guard::lost(hold) => if is_shadow { Ok(false) } else { Err(lost) },
            () = closing => Err(LockError::Closed),
            turn = until(limit, permit.turn(|| owned.strong_count() == 0)) => {
                turn.ok_or_else(|| self.timed_out(None))
            }
        }
    }

    fn refused_inside(&self, obstacle: Obstacle, hold: &Hold) -> LockError {
        let is_try = self.spec.options.get_wait() == Wait::None;
        match (obstacle, hold.ensure_held()) {
            (Obstacle::Reads, _) => self.would_deadlock(
                "the read side is held around it, and beside it inside the same write hold; \
                 take the write side first, or release the read sides",
            ),
            (Obstacle::Full, Err(lost)) if is_try => lost,
            (Obstacle::Full, _) if is_try => self.busy(BusyReason::Held, None),
            (Obstacle::Full, _) => self.busy(BusyReason::TooManyWaiters, None),
        }
    }
}
