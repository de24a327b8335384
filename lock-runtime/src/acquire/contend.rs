//! The one task of this process that asks the store for a key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::PendingAcquire;
use super::attempt::Attempt;
use super::share::{AskPermit, Before, JoinableHold, Refusal};
use super::waiting::Waiting;
use crate::clock::Tick;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::gate::{GateGuard, head_start};
use crate::guard::LockGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::{Hold, Taken, deadline};
use crate::observe::log_lock;
use crate::options::{Lease, Wait};
use crate::owned_hold::OwnedHold;
use crate::store::{AcquireReply, AcquireRequest, HoldKind};

/// Contends for the key, with the gate guard.
pub(super) struct Contender<'a> {
    pending: &'a PendingAcquire,
    attempt: Attempt<'a>,
    waiting: Waiting<'a>,
    /// Kept while a reader asks, and until its hold is there to be joined.
    // S-27.
    turn: AskPermit,
    /// Why the store last refused the lock, unless it has failed since.
    refusal: Option<Refusal>,
    /// How the store failed before, unless it has answered since.
    earlier: Option<StoreError>,
}

/// What contending comes to.
pub(super) enum Contended {
    Taken(LockGuard),
    /// Another reader of this process has it now.
    // S-27.
    JoinableHold(JoinableHold),
    /// It was not polled, and others have gone on: line up again.
    // S-34.
    PassedOver,
}

/// What to do after an answer.
enum Next {
    Return(Result<LockGuard, LockError>),
    Join(JoinableHold),
    TryAgain,
    Wait(Refusal),
    LineUpAgain,
}

impl<'a> Contender<'a> {
    pub(super) fn new(
        pending: &'a PendingAcquire,
        gate_guard: GateGuard<OwnedHold>,
        limit: Option<Instant>,
    ) -> Self {
        let attempt = Attempt::new(pending, Some(gate_guard));
        pending.engine.contenders.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting::new(pending, attempt.gate_guard.as_ref(), limit);
        Self { pending, attempt, waiting, turn: AskPermit::default(), refusal: None, earlier: None }
    }

    fn leases(&self) -> &'a Arc<LeaseManager> {
        &self.pending.engine.leases
    }

    pub(super) async fn contend(mut self) -> Result<Contended, LockError> {
        let is_enforced = self.pending.recorder.label().is_enforced();
        if self.pending.options.wait() == Wait::Never
            && self.attempt.target.kind() != HoldKind::Mutex
            && is_enforced
        {
            // As at the gate of a mutex that is being released: what we let go a moment ago, perhaps
            // the other side, is worth the wait.
            let answered = self.leases().releaser.answered(self.attempt.target.key());
            let _ = timeout(self.leases().timing.command_timeout, answered).await;
        }
        if is_enforced {
            self.let_others_go_first().await;
        } else if self.head_start_end().is_some() {
            // Another process was told of the last release, and goes first.
            return Err(self.pending.busy(BusyReason::Held, None));
        }
        loop {
            self.waiting.forget_past();
            let before = self.pending.before_asking().await;
            if self.pending.engine.closed.load(Ordering::Acquire) {
                return Err(LockError::Closed);
            }
            let next = match before {
                Before::Ask(turn) => {
                    self.turn = turn;
                    self.ask().await
                }
                Before::Join(hold) => Next::Join(hold),
                Before::Refused(refusal) => self.refused(refusal).await,
                Before::Failed(error) => self.failed(error).await,
            };
            match next {
                Next::Return(result) => return result.map(Contended::Taken),
                Next::Join(hold) => return Ok(Contended::JoinableHold(hold)),
                Next::LineUpAgain => return Ok(Contended::PassedOver),
                Next::TryAgain => {}
                Next::Wait(refusal) => {
                    self.wait(refusal).await;
                    if self.waiting.out_of_time() {
                        return Err(self.pending.timed_out(refusal.holder_remaining()));
                    }
                }
            }
            if self.attempt.gate_guard.as_ref().is_some_and(GateGuard::is_passed_over) {
                return Ok(Contended::PassedOver);
            }
        }
    }

    /// After a release that other processes heard of, one of them may go first. Also a caller
    /// that is not to wait spends these milliseconds: who listens need not wait any more, so "busy"
    /// would be a guess.
    // S-14.
    async fn let_others_go_first(&mut self) {
        let Some(until) = self.head_start_end() else { return };
        if self.subscribe().await {
            self.leave_to_others(until).await;
        }
    }

    /// After a notice, a process that had the lock lately gives a head start to those that did not.
    /// Otherwise the quickest processes would take it in turn and leave none to slower ones.
    // S-14.
    async fn let_others_have_their_turn(&mut self) {
        let turns = self.waiting.turns_heard();
        if turns > 0 && self.note_turns_of_others(turns) {
            self.leave_to_others(Instant::now() + head_start()).await;
        }
    }

    /// Waits until then, or until all others have had their turn. Each release meanwhile gives those
    /// who have not another head start.
    async fn leave_to_others(&mut self, mut until: Instant) {
        while self.waiting.notified_until(until).await {
            let turns = self.waiting.turns_heard();
            // One release may be told of by several servers.
            let all_had_theirs = turns > 0 && !self.note_turns_of_others(turns);
            if all_had_theirs || self.pending.options.wait() == Wait::Never {
                return;
            }
            if turns > 0 {
                until = Instant::now() + head_start();
            }
        }
    }

    /// When the head start of others after our last release ends.
    fn head_start_end(&self) -> Option<Instant> {
        self.attempt.gate_guard.as_ref().and_then(GateGuard::head_start_end)
    }

    /// Notes that others had so many turns. True if some had none since the last hold of this process.
    fn note_turns_of_others(&self, turns: u32) -> bool {
        self.attempt
            .gate_guard
            .as_ref()
            .is_some_and(|gate_guard| gate_guard.note_turns_of_others(turns))
    }

    /// Asks the store and acts on the answer.
    async fn ask(&mut self) -> Next {
        let (reply, tokens, sent_at) = self.send().await;
        match reply {
            Ok(AcquireReply::Granted(token)) => self.granted(token, tokens, sent_at).await,
            Ok(AcquireReply::Held(changes_in)) => {
                self.refused_by_store(sent_at, Refusal { changes_in, is_held: true }).await
            }
            Ok(AcquireReply::Behind(changes_in)) => {
                self.refused_by_store(sent_at, Refusal { changes_in, is_held: false }).await
            }
            Ok(AcquireReply::Split) => {
                self.turn.pass();
                self.split().await
            }
            Ok(AcquireReply::NotReplicated { acked }) => self.not_replicated(acked).await,
            Err(error) => {
                // Errors of which the server says nothing about what ran before it.
                self.attempt.unsettled |= matches!(
                    error.kind(),
                    StoreErrorKind::OutcomeUnknown
                        | StoreErrorKind::Denied
                        | StoreErrorKind::Protocol
                );
                self.turn.failed(sent_at, &error);
                self.failed(error).await
            }
        }
    }

    /// One request. `sent_at` is read before anything is written.
    // S-8.
    async fn send(&mut self) -> (Result<AcquireReply, StoreError>, u32, Tick) {
        let options = &self.pending.options;
        let keeps_place = self.attempt.target.kind().has_places() && options.wait() != Wait::Never;
        if keeps_place {
            self.attempt.keep_place();
        }
        let target = &self.attempt.target;
        let tokens = match (options.lease(), &self.attempt.gate_guard) {
            // Only watchdog holds are handed on, so only they need tokens in stock.
            (Lease::Watchdog(_), Some(gate_guard)) if target.is_handed_on() => {
                gate_guard.tokens_wanted()
            }
            _ => 1,
        };
        let request = AcquireRequest {
            target: Arc::clone(target),
            owner: self.attempt.owner.clone(),
            lease: options.stored_lease().duration(),
            tokens,
            place: keeps_place.then_some(self.leases().timing.waiter_lease),
            joins: false,
            timeout: self.waiting.ask(),
        };
        self.attempt.asks();
        let sent_at = self.leases().clock.now();
        self.attempt.in_flight = true;
        let reply = self.leases().store.acquire(request).await;
        self.attempt.in_flight = false;
        (reply, tokens, sent_at)
    }

    /// A granted lock becomes a guard, unless the answer came after its own deadline.
    // S-8.
    async fn granted(&mut self, token: FencingToken, tokens: u32, sent_at: Tick) -> Next {
        let PendingAcquire { engine, options, .. } = self.pending;
        let lease = options.lease();
        // Whoever has it has no place any more.
        self.attempt.placed = false;
        if engine.closed.load(Ordering::SeqCst) {
            // Nobody would look after it; the attempt gives it back when it is dropped.
            self.attempt.unsettled = true;
            return Next::Return(Err(LockError::Closed));
        }
        if engine.leases.clock.now() >= deadline(sent_at, lease.duration()) {
            let key = self.attempt.target.key();
            let label = self.pending.recorder.label();
            log_lock!(warn, key, label, "granted too late, given back");
            self.start_over();
            let message = "the store takes longer to answer than the lease lasts";
            let error = StoreError::new(StoreErrorKind::NotReady, message);
            self.turn.failed(sent_at, &error);
            return self.failed(error).await;
        }
        self.answered(true);
        if self.attempt.gate_guard.as_ref().is_some_and(|gate_guard| !gate_guard.secures_grant()) {
            // Not polled when it was granted, and given back since, or about to be (S-34).
            self.attempt.unsettled = true;
            return Next::LineUpAgain;
        }
        let Some(gate_guard) = self.attempt.gate_guard.take() else {
            return Next::Return(Err(LockError::Closed));
        };
        let taken = Taken {
            target: Arc::clone(&self.attempt.target),
            owner: self.attempt.owner.clone(),
            lease,
            sent_at,
            token,
            // From here on it is the guard's to undo.
            unsettled: std::mem::take(&mut self.attempt.unsettled),
        };
        let hold = Arc::new(Hold::new(taken, engine.leases.clock.clone()));
        engine.leases.watchdog.add(&hold);
        // Where others can hold as well, or line up elsewhere, the next in line need not wait for us.
        let (gate_guard, left) = match hold.target.kind() {
            _ if hold.target.is_shared() => (Some(gate_guard.step_out()), None),
            HoldKind::Fair | HoldKind::Read => (None, Some(gate_guard)),
            _ => (Some(gate_guard), None),
        };
        let owned = OwnedHold::new(Arc::clone(&engine.leases), hold, gate_guard, token, tokens);
        let guard = self.pending.stand_on(owned);
        // Only now, or the next reader would find nothing to join.
        if let Some(guard) = &guard {
            self.turn.granted(sent_at, &guard.owned);
        }
        drop(left);
        Next::Return(guard.ok_or_else(|| {
            let message = "the lease was over as soon as it was granted";
            StoreError::new(StoreErrorKind::NotReady, message).into()
        }))
    }

    /// Goes on as another owner, who may have to listen elsewhere.
    // S-26.
    fn start_over(&mut self) {
        self.attempt.start_over();
        self.waiting.stop_listening();
    }

    fn answered(&mut self, grants: bool) {
        self.earlier = None;
        self.waiting.answered(self.attempt.gate_guard.as_ref(), grants);
    }

    async fn refused_by_store(&mut self, sent_at: Tick, refusal: Refusal) -> Next {
        self.turn.refused(sent_at, refusal);
        self.refused(refusal).await
    }

    async fn refused(&mut self, refusal: Refusal) -> Next {
        self.answered(false);
        let remaining = refusal.holder_remaining();
        self.pending.note_holder(remaining);
        if let Some(gate_guard) = &self.attempt.gate_guard {
            gate_guard.note_holder(remaining);
        }
        self.refusal = Some(refusal);
        if self.pending.options.wait() == Wait::Never {
            return Next::Return(Err(self.pending.busy(BusyReason::Held, remaining)));
        }
        if self.waiting.out_of_time() {
            return Next::Return(Err(self.pending.timed_out(remaining)));
        }
        if !self.waiting.listens() && self.subscribe().await {
            return Next::TryAgain;
        }
        Next::Wait(refusal)
    }

    /// No contender won a majority because several asked at once: waits for a random time to break the tie.
    // S-29.
    async fn split(&mut self) -> Next {
        self.answered(false);
        if self.pending.options.wait() == Wait::Never {
            return Next::Return(Err(self.pending.busy(BusyReason::Held, None)));
        }
        if self.waiting.out_of_time() {
            return Next::Return(Err(self.pending.timed_out(None)));
        }
        self.waiting.pause(5..100).await;
        Next::TryAgain
    }

    /// Taken, but too few replicas know: given back and tried again while the wait lasts.
    // S-31.
    async fn not_replicated(&mut self, acked: u32) -> Next {
        // Whatever ends us gives it back before the next in line goes on.
        self.attempt.placed = true;
        if self.pending.options.wait() == Wait::Never
            || self.waiting.out_of_time()
            || (self.pending.options.wait() == Wait::Forever
                && self.waiting.failing_for() >= self.leases().timing.store_patience)
        {
            return Next::Return(Err(self.pending.not_replicated(acked)));
        }
        self.start_over();
        // Or the next attempt would find it held, by us.
        let answered = self.leases().releaser.answered(self.attempt.target.key());
        self.waiting.at_most(self.leases().timing.command_timeout, answered).await;
        self.waiting.pause(10..50).await;
        Next::TryAgain
    }

    /// What may pass is tried again while patience and wait last; the rest is returned.
    // S-33.
    async fn failed(&mut self, error: StoreError) -> Next {
        if error.kind() == StoreErrorKind::WrongType {
            let key = self.pending.target.key().to_string();
            return Next::Return(Err(LockError::KeyCollision { key, found: error.to_string() }));
        }
        if let (Some(refusal), true) = (self.refusal.take(), self.waiting.out_of_time()) {
            // The store is well and the lock was held; it was our own limit that cut this short.
            return Next::Return(Err(self.pending.timed_out(refusal.holder_remaining())));
        }
        if self.attempt.unsettled && self.attempt.target.kind() == HoldKind::Multi {
            // Some of several may be ours by now. Nobody waits for one while holding another (S-28).
            self.start_over();
        }
        let is_over = self.waiting.failed(&error, self.attempt.gate_guard.as_ref());
        // An answer that had too little time says nothing of what is wrong with the store.
        let earlier = self.earlier.take().filter(|_| self.waiting.was_cut_short());
        let error = earlier.unwrap_or(error);
        if is_over {
            // Never "busy" or "timed out": nobody knows whether the lock was free.
            return Next::Return(Err(LockError::Store(error)));
        }
        self.earlier = Some(error);
        self.waiting.pause(10..50).await;
        Next::TryAgain
    }

    async fn subscribe(&mut self) -> bool {
        self.waiting.subscribe(&self.attempt.target).await
    }

    /// Sleeps until the first of: a notice, the holder's end, the poll cap, our own limit.
    // S-15.
    async fn wait(&mut self, refusal: Refusal) {
        let cap = self.waiting.poll_cap();
        // A few milliseconds late on purpose: at the very end the key may still be there.
        let jitter = Duration::from_millis(fastrand::u64(1..5));
        let nap = refusal.changes_in.map_or(cap, |left| cap.min(left.saturating_add(jitter)));
        // A place in the store wants a sign of life, with room for two that are lost.
        let nap =
            if self.attempt.placed { nap.min(self.leases().timing.waiter_lease / 3) } else { nap };
        self.waiting.nap(nap, self.attempt.gate_guard.as_ref()).await;
        if self.attempt.target.kind() == HoldKind::Semaphore {
            // Perhaps this process itself has let go. Whoever did learns in a moment whether others
            // wait elsewhere, and would otherwise always be followed by us.
            self.waiting.pause(1..2).await;
            self.let_others_go_first().await;
        }
        self.let_others_have_their_turn().await;
    }
}

impl Drop for Contender<'_> {
    /// Counts out last: what the attempt leaves behind is handed over before.
    fn drop(&mut self) {
        self.attempt.clean_up();
        let engine = &self.pending.engine;
        if engine.contenders.fetch_sub(1, Ordering::SeqCst) == 1 {
            engine.no_contenders.notify_waiters();
        }
        engine.drop_orphans();
    }
}
