//! The one task of this process that asks the store for a key.

mod refused;
mod turns;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::acquire::attempt::Attempt;
use crate::acquire::share::{Answer, AskPermit, Before, JoinableHold, Refusal};
use crate::acquire::waiting::{A_MOMENT, Waiting};
use crate::acquire::{AcquireSpec, PendingAcquire};
use crate::clock::Tick;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::gate::GuardId;
use crate::guard::LockGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::{Hold, Taken, deadline};
use crate::observe::log_lock;
use crate::options::{Lease, Wait};
use crate::owned_hold::{OwnedHold, WaitingReader};
use crate::store::{AcquireReply, AcquireRequest, HoldKind};

/// How long a waiter of a fair lock is the first of its process before it listens to a channel of its own. In a line that
/// moves, few of them subscribe.
const FIRST_FOR: Duration = Duration::from_millis(40);

/// A task that contends for the key in the store, with the gate guard.
pub(super) struct Contender<'a> {
    pending: &'a PendingAcquire,
    attempt: &'a mut Attempt,
    waiting: Waiting<'a>,
    /// The reader's permit to ask, until its request is answered or its hold can be joined.
    // S-27.
    turn: AskPermit,
    /// The reader's part in the phases of the lock, if it has one.
    // S-27.
    reader: Option<WaitingReader>,
    last: Option<LastAnswer>,
    /// True once it has logged that this process holds the lock as another kind.
    has_told_of_kind: bool,
    /// True once it has asked again after the answer that the key holds another kind of lock.
    has_asked_again: bool,
}

/// What the last answer of the store said, or the last but one if that one was cut short.
enum LastAnswer {
    Refused(Refusal),
    /// So many replicas knew of the grant, which were too few.
    // S-31.
    TooFew(u32),
    Failed(StoreError),
}

/// Result of contending.
pub(super) enum Contended {
    Taken(LockGuard),
    /// Another reader of this process has a hold to join.
    // S-27.
    JoinableHold(JoinableHold),
    /// It was not polled and was passed over: it queues again.
    // S-34.
    PassedOver,
}

/// The store's answer to one request.
pub(super) struct Answered {
    reply: Result<AcquireReply, StoreError>,
    /// How many tokens were asked for.
    tokens: u32,
    /// When the request was sent.
    sent_at: Tick,
}

/// What a grant is worth.
enum Grant {
    Taken(LockGuard),
    PassedOver,
    /// It came after its own deadline.
    TooLate(StoreError),
}

/// What the contender does next.
enum Next {
    End(Contended),
    TryAgain,
    Wait(Refusal),
    /// A writer of this process may let this reader in until then.
    // S-27.
    WaitForWriter(Tick),
}

impl<'a> Contender<'a> {
    pub(super) fn new(
        pending: &'a PendingAcquire,
        attempt: &'a mut Attempt,
        limit: Option<Instant>,
    ) -> Self {
        let failing_since = attempt.gate_guard.failing_since();
        // It may have no time left for an answer of its own.
        let soon = Instant::now() + A_MOMENT;
        let is_late = limit.is_some_and(|limit| limit < soon);
        let refusal = attempt.gate_guard.holder_remaining().filter(|_| is_late);
        let refusal = refusal.map(|left| Refusal { changes_in: Some(left), is_held: true });
        let waiting = Waiting::new(pending, Instant::now(), failing_since, limit);
        let mut contender = Self::with(pending, attempt, waiting);
        contender.last = refusal.map(LastAnswer::Refused);
        contender
    }

    /// A contender at a gate that was free.
    pub(super) fn first(
        pending: &'a PendingAcquire,
        attempt: &'a mut Attempt,
        limit: Option<Instant>,
    ) -> Self {
        Self::with(pending, attempt, Waiting::new(pending, pending.started, None, limit))
    }

    fn with(pending: &'a PendingAcquire, attempt: &'a mut Attempt, waiting: Waiting<'a>) -> Self {
        pending.spec.engine.contenders.begin();
        Self {
            pending,
            attempt,
            waiting,
            turn: AskPermit::default(),
            reader: None,
            last: None,
            has_told_of_kind: false,
            has_asked_again: false,
        }
    }

    /// Asks the store once. The answer, if it does not end the acquire, is for [`go_on`](Self::go_on).
    pub(super) async fn ask_once(&mut self) -> Result<Result<Contended, Answered>, LockError> {
        if self.pending.spec.engine.closed.load(Ordering::Acquire) {
            return Err(LockError::Closed);
        }
        let timeout = self.waiting.ask_first();
        let Answered { reply, tokens, sent_at } = self.send(1, timeout).await;
        let reply = match reply {
            Ok(AcquireReply::Granted(token)) => match self.secure(token, tokens, sent_at)? {
                Grant::Taken(guard) => return Ok(Ok(Contended::Taken(guard))),
                Grant::PassedOver => return Ok(Ok(Contended::PassedOver)),
                Grant::TooLate(error) => Err(error),
            },
            other => other,
        };
        Ok(Err(Answered { reply, tokens, sent_at }))
    }

    /// Contends after a first answer.
    pub(super) async fn go_on(mut self, first: Answered) -> Result<Contended, LockError> {
        let next = self.heed(first).await?;
        self.contend_from(Some(next)).await
    }

    pub(super) fn id_and_place(&self) -> (GuardId, u64) {
        (self.attempt.gate_guard.id(), self.attempt.gate_guard.place())
    }

    fn leases(&self) -> &'a Arc<LeaseManager> {
        &self.pending.spec.engine.leases
    }

    pub(super) async fn contend(mut self) -> Result<Contended, LockError> {
        let is_enforced = self.pending.recorder.label().is_enforced();
        if self.pending.spec.options.get_wait() == Wait::None && is_enforced {
            // This process may be releasing the lock, perhaps its other side, or as one of several: waiting for the
            // answer is worth it, as at the gate of a mutex that is being released.
            let released = self.pending.spec.engine.released(&self.attempt.target);
            let _ = timeout(self.leases().timing.command_timeout, released).await;
        }
        if is_enforced {
            self.let_others_go_first().await;
        } else if self.attempt.gate_guard.head_start_end().is_some() {
            // Another process was notified of the last release, and goes first.
            return Err(self.pending.busy(BusyReason::Held, None));
        }
        self.reader = self.pending.waits_for_phase();
        self.contend_from(None).await
    }

    async fn contend_from(mut self, mut first: Option<Next>) -> Result<Contended, LockError> {
        loop {
            let next = match first.take() {
                Some(next) => next,
                None => self.next().await?,
            };
            match next {
                Next::End(contended) => return Ok(contended),
                Next::TryAgain => {}
                Next::Wait(refusal) => {
                    self.wait(refusal).await;
                    if self.waiting.out_of_time() {
                        return Err(self.pending.timed_out(refusal.holder_remaining()));
                    }
                }
                Next::WaitForWriter(until) => {
                    let left = until.since(self.leases().clock.now());
                    self.nap(left).await;
                    if self.waiting.out_of_time() {
                        return Err(self.pending.timed_out(None));
                    }
                }
            }
            if self.attempt.gate_guard.is_passed_over() {
                return Ok(Contended::PassedOver);
            }
        }
    }

    async fn next(&mut self) -> Result<Next, LockError> {
        self.waiting.forget_past();
        if let Some(next) = self.look_for_phase() {
            return Ok(next);
        }
        let before = self.pending.before_asking().await;
        if self.pending.spec.engine.closed.load(Ordering::Acquire) {
            return Err(LockError::Closed);
        }
        match before {
            Before::Ask(turn) => {
                self.turn = turn;
                self.ask().await
            }
            Before::Join(hold) => Ok(Next::End(Contended::JoinableHold(hold))),
            Before::Refused(refusal) => self.refused(refusal).await,
            Before::Failed(error) => self.failed(error).await,
        }
    }

    /// As [`nap`](Self::nap). A waiter that is the first of its process for a while also listens where clients of Redisson
    /// would notify it: one of them may release by force what a client of this library holds. True if it has begun to listen,
    /// and asks the store once more.
    // S-15, S-26.
    async fn nap_until_first(&mut self, most: Duration) -> bool {
        let hears_all = self.attempt.target.kind() != HoldKind::Fair
            || self.attempt.target.own_channel().is_some()
            || !self.leases().store.meets_redisson();
        if hears_all {
            self.nap(most).await;
            return false;
        }
        let gate_guard = &self.attempt.gate_guard;
        tokio::select! {
            () = self.waiting.nap(most, gate_guard, self.reader.as_ref()) => return false,
            () = gate_guard.has_been_first(FIRST_FOR) => {}
        }
        self.attempt.is_behind_redisson();
        // A waiter has one subscription: the end of the old one would be the end of the new one.
        self.waiting.stop_listening();
        self.subscribe().await
    }

    async fn nap(&mut self, most: Duration) {
        self.waiting.nap(most, &self.attempt.gate_guard, self.reader.as_ref()).await;
    }

    /// Asks the store and acts on the answer.
    async fn ask(&mut self) -> Result<Next, LockError> {
        let tokens = match self.pending.spec.options.get_lease() {
            // Only watchdog holds are handed on, so only they need tokens in stock.
            Lease::Watchdog(_) if self.attempt.target.is_handed_on() => {
                self.attempt.gate_guard.tokens_wanted(self.pending.has_local_readers())
            }
            _ => 1,
        };
        self.attempt.asks();
        let timeout = self.waiting.ask();
        let answered = self.send(tokens, timeout).await;
        self.heed(answered).await
    }

    /// Acts on an answer.
    async fn heed(&mut self, answered: Answered) -> Result<Next, LockError> {
        let Answered { reply, tokens, sent_at } = answered;
        match reply {
            Ok(AcquireReply::Granted(token)) => match self.secure(token, tokens, sent_at)? {
                Grant::Taken(guard) => Ok(Next::End(Contended::Taken(guard))),
                Grant::PassedOver => Ok(Next::End(Contended::PassedOver)),
                Grant::TooLate(error) => self.failed(error).await,
            },
            Ok(AcquireReply::Held(changes_in)) => {
                self.refused_by_store(sent_at, Refusal { changes_in, is_held: true }).await
            }
            Ok(AcquireReply::Behind(changes_in)) => {
                self.refused_by_store(sent_at, Refusal { changes_in, is_held: false }).await
            }
            Ok(AcquireReply::BehindRedisson { is_held, left }) => {
                if self.attempt.is_behind_redisson() {
                    self.waiting.stop_listening();
                }
                self.refused_by_store(sent_at, Refusal { changes_in: left, is_held }).await
            }
            Ok(AcquireReply::Split) => {
                self.turn.pass();
                self.split().await
            }
            Ok(AcquireReply::NamedTwice) => Err(self.pending.would_deadlock(
                "two of its clients have the same server, and it names a lock through both; name \
                 the lock through one of them",
            )),
            Ok(AcquireReply::NotReplicated { acked }) => self.not_replicated(acked).await,
            Err(error) => {
                self.attempt.unsettled |= error.kind().may_have_run();
                self.turn.report(sent_at, Answer::Failed(error.clone()));
                self.failed(error).await
            }
        }
    }

    /// Sends one request. `sent_at` is read before anything is written.
    // S-8.
    async fn send(&mut self, tokens: u32, timeout: Duration) -> Answered {
        let options = &self.pending.spec.options;
        let keeps_place =
            self.attempt.target.kind().has_places() && options.get_wait() != Wait::None;
        // A newcomer behind others of this process is not in a hurry; a waiter that was notified is.
        let meets_others = !self.attempt.placed && self.attempt.gate_guard.has_company();
        if keeps_place {
            self.attempt.keep_place(self.pending);
        }
        if keeps_place && self.attempt.target.kind() == HoldKind::Fair {
            self.waiting.listen_at_once(&self.attempt.target);
        }
        let target = &self.attempt.target;
        let (target, owner) = (Arc::clone(target), self.attempt.owner.clone());
        let lease = options.stored_lease().duration();
        let place = keeps_place.then_some(self.leases().timing.waiter_lease);
        let joins = false;
        let request =
            AcquireRequest { target, owner, lease, tokens, place, joins, meets_others, timeout };
        let sent_at = self.leases().clock.now();
        self.attempt.begins();
        let reply = self.leases().store.acquire(request).await;
        self.attempt
            .ends(reply.as_ref().map_or_else(|error| error.kind().may_have_run(), |_| true));
        Answered { reply, tokens, sent_at }
    }

    /// A granted lock becomes a guard, unless the answer came after its own deadline.
    // S-8.
    fn secure(
        &mut self,
        token: FencingToken,
        tokens: u32,
        sent_at: Tick,
    ) -> Result<Grant, LockError> {
        let AcquireSpec { engine, options, .. } = &*self.pending.spec;
        let lease = options.get_lease();
        // A holder has no place in the store's queue.
        self.attempt.placed = false;
        if engine.closed.load(Ordering::SeqCst) {
            // The watchdog has ended; the attempt releases the hold when it is dropped.
            self.attempt.unsettled = true;
            return Err(LockError::Closed);
        }
        let now = engine.leases.clock.now();
        if now >= deadline(sent_at, lease.duration()) {
            let key = self.attempt.target.key();
            let label = self.pending.recorder.label();
            log_lock!(warn, key, label, "granted too late, released");
            self.start_over();
            let message = "the store takes longer to answer than the lease lasts";
            let error = StoreError::new(StoreErrorKind::NotReady, message);
            self.turn.report(sent_at, Answer::Failed(error.clone()));
            return Ok(Grant::TooLate(error));
        }
        if !self.attempt.gate_guard.granted() {
            // It was not polled when it was granted, and the grant was released since, or is about to be
            // (S-34).
            self.attempt.unsettled = true;
            return Ok(Grant::PassedOver);
        }
        let gate_guard = self.attempt.take_gate_guard();
        let target = &self.attempt.target;
        // The next waiter does not wait for this hold if others can hold too, or if the queue is in the store.
        let excludes_next =
            !target.is_shared() && !matches!(target.kind(), HoldKind::Fair | HoldKind::Read);
        let (role, place_at_gate) = self.role(&gate_guard, sent_at, excludes_next);
        let taken = Taken {
            target: Arc::clone(target),
            owner: self.attempt.owner.clone(),
            lease,
            stored_lease: options.stored_lease().duration(),
            sent_at,
            token,
            // From here on the owned hold releases it.
            unsettled: std::mem::take(&mut self.attempt.unsettled),
            place_at_gate,
        };
        let (clock, pulse) = (engine.leases.clock.clone(), engine.leases.watchdog.pulse());
        let hold = Arc::new(Hold::new(taken, clock, pulse));
        engine.leases.watchdog.add(&hold);
        let (gate_guard, left) = match hold.target.kind() {
            HoldKind::Read if !hold.target.is_shared() => (None, Some(gate_guard)),
            _ if excludes_next => (Some(gate_guard), None),
            _ => (Some(gate_guard.step_out()), None),
        };
        let mut owned = OwnedHold::new(Arc::clone(&engine.leases), hold, gate_guard, token, tokens);
        owned.begin(role);
        let guard = self.pending.guard_on(Arc::new(owned), now);
        // Only now can the next reader join the hold.
        self.turn.report(sent_at, Answer::Granted(Arc::clone(&guard.owned)));
        if let Some(left) = left {
            left.share_before(Instant::now(), &guard.owned.keep_for_others());
        }
        Ok(Grant::Taken(guard))
    }

    /// Continues with a new owner id, whose notifications may arrive on another channel.
    // S-26.
    fn start_over(&mut self) {
        self.attempt.start_over(self.pending);
        self.waiting.stop_listening();
    }

    async fn subscribe(&mut self) -> bool {
        self.waiting.subscribe(&self.attempt.target).await
    }

    /// Sleeps until the first of: a notification, the end of the holder's lease, the poll cap, the wait's limit.
    // S-15.
    async fn wait(&mut self, refusal: Refusal) {
        let cap = self.waiting.poll_cap();
        // A few milliseconds late on purpose: when the lease ends, the key may still be there.
        let jitter = Duration::from_millis(fastrand::u64(1..5));
        let nap = refusal.changes_in.map_or(cap, |left| cap.min(left.saturating_add(jitter)));
        // A place in the store's queue needs a sign of life; two of them may be lost.
        let nap =
            if self.attempt.placed { nap.min(self.leases().timing.waiter_lease / 3) } else { nap };
        if self.nap_until_first(nap).await {
            return;
        }
        if self.reader.as_ref().is_some_and(WaitingReader::has_changed) {
            return;
        }
        if self.attempt.target.kind() == HoldKind::Semaphore {
            // Perhaps this process released the permits: in a moment it learns whether other processes wait.
            // Without this pause it would always go before them.
            self.waiting.pause(1..2).await;
            self.let_others_go_first().await;
        }
        self.let_others_have_their_turn().await;
    }
}

impl Drop for Contender<'_> {
    /// The attempt's leftovers go to the releaser before this contender is counted out: a shutdown waits for
    /// both.
    fn drop(&mut self) {
        self.attempt.clean_up(self.pending);
        let engine = &self.pending.spec.engine;
        engine.contenders.end();
        engine.drop_orphans();
    }
}
