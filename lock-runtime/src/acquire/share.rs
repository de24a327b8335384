//! Readers of one process share one hold of the read side (S-27).
//!
//! Joining a hold that was taken or asked about a moment ago costs nothing. After that, one of those
//! who want to join asks the store whether a writer waits, for all of them: otherwise a stream of
//! local readers would keep the hold for ever.
//!
//! # Invariants
//!
//! 1. Only readers on equal terms share: a watchdog lease of equal length, equal replicas, no limit
//!    of their own, at most or at least. Nobody's lease is longer, or shorter, for whom he shares it with.
//! 2. A hold that a reader was refused to join is joined by nobody any more. It ends with the guards
//!    that it has; those who come later cannot keep it alive by asking.
//! 3. Whoever waits for somebody else's answer takes it as his own if it was asked for after he
//!    came: nobody waits for more than two answers.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::waiting::A_MOMENT;
use super::{Contention, re_enter, until};
use crate::clock::Tick;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::guard::LockGuard;
use crate::options::Lease;
use crate::stand::Stand;
use crate::store::{AcquireReply, AcquireRequest, LockKind, Target};

/// What those who share a hold have in common: the lock and the length of the lease.
type Terms = (Arc<Target>, Duration);

type Holds = HashMap<Terms, Arc<Shared>>;

/// The read holds that others may join.
#[derive(Default)]
pub(crate) struct Readers {
    holds: Mutex<Holds>,
}

struct Shared {
    stand: Weak<Stand>,
    /// What the store last said. Locked while somebody asks.
    said: tokio::sync::Mutex<Said>,
}

/// Whether readers may go on, by an answer of the store.
struct Said {
    /// Before the request was sent.
    asked_at: Tick,
    answer: Result<bool, StoreError>,
}

impl Readers {
    fn find(&self, terms: &Terms) -> Option<Arc<Shared>> {
        let shared = self.lock().get(terms).cloned()?;
        // Equal targets may differ in this.
        let stand = shared.stand.upgrade()?;
        (stand.hold.target.replicas() == terms.0.replicas()).then_some(shared)
    }

    /// Ends joining this hold (invariant 2).
    fn withdraw(&self, terms: &Terms, refused: &Arc<Shared>) {
        let mut holds = self.lock();
        if holds.get(terms).is_some_and(|shared| Arc::ptr_eq(shared, refused)) {
            holds.remove(terms);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn silence() -> StoreError {
    let message = "the store did not say in time whether readers may go on";
    StoreError::new(StoreErrorKind::Unavailable, message)
}

/// What came of trying to join.
pub(super) enum Joined {
    Yes(Result<LockGuard, LockError>),
    /// There is nothing to join, or a writer goes first.
    No,
    /// The store did not say.
    Unknown(StoreError),
}

impl Contention {
    /// On which terms this acquisition shares with others, if it does (invariant 1).
    fn terms(&self) -> Option<Terms> {
        match self.options.lease() {
            Lease::Watchdog(lease)
                if self.target.kind() == LockKind::Read
                    && self.writer.is_none()
                    && self.options.max_hold().is_none()
                    && self.options.at_least().is_none()
                    // A hold that others have taken may be known to fewer (S-31).
                    && self.target.replicas().is_none() =>
            {
                Some((Arc::clone(&self.target), lease))
            }
            _ => None,
        }
    }

    /// True if readers share what this acquisition takes.
    pub(super) fn shares(&self) -> bool {
        self.terms().is_some()
    }

    /// True if there is something to join.
    pub(super) fn can_join(&self) -> bool {
        let readers = &self.engine.readers;
        self.terms().is_some_and(|terms| readers.find(&terms).is_some())
    }

    /// From now on readers may join this stand, if this acquisition shares.
    pub(super) fn offer(&self, stand: &Arc<Stand>) {
        let Some(terms) = self.terms() else { return };
        let said = Said { asked_at: stand.hold.taken_at, answer: Ok(true) };
        let shared = Shared { stand: Arc::downgrade(stand), said: tokio::sync::Mutex::new(said) };
        let mut holds = self.engine.readers.lock();
        // Names that nobody reads any more go when the map would grow.
        if holds.len() == holds.capacity() {
            holds.retain(|_, shared| shared.stand.strong_count() > 0);
        }
        holds.insert(terms, Arc::new(shared));
    }

    /// Joins the read hold of this process, if there is one and no writer waits. If that does not
    /// come to a guard, the hold is there to be joined no more.
    pub(super) async fn join(&self, limit: Option<Instant>) -> Joined {
        let readers = &self.engine.readers;
        let Some(terms) = self.terms() else { return Joined::No };
        let Some(shared) = readers.find(&terms) else { return Joined::No };
        // Kept while we ask, so that the hold cannot end in between.
        let Some(stand) = shared.stand.upgrade() else { return Joined::No };
        // As every question, it gets a moment, or a short wait over a slow network could never succeed.
        let answer_by = limit.map(|limit| limit.max(Instant::now() + A_MOMENT));
        let answer = match until(answer_by, self.may_join(&shared, &stand)).await {
            // Nobody is known to be in the way (S-33).
            None => return Joined::Yes(Err(silence().into())),
            Some(answer) => answer,
        };
        if self.engine.closed.load(Ordering::SeqCst) {
            return Joined::Yes(Err(LockError::Closed));
        }
        if let (Ok(true), Ok(_)) = (&answer, stand.hold.check()) {
            return match re_enter(stand, self.options) {
                Ok(guard) => Joined::Yes(guard),
                Err(extending) => Joined::Yes(extending.await),
            };
        }
        readers.withdraw(&terms, &shared);
        match answer {
            Err(error) => Joined::Unknown(error),
            Ok(_) => Joined::No,
        }
    }

    /// Whether readers may go on, by the store's last word if that is fresh.
    async fn may_join(&self, shared: &Shared, stand: &Stand) -> Result<bool, StoreError> {
        let Stand { hold, .. } = stand;
        let (clock, timing) = (&self.engine.keeper.clock, self.engine.keeper.timing);
        let came_at = clock.now();
        let mut said = shared.said.lock().await;
        let Ok(asked_at) = hold.check() else { return Ok(false) };
        let fresh = asked_at.since(said.asked_at) < timing.handoff_window;
        // Also a refusal or a failure (invariant 3).
        if said.asked_at >= came_at || (fresh && said.answer.is_ok()) {
            return said.answer.clone();
        }
        let request = AcquireRequest {
            target: Arc::clone(&hold.target),
            owner: hold.owner.clone(),
            lease: hold.lease.duration(),
            tokens: 1,
            place: None,
            joins: true,
            timeout: timing.command_timeout,
        };
        let answer = match self.engine.keeper.store.acquire(request).await {
            Ok(AcquireReply::Granted(_)) => {
                hold.confirm(asked_at, hold.lease.duration());
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        };
        *said = Said { asked_at, answer: answer.clone() };
        answer
    }
}
