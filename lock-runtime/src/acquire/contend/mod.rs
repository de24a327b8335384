//! [`Contender`]: asks the store for a lock until it has it.

mod refused;
mod turns;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::acquire::AcquireSpec;
use crate::acquire::attempt::Attempt;
use crate::acquire::request::Request;
use crate::acquire::share::Refusal;
use crate::acquire::waiting::{A_MOMENT, Waiting};
use crate::clock::Tick;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::lease::manager::LeaseManager;
use crate::lease::{Hold, Taken, deadline};
use crate::observe::log_lock;
use crate::options::{Lease, Wait};
use crate::owned_hold::OwnedHold;
use crate::queue::{Asked, Seat, SeatId};
use crate::store::{AcquireReply, AcquireRequest, HoldKind};

/// How long a waiter of a fair lock is the first of its process before it listens to a channel of its own. In a line that
/// moves, few of them subscribe.
const FIRST_FOR: Duration = Duration::from_millis(40);

/// Asks the store for one request, with a seat: for the front of the queue, in a task of the client; or in the caller's future, once,
/// or apart from the queue.
pub(super) struct Contender {
    request: Arc<Request>,
    attempt: Attempt,
    waiting: Waiting,
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
    Taken {
        owned: Arc<OwnedHold>,
        /// The number of the seat in it, if it has the next waiter wait.
        seat: Option<u64>,
        /// The seat of a reader whose hold others may share.
        left: Option<Seat<OwnedHold>>,
        now: Tick,
    },
    /// A reader of this process has been granted a hold, which this one can share.
    // S-27.
    ToShare,
    /// Its caller was not polled and was passed over: it queues again.
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
    Taken(Contended),
    /// It came after its own deadline.
    TooLate(StoreError),
}

/// What the contender does next.
enum Next {
    End(Contended),
    TryAgain,
    Wait(Refusal),
}

impl Contender {
    pub(super) fn new(request: Arc<Request>, attempt: Attempt) -> Self {
        request.spec.engine.contenders.begin();
        Self {
            waiting: Waiting::new(Arc::clone(&request), request.started, None),
            request,
            attempt,
            last: None,
            has_told_of_kind: false,
            has_asked_again: false,
        }
    }

    /// Asks the store once. An answer that does not end the acquire is for [`contend`](Self::contend).
    pub(super) async fn ask_once(&mut self) -> Result<Result<Contended, Answered>, LockError> {
        if self.request.can_join() {
            return Ok(Ok(Contended::ToShare));
        }
        if self.request.spec.engine.closed.load(Ordering::Acquire) {
            return Err(LockError::Closed);
        }
        let timeout = self.waiting.ask_first();
        let Answered { reply, tokens, sent_at } = self.send(1, timeout).await;
        let reply = match reply {
            Ok(AcquireReply::Granted(token)) => match self.secure(token, tokens, sent_at)? {
                Grant::Taken(contended) => return Ok(Ok(contended)),
                Grant::TooLate(error) => Err(error),
            },
            other => other,
        };
        Ok(Err(Answered { reply, tokens, sent_at }))
    }

    pub(super) fn request(&self) -> &Arc<Request> {
        &self.request
    }

    pub(super) fn seat_id(&self) -> SeatId {
        self.attempt.seat.id()
    }

    pub(super) fn take_seat(&mut self) -> Seat<OwnedHold> {
        self.attempt.take_seat()
    }

    pub(super) fn set_seat(&mut self, seat: Seat<OwnedHold>) {
        self.attempt.seat = seat;
    }

    fn leases(&self) -> Arc<LeaseManager> {
        Arc::clone(&self.request.spec.engine.leases)
    }

    /// Asks until the store grants the lock, or the wait ends. The store may have answered before. `asked` is the waiter that it
    /// asks for, unless its caller asks itself.
    pub(super) async fn contend(
        &mut self,
        answered: Option<Answered>,
        asked: Option<&Asked<OwnedHold>>,
    ) -> Result<Contended, LockError> {
        let mut next = match answered {
            Some(answered) => Some(self.heed(answered).await?),
            None => {
                self.begin();
                self.let_others_go_first().await;
                None
            }
        };
        loop {
            if asked.is_some_and(Asked::is_passed_over) {
                return Ok(Contended::PassedOver);
            }
            let step = match next.take() {
                Some(next) => next,
                None => self.next().await?,
            };
            match step {
                Next::End(contended) => return Ok(contended),
                Next::TryAgain => {}
                Next::Wait(refusal) => {
                    self.wait(refusal, asked).await;
                    if self.waiting.out_of_time() {
                        return Err(self.request.timed_out(refusal.holder_remaining()));
                    }
                }
            }
            if self.attempt.seat.is_passed_over() {
                return Ok(Contended::PassedOver);
            }
        }
    }

    /// Takes over what is known from those that asked before.
    fn begin(&mut self) {
        let seat = &self.attempt.seat;
        // It may have no time left for an answer of its own.
        let soon = Instant::now() + A_MOMENT;
        let is_late = self.request.limit().is_some_and(|limit| limit < soon);
        let refusal = seat.holder_remaining(self.request.started).filter(|_| is_late);
        let refusal = refusal.map(|left| Refusal { changes_in: Some(left), is_held: true });
        self.last = refusal.map(LastAnswer::Refused);
        let failing_since = seat.failing_since();
        self.waiting = Waiting::new(Arc::clone(&self.request), Instant::now(), failing_since);
    }

    async fn next(&mut self) -> Result<Next, LockError> {
        self.waiting.forget_past();
        // Another reader of this process has been granted a hold meanwhile.
        if self.request.can_join() {
            return Ok(Next::End(Contended::ToShare));
        }
        if self.request.spec.engine.closed.load(Ordering::Acquire) {
            return Err(LockError::Closed);
        }
        self.ask().await
    }

    /// As [`nap`](Self::nap). A waiter that is the first of its process for a while also listens where clients of Redisson
    /// would notify it: one of them may release by force what a client of this library holds. True if it has begun to listen,
    /// and asks the store once more.
    // S-15, S-26.
    async fn nap_until_first(&mut self, most: Duration, asked: Option<&Asked<OwnedHold>>) -> bool {
        let hears_all = self.attempt.target.kind() != HoldKind::Fair
            || self.attempt.target.own_channel().is_some()
            || !self.leases().store.meets_redisson();
        if hears_all {
            self.waiting.nap(most, asked).await;
            return false;
        }
        let seat = &self.attempt.seat;
        tokio::select! {
            () = self.waiting.nap(most, asked) => return false,
            () = seat.has_been_first(FIRST_FOR) => {}
        }
        self.attempt.is_behind_redisson();
        // A waiter has one subscription: the end of the old one would be the end of the new one.
        self.waiting.stop_listening();
        self.subscribe().await
    }

    /// Asks the store and acts on the answer.
    async fn ask(&mut self) -> Result<Next, LockError> {
        let tokens = match self.request.spec.options.get_lease() {
            // Only watchdog holds are handed on, so only they need tokens in stock.
            Lease::Watchdog(_) if self.attempt.target.is_handed_on() => {
                self.attempt.seat.tokens_wanted()
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
                Grant::Taken(contended) => Ok(Next::End(contended)),
                Grant::TooLate(error) => self.failed(error).await,
            },
            Ok(AcquireReply::Held(changes_in)) => {
                self.refused(Refusal { changes_in, is_held: true }).await
            }
            Ok(AcquireReply::Behind(changes_in)) => {
                self.refused(Refusal { changes_in, is_held: false }).await
            }
            Ok(AcquireReply::BehindRedisson { is_held, left }) => {
                if self.attempt.is_behind_redisson() {
                    self.waiting.stop_listening();
                }
                self.refused(Refusal { changes_in: left, is_held }).await
            }
            Ok(AcquireReply::Split) => self.split().await,
            Ok(AcquireReply::NotReplicated { acked }) => self.not_replicated(acked).await,
            Err(error) => {
                self.attempt.unsettled |= error.kind().may_have_run();
                self.failed(error).await
            }
        }
    }

    /// Sends one request. `sent_at` is read before anything is written.
    // S-8.
    async fn send(&mut self, tokens: u32, timeout: Duration) -> Answered {
        let options = &self.request.spec.options;
        let keeps_place =
            self.attempt.target.kind().has_places() && options.get_wait() != Wait::None;
        if keeps_place {
            self.attempt.keep_place();
        }
        if keeps_place && self.attempt.target.kind() == HoldKind::Fair {
            self.waiting.listen_at_once(&self.attempt.target);
        }
        let target = &self.attempt.target;
        let (target, owner) = (Arc::clone(target), self.attempt.owner.clone());
        let lease = options.stored_lease().duration();
        let place = keeps_place.then_some(self.leases().timing.waiter_lease);
        let joins = false;
        let request = AcquireRequest { target, owner, lease, tokens, place, joins, timeout };
        let sent_at = self.leases().clock.now();
        self.attempt.begins();
        let reply = self.leases().store.acquire(request).await;
        self.attempt
            .ends(reply.as_ref().map_or_else(|error| error.kind().may_have_run(), |_| true));
        Answered { reply, tokens, sent_at }
    }

    /// A granted lock becomes a hold, unless the answer came after its own deadline.
    // S-8. The order is the proof: first the seat records the grant, so that no waiter takes the seat over from here on. The hold is
    // made with the number of its seat, and only then given to the watchdog: a loss in between makes that seat void.
    fn secure(
        &mut self,
        token: FencingToken,
        tokens: u32,
        sent_at: Tick,
    ) -> Result<Grant, LockError> {
        let request = Arc::clone(&self.request);
        let AcquireSpec { engine, options, .. } = &*request.spec;
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
            let (key, label) = (self.attempt.target.key(), &request.label);
            log_lock!(warn, key, label, "granted too late, released");
            self.start_over();
            let message = "the store takes longer to answer than the lease lasts";
            return Ok(Grant::TooLate(StoreError::new(StoreErrorKind::NotReady, message)));
        }
        let target = Arc::clone(&self.attempt.target);
        // The next waiter does not wait for this hold if others can hold too, or if the queue is in the store.
        let excludes_next =
            !target.is_shared() && !matches!(target.kind(), HoldKind::Fair | HoldKind::Read);
        if !self.attempt.seat.granted(excludes_next) {
            // Its caller was not polled when it was granted, and the grant was released since, or is about to be
            // (S-34).
            self.attempt.unsettled = true;
            return Ok(Grant::Taken(Contended::PassedOver));
        }
        let seat = self.attempt.take_seat();
        let here = seat.queues_and_number().filter(|_| excludes_next);
        let number = here.as_ref().map(|(_, number)| *number);
        let taken = Taken {
            target: Arc::clone(&target),
            owner: self.attempt.owner.clone(),
            lease,
            stored_lease: options.stored_lease().duration(),
            sent_at,
            token,
            // From here on the owned hold releases it.
            unsettled: std::mem::take(&mut self.attempt.unsettled),
            on_loss: here.map(|(queues, number)| (queues as _, number)),
        };
        let (clock, pulse) = (engine.leases.clock.clone(), engine.leases.watchdog.pulse());
        let hold = Arc::new(Hold::new(taken, clock, pulse));
        engine.leases.watchdog.add(&hold);
        let (seat, left) = match target.kind() {
            HoldKind::Read => (None, Some(seat)),
            _ if excludes_next => (Some(seat), None),
            _ => (Some(seat.step_out()), None),
        };
        let owned = OwnedHold::new(Arc::clone(&engine.leases), hold, seat, token, tokens);
        Ok(Grant::Taken(Contended::Taken { owned: Arc::new(owned), seat: number, left, now }))
    }

    /// Continues with a new owner id, whose notifications may arrive on another channel.
    // S-26.
    fn start_over(&mut self) {
        self.attempt.start_over(&self.request);
        self.waiting.stop_listening();
    }

    async fn subscribe(&mut self) -> bool {
        self.waiting.subscribe(&self.attempt.target).await
    }

    /// Sleeps until the first of: a notification, the end of the holder's lease, the poll cap, the wait's limit.
    // S-15.
    async fn wait(&mut self, refusal: Refusal, asked: Option<&Asked<OwnedHold>>) {
        let cap = self.waiting.poll_cap();
        // A few milliseconds late on purpose: when the lease ends, the key may still be there.
        let jitter = Duration::from_millis(fastrand::u64(1..5));
        let nap = refusal.changes_in.map_or(cap, |left| cap.min(left.saturating_add(jitter)));
        // A place in the store's queue needs a sign of life; two of them may be lost.
        let nap =
            if self.attempt.placed { nap.min(self.leases().timing.waiter_lease / 3) } else { nap };
        if self.nap_until_first(nap, asked).await {
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

impl Drop for Contender {
    /// The attempt's leftovers go to the releaser before this contender is counted out: a shutdown waits for
    /// both.
    fn drop(&mut self) {
        self.attempt.clean_up(&self.request);
        self.request.spec.engine.contenders.end();
    }
}
