//! Readers of one process share one hold of the read side.
//!
//! Joining a hold is free for a moment after the store has granted it. After that, one of the readers that join
//! asks the store whether a writer waits, and the answer counts for all of them: otherwise a stream of local
//! readers would keep the hold forever.
//!
//! # Invariants
//!
//! 1. Only readers on equal terms share: a watchdog lease of equal length, equal replicas, no limit
//!    of their own, at most or at least. Sharing a hold never changes its lease.
//! 2. Once the store refuses one reader to join a hold, no reader joins it any more. It ends with the guards
//!    that it has; later readers cannot keep it alive by asking.
//! 3. The answer to the question whether readers may still join also counts for every reader that came before it was asked,
//!    so no reader waits for more than two answers. If it takes longer than a second, the next reader does without.
// S-27, S-34.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::enclosing::re_enter;
use super::request::Request;
use super::until;
use super::waiting::A_MOMENT;
use crate::clock::Tick;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::guard::LockGuard;
use crate::liveness::ASLEEP_AFTER;
use crate::options::Lease;
use crate::owned_hold::OwnedHold;
use crate::queue::{Kept, Seat};
use crate::store::{AcquireReply, AcquireRequest, HoldKind, Target};

/// The terms that readers of one hold share: the lock and the length of the lease.
type Terms = (Arc<Target>, Duration);

type Holds = HashMap<Terms, Arc<Shared>>;

/// The read holds that readers may join.
#[derive(Default)]
pub(crate) struct Readers {
    holds: Mutex<Holds>,
}

struct Shared {
    owned: Weak<OwnedHold>,
    /// True if readers may still join. Locked while one of them asks.
    may_join: tokio::sync::Mutex<LastAnswer>,
}

/// The store's last answer to one of several readers, whether they may join.
struct LastAnswer {
    /// When the request was sent.
    asked_at: Tick,
    answer: Result<bool, StoreError>,
}

/// The store's answer that the lock is busy.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    /// When the obstacle ends by itself.
    pub(super) changes_in: Option<Duration>,
    /// True if the obstacle is a holder, whose lease ends then; false if it is a waiter, whose place expires.
    pub(super) is_held: bool,
}

impl Refusal {
    /// What is left of the holder's lease, if the obstacle is a holder.
    pub(super) fn holder_remaining(self) -> Option<Duration> {
        self.changes_in.filter(|_| self.is_held)
    }
}

impl Readers {
    /// Finds what a reader may join.
    fn find(&self, terms: &Terms) -> Option<(Arc<Shared>, Arc<OwnedHold>)> {
        let shared = self.holds.lock().get(terms).cloned()?;
        let owned = shared.owned.upgrade()?;
        // A reader that joined an extended hold would keep the lock from writers for that time if its process died.
        let is_extended = owned.hold.outlasts_its_lease(owned.leases.clock.now());
        (!is_extended).then_some((shared, owned))
    }

    /// Ends joining this hold (invariant 2).
    fn withdraw(&self, terms: &Terms, refused: &Arc<Shared>) {
        let mut holds = self.holds.lock();
        if holds.get(terms).is_some_and(|shared| Arc::ptr_eq(shared, refused)) {
            holds.remove(terms);
        }
    }
}

fn silence() -> StoreError {
    let message = "the store did not say in time whether readers may go on";
    StoreError::new(StoreErrorKind::Unavailable, message)
}

/// Result of trying to join a hold.
pub(super) enum Joined {
    Yes(Result<LockGuard, LockError>),
    /// There is no hold to join, or a writer goes first.
    No,
    /// The store failed.
    Unknown(StoreError),
}

impl Request {
    /// The terms on which this reader shares a hold, if it does (invariant 1).
    fn terms(&self) -> Option<Terms> {
        // First what most acquires fail: each asks several times.
        if self.spec.target.kind() != HoldKind::Read {
            return None;
        }
        match self.spec.options.get_lease() {
            Lease::Watchdog(lease)
                if !self.is_inside()
                    && self.spec.options.max_hold.is_none()
                    && self.spec.options.at_least.is_none()
                    // Fewer replicas may know of a hold that another reader took (S-31).
                    && self.spec.target.replicas().is_none() =>
            {
                Some((Arc::clone(&self.spec.target), lease))
            }
            _ => None,
        }
    }

    /// True if readers share what this acquire gets.
    pub(super) fn shares(&self) -> bool {
        self.terms().is_some()
    }

    /// True if there is a hold to join.
    pub(super) fn can_join(&self) -> bool {
        let readers = &self.spec.engine.readers;
        self.terms().is_some_and(|terms| readers.find(&terms).is_some())
    }

    /// Keeps this owned hold, which is not the caller's yet, for the readers that wait behind its seat.
    pub(super) fn keep_for_queue(owned: &Arc<OwnedHold>, left: Option<&Seat<OwnedHold>>) -> Kept {
        left.filter(|seat| seat.has_queue()).and_then(|_| owned.keep_for_others())
    }

    /// Lets readers join this owned hold, if this reader shares.
    pub(super) fn offer(&self, owned: &Arc<OwnedHold>) {
        let Some(terms) = self.terms() else { return };
        let granted = LastAnswer { asked_at: owned.hold.taken_at, answer: Ok(true) };
        let may_join = tokio::sync::Mutex::new(granted);
        let shared = Shared { owned: Arc::downgrade(owned), may_join };
        let mut holds = self.spec.engine.readers.holds.lock();
        // Ended holds are removed when the map would grow.
        if holds.len() == holds.capacity() {
            holds.retain(|_, shared| shared.owned.strong_count() > 0);
        }
        holds.insert(terms, Arc::new(shared));
    }

    /// Joins the read hold of this process, if there is one and no writer waits. A hold that could not be joined
    /// is not offered any more. `_kept` keeps the hold alive until then.
    pub(super) async fn join(&self, limit: Option<Instant>, _kept: Kept) -> Joined {
        let readers = &self.spec.engine.readers;
        let Some(terms) = self.terms() else { return Joined::No };
        // Keeps the hold from ending while the store is asked.
        let Some((shared, owned)) = readers.find(&terms) else { return Joined::No };
        // Every request gets at least `A_MOMENT`; otherwise a short wait over a slow network could never
        // succeed.
        let answer_by = limit.map(|limit| limit.max(Instant::now() + A_MOMENT));
        let answer = match Box::pin(until(answer_by, self.may_join(&shared, &owned))).await {
            // Whether a writer waits is not known (S-33).
            None => return Joined::Yes(Err(silence().into())),
            Some(answer) => answer,
        };
        if self.spec.engine.closed.load(Ordering::SeqCst) {
            return Joined::Yes(Err(LockError::Closed));
        }
        if let (Ok(true), Ok(_)) = (&answer, owned.hold.check()) {
            let entered = re_enter(owned, None, &self.spec.options);
            return Joined::Yes(self.long_enough(entered).await);
        }
        readers.withdraw(&terms, &shared);
        match answer {
            Err(error) => Joined::Unknown(error),
            Ok(_) => Joined::No,
        }
    }

    /// Whether readers may still join, by the store's last answer if that is fresh.
    async fn may_join(&self, shared: &Shared, owned: &OwnedHold) -> Result<bool, StoreError> {
        let OwnedHold { hold, .. } = owned;
        let timing = self.spec.engine.leases.timing;
        // This reader does not wait for a reader that asks and is not polled (invariant 3, S-34).
        let enough = (timing.command_timeout * 2 + A_MOMENT).min(ASLEEP_AFTER);
        let Ok(mut last) = timeout(enough, shared.may_join.lock()).await else { return Ok(false) };
        let Ok(asked_at) = hold.check() else { return Ok(false) };
        let fresh = asked_at.since(last.asked_at) < timing.handoff_window;
        // The answer to a request that was sent after this reader came also counts for this reader, even if it
        // is a refusal or a failure (invariant 3).
        let waited = asked_at.since(last.asked_at) <= self.started.elapsed();
        if waited || (fresh && last.answer.is_ok()) {
            return last.answer.clone();
        }
        let (target, owner, lease) =
            (Arc::clone(&hold.target), hold.owner.clone(), hold.lease.duration());
        hold.asks_for(asked_at, lease);
        let request = AcquireRequest::new(target, owner, lease, timing.command_timeout);
        let answer = match self.spec.engine.leases.store.acquire(request.with_joins(true)).await {
            Ok(AcquireReply::Granted(_)) => {
                hold.confirm(asked_at, lease);
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        *last = LastAnswer { asked_at, answer: answer.clone() };
        answer
    }
}
