//! Readers of one process share one hold of the read side.
//!
//! Joining a hold is free for a moment after the store has granted it. After that, one of the readers that join
//! asks the store whether a writer waits, and the answer counts for all of them: otherwise a stream of local
//! readers would keep the hold forever.
//!
//! If there is no hold to join, the readers take turns to ask the store for one. The readers that wait
//! meanwhile join the hold that the store grants, or are refused with it.
//!
//! # Invariants
//!
//! 1. Only readers on equal terms share: a watchdog lease of equal length, equal replicas, no limit
//!    of their own, at most or at least. Sharing a hold never changes its lease.
//! 2. Once the store refuses one reader to join a hold, no reader joins it any more. It ends with the guards
//!    that it has; later readers cannot keep it alive by asking.
//! 3. The answer to one reader's request also counts for every reader that came before the request was sent, so
//!    no reader waits for more than two answers. A reader that waits for the lock repeats the request itself,
//!    because its refusal adds it to the waiting readers in the store.
//! 4. A turn to ask lasts for one request. A reader that sleeps between requests, or is dropped, has no turn.
//!    If a request takes longer than a second, the next reader asks. A reader that has waited for turns for
//!    longer than answers take asks without one.
// S-27, S-34.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout, timeout_at};

use super::enclosing::re_enter;
use super::waiting::A_MOMENT;
use super::{Engine, PendingAcquire, until};
use crate::clock::Tick;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::lease::PlaceAtGate;
use crate::liveness::ASLEEP_AFTER;
use crate::options::{Lease, Wait};
use crate::owned_hold::{OwnedHold, Phases, WaitingReader, WriterPart};
use crate::store::{AcquireReply, AcquireRequest, HoldKind, Target};

/// The terms that readers of one hold share: the lock and the length of the lease.
type Terms = (Arc<Target>, Duration);

type Holds = HashMap<Terms, Arc<Shared>>;

/// The read holds that readers may join, and the turns to ask for new ones.
#[derive(Default)]
pub(crate) struct Readers {
    holds: Mutex<Holds>,
    /// A turn exists while a reader asks or waits to ask.
    turns: Mutex<HashMap<Terms, Weak<Turn>>>,
    /// Exist while a writer holds the lock or a reader waits.
    phases: Mutex<HashMap<(LockKey, Duration), Weak<Phases>>>,
}

struct Shared {
    owned: Weak<OwnedHold>,
    /// True if readers may still join. Locked while one of them asks.
    may_join: tokio::sync::Mutex<LastAnswer<Result<bool, StoreError>>>,
}

/// The store's last answer to one of several readers.
struct LastAnswer<A> {
    /// When the request was sent.
    asked_at: Tick,
    answer: A,
}

/// Locked by the reader that asks the store for a hold; afterwards it has the answer for the readers that waited.
type Turn = tokio::sync::Mutex<Option<LastAnswer<Answer>>>;

/// The right to ask the store for a hold. Empty if this reader shares no hold, or has waited too long for its
/// turn.
#[derive(Default)]
pub(super) struct AskPermit(Option<OwnedMutexGuard<Option<LastAnswer<Answer>>>>);

/// The store's answer to the reader that asked for a hold.
pub(super) enum Answer {
    Refused(Refusal),
    Failed(StoreError),
    /// The hold is kept for the readers that wait for a turn. If readers finish quickly, they would otherwise
    /// have to ask one after the other.
    Granted(#[expect(dead_code, reason = "kept until the next turn")] Arc<OwnedHold>),
}

impl AskPermit {
    /// Ends the turn, and leaves the answer to the readers that wait for theirs. A granted hold must be offered
    /// for joining before that.
    pub(super) fn report(&mut self, asked_at: Tick, answer: Answer) {
        if let Some(mut turn) = self.0.take() {
            *turn = Some(LastAnswer { asked_at, answer });
        }
    }

    /// Ends the turn without an answer.
    pub(super) fn pass(&mut self) {
        self.0 = None;
    }
}

/// A hold that does not end before it is joined, or only if that takes long.
pub(super) struct JoinableHold {
    _kept: Arc<dyn Send + Sync>,
}

impl JoinableHold {
    pub(super) fn kept_by(kept: Arc<dyn Send + Sync>) -> Self {
        Self { _kept: kept }
    }
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

/// What a contender does before it asks the store.
pub(super) enum Before {
    Ask(AskPermit),
    Join(JoinableHold),
    /// Uses the refusal of another reader.
    Refused(Refusal),
    /// Uses the failure of another reader.
    Failed(StoreError),
}

impl Readers {
    /// The phases of the lock's readers and writers with leases of this length.
    pub(super) fn phases(&self, key: &LockKey, lease: Duration) -> Arc<Phases> {
        let mut all = self.phases.lock();
        let terms = (key.clone(), lease);
        if let Some(phases) = all.get(&terms).and_then(Weak::upgrade) {
            return phases;
        }
        // Unused entries are removed when the map would grow.
        if all.len() == all.capacity() {
            all.retain(|_, phases| phases.strong_count() > 0);
        }
        let phases = Arc::default();
        all.insert(terms, Arc::downgrade(&phases));
        phases
    }

    fn turn(&self, terms: &Terms) -> Arc<Turn> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(terms).and_then(Weak::upgrade) {
            return turn;
        }
        // Unused entries are removed when the map would grow.
        if turns.len() == turns.capacity() {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(terms.clone(), Arc::downgrade(&turn));
        turn
    }

    /// Starts a new turn for the other readers, because the reader that has this one is not polled or waits for
    /// a slow store.
    // S-34.
    fn pass_over(&self, terms: &Terms, asleep: &Arc<Turn>) {
        let mut turns = self.turns.lock();
        if turns.get(terms).is_some_and(|turn| turn.as_ptr() == Arc::as_ptr(asleep)) {
            turns.remove(terms);
        }
    }

    /// Finds what a reader that came at `came_at` may join.
    fn find(&self, terms: &Terms, came_at: Instant) -> Option<(Arc<Shared>, Arc<OwnedHold>)> {
        let shared = self.holds.lock().get(terms).cloned()?;
        let owned = shared.owned.upgrade()?;
        // Equal targets may differ in this.
        let is_equal = owned.hold.target.replicas() == terms.0.replicas();
        // A reader that joined an extended hold would keep the lock from writers for that time if its process died.
        let is_extended = owned.hold.outlasts_its_lease(owned.leases.clock.now());
        (is_equal && !is_extended && owned.admits(came_at)).then_some((shared, owned))
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

impl PendingAcquire {
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

    /// True if there is something to join.
    pub(super) fn can_join(&self) -> bool {
        let readers = &self.spec.engine.readers;
        self.terms().is_some_and(|terms| readers.find(&terms, self.started).is_some())
    }

    /// Waits for the turn to ask the store, or for an answer that makes asking unnecessary.
    pub(super) async fn before_asking(&self) -> Before {
        let Some(terms) = self.terms() else { return Before::Ask(AskPermit::default()) };
        let Engine { readers, leases, .. } = &*self.spec.engine;
        let came_at = leases.clock.now();
        // As long as two answers take (invariant 3), and at least `A_MOMENT`.
        let enough = Instant::now() + leases.timing.command_timeout * 2;
        let enough = self.limit().map_or(enough, |limit| limit.min(enough)) + A_MOMENT;
        // A reader that has waited for a reader that is not polled does not wait a second time.
        let mut look_at = (self.started + ASLEEP_AFTER).max(Instant::now() + A_MOMENT);
        let mut last = loop {
            let turn = readers.turn(&terms);
            let locked = Arc::clone(&turn).lock_owned();
            if let Ok(last) = timeout_at(look_at.min(enough), locked).await {
                break last;
            }
            if Instant::now() >= enough {
                return Before::Ask(AskPermit::default());
            }
            readers.pass_over(&terms, &turn);
            look_at = Instant::now() + ASLEEP_AFTER;
        };
        if let Some((_, owned)) = readers.find(&terms, self.started) {
            return Before::Join(JoinableHold::kept_by(owned));
        }
        match last.as_ref().filter(|last| last.asked_at >= came_at).map(|last| &last.answer) {
            Some(Answer::Refused(refusal)) if self.spec.options.get_wait() == Wait::None => {
                Before::Refused(*refusal)
            }
            Some(Answer::Failed(error)) => Before::Failed(error.clone()),
            _ => {
                // Releases the hold that the last answer kept: no reader can join it any more.
                *last = None;
                Before::Ask(AskPermit(Some(last)))
            }
        }
    }

    /// Registers this reader for the phases of the lock, if it shares and waits.
    pub(super) fn waits_for_phase(&self) -> Option<WaitingReader> {
        let (target, lease) =
            self.terms().filter(|_| self.spec.options.get_wait() != Wait::None)?;
        let phases = self.spec.engine.readers.phases(target.key(), lease);
        Some(phases.enter(target))
    }

    /// Registers this writer, which has that place at the gate, for the phases of the lock, if it may hand the lock on.
    pub(super) fn writes_from(
        &self,
        taken_at: Tick,
        place: Option<&PlaceAtGate>,
    ) -> Option<(Arc<WriterPart>, PlaceAtGate)> {
        let Engine { readers, leases, .. } = &*self.spec.engine;
        match self.spec.options.get_lease() {
            Lease::Watchdog(lease)
                if self.spec.target.kind() == HoldKind::Write
                    && self.spec.target.replicas().is_none() =>
            {
                let until = taken_at.after(leases.timing.phase_window(lease));
                let phases = readers.phases(self.spec.target.key(), lease);
                Some(WriterPart::new(phases, until, place.cloned()))
            }
            _ => None,
        }
    }

    /// True if this is a writer, and readers of this process wait on equal terms.
    pub(super) fn has_local_readers(&self) -> bool {
        self.spec.target.kind() == HoldKind::Write
            && matches!(self.spec.options.get_lease(), Lease::Watchdog(lease)
                if self.spec.engine.readers.phases(self.spec.target.key(), lease).has_reader())
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
    pub(super) async fn join(&self, limit: Option<Instant>, _kept: Option<JoinableHold>) -> Joined {
        let readers = &self.spec.engine.readers;
        let Some(terms) = self.terms() else { return Joined::No };
        // Keeps the hold from ending while the store is asked.
        let Some((shared, owned)) = readers.find(&terms, self.started) else { return Joined::No };
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
        owned.settle().await?;
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
