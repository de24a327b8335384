//! The one task of this process that asks the store for a key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::Contention;
use crate::clock::Tick;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::gate::Seat;
use crate::guard::LockGuard;
use crate::lease::keeper::Keeper;
use crate::lease::releaser::{AfterRelease, ReleaseJob};
use crate::lease::{Hold, Taken, deadline};
use crate::options::{Lease, Wait};
use crate::stand::Stand;
use crate::store::{AcquireReply, AcquireRequest, LockKind, OwnerId, Subscription, Target};

/// What was sent on behalf of one owner and what is known of its effect. Cleaned up unsettled, it has
/// the releaser undo whatever took effect (S-21), and keeps the seat until that was sent: the next
/// in line must not run into our own leftover.
struct Attempt<'a> {
    contention: &'a Contention,
    /// The contention's target, as this owner knows it.
    target: Arc<Target>,
    owner: OwnerId,
    seat: Option<Seat<Stand>>,
    in_flight: bool,
    /// A request's outcome is unknown, and it may take effect late.
    unsettled: bool,
    /// The owner has something in the store that has to be given up: a place (S-17), or a lock that
    /// too few replicas know of (S-31).
    placed: bool,
}

impl<'a> Attempt<'a> {
    fn new(contention: &'a Contention, seat: Option<Seat<Stand>>) -> Self {
        let Contention { engine, target, permits, writer, .. } = contention;
        let owner = writer.clone().unwrap_or_else(|| engine.next_owner(*permits));
        let target = match target.kind() {
            LockKind::Fair => Arc::new(target.for_waiter(&owner)),
            _ => Arc::clone(target),
        };
        Self { contention, target, owner, seat, in_flight: false, unsettled: false, placed: false }
    }

    /// Gives back what was taken for this owner and goes on as another. Tells when that was sent.
    fn start_over(&mut self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        self.give_back(
            self.unsettled,
            Box::new(move |_| {
                let _ = tell.send(());
            }),
        );
        let seat = self.seat.take();
        *self = Self::new(self.contention, seat);
        told
    }

    /// Has what may have taken effect undone, and lets go of the seat.
    fn clean_up(&mut self) {
        let seat = self.seat.take();
        if self.in_flight || self.unsettled || self.placed {
            if let Some(seat) = &seat {
                seat.leaving();
            }
            self.give_back(self.in_flight || self.unsettled, Box::new(move |_| drop(seat)));
        }
    }

    fn give_back(&self, unsettled: bool, after: AfterRelease) {
        let Contention { engine, options, .. } = self.contention;
        engine.keeper.releaser.give(ReleaseJob {
            target: Arc::clone(&self.target),
            owner: self.owner.clone(),
            until: engine.keeper.clock.now().after(options.lease().duration()),
            unsettled,
            after: Some(after),
        });
    }
}

/// The least time that an answer gets.
const A_MOMENT: Duration = Duration::from_millis(100);

/// Contends for the key from its seat at the gate.
pub(super) struct Contender<'a> {
    contention: &'a Contention,
    attempt: Attempt<'a>,
    limit: Option<Instant>,
    notices: Option<Subscription>,
    /// Since when the store has been failing.
    failing_since: Option<Instant>,
    /// What the store last said of the holder, unless it has failed since.
    held: Option<Held>,
}

/// The answer that somebody else holds the lock, with what is left of the lease.
#[derive(Clone, Copy)]
struct Held(Option<Duration>);

/// What to do after an answer that did not grant the lock.
enum Next {
    Return(Result<LockGuard, LockError>),
    TryAgain,
    WaitForHolder(Held),
}

impl<'a> Contender<'a> {
    pub(super) fn new(
        contention: &'a Contention,
        seat: Seat<Stand>,
        limit: Option<Instant>,
    ) -> Self {
        let attempt = Attempt::new(contention, Some(seat));
        contention.engine.contenders.fetch_add(1, Ordering::SeqCst);
        let failing_since = attempt.seat.as_ref().and_then(Seat::failing_since);
        Self { contention, attempt, limit, notices: None, failing_since, held: None }
    }

    fn keeper(&self) -> &'a Arc<Keeper> {
        &self.contention.engine.keeper
    }

    pub(super) async fn contend(mut self) -> Result<LockGuard, LockError> {
        self.let_others_go_first().await;
        loop {
            if self.contention.engine.closed.load(Ordering::Acquire) {
                return Err(LockError::Closed);
            }
            if let Some(notices) = &mut self.notices {
                notices.forget_past();
            }
            let next = match self.ask().await {
                Ok((AcquireReply::Granted(token), tokens, sent_at)) => {
                    self.granted(token, tokens, sent_at).await
                }
                Ok((AcquireReply::Held(remaining), ..)) => self.refused(remaining).await,
                Ok((AcquireReply::Split, ..)) => self.split().await,
                Ok((AcquireReply::NotReplicated { acked }, ..)) => self.not_replicated(acked).await,
                Err(error) => self.failed(error).await,
            };
            match next {
                Next::Return(result) => return result,
                Next::TryAgain => {}
                Next::WaitForHolder(held) => {
                    self.wait(held).await;
                    if self.out_of_time() {
                        return Err(self.contention.timed_out(held.0));
                    }
                }
            }
        }
    }

    /// S-14: after a release that other processes heard of, one of them may go first. Also a caller
    /// that is not to wait spends these milliseconds: who listens need not wait any more, so "busy"
    /// would be a guess.
    async fn let_others_go_first(&mut self) {
        let Some(until) = self.attempt.seat.as_ref().and_then(Seat::take_others_first) else {
            return;
        };
        self.subscribe().await;
        if let Some(notices) = &mut self.notices {
            let _ = timeout_at(until, notices.notified()).await;
        }
    }

    /// One request. `sent_at` is read before anything is written (S-8).
    async fn ask(&mut self) -> Result<(AcquireReply, u32, Tick), StoreError> {
        let options = &self.contention.options;
        let target = &self.attempt.target;
        let tokens = match (options.lease(), target.kind(), &self.attempt.seat) {
            // Only watchdog holds of these are handed on, so only they need tokens in stock. A
            // write hold is not: a reader may stand on the same owner (S-27).
            (Lease::Watchdog(_), LockKind::Mutex | LockKind::Multi, Some(seat)) => {
                seat.tokens_wanted()
            }
            _ => 1,
        };
        let keeps_place = target.kind().has_places() && options.wait() != Wait::Never;
        self.attempt.placed |= keeps_place;
        let request = AcquireRequest {
            target: Arc::clone(target),
            owner: self.attempt.owner.clone(),
            lease: options.lease().duration(),
            tokens,
            place: keeps_place.then_some(self.keeper().timing.waiter_lease),
            joins: false,
            timeout: self.time_to_answer(),
        };
        let sent_at = self.keeper().clock.now();
        self.attempt.in_flight = true;
        let reply = self.keeper().store.acquire(request).await;
        self.attempt.in_flight = false;
        reply.map(|reply| (reply, tokens, sent_at))
    }

    /// A granted lock becomes a guard, unless the answer came after its own deadline (S-8).
    async fn granted(&mut self, token: FencingToken, tokens: u32, sent_at: Tick) -> Next {
        let Contention { engine, options, .. } = self.contention;
        let lease = options.lease();
        // Whoever has it has no place any more.
        self.attempt.placed = false;
        if engine.closed.load(Ordering::SeqCst) {
            // Nobody would look after it; the attempt gives it back when it is dropped.
            self.attempt.unsettled = true;
            return Next::Return(Err(LockError::Closed));
        }
        if engine.keeper.clock.now() >= deadline(sent_at, lease.duration()) {
            let key = self.attempt.target.key();
            tracing::warn!(lock.key = ?key, "granted too late, given back");
            drop(self.start_over());
            let message = "the store takes longer to answer than the lease lasts";
            return self.failed(StoreError::new(StoreErrorKind::NotReady, message)).await;
        }
        self.answered();
        let Some(seat) = self.attempt.seat.take() else {
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
        let hold = Arc::new(Hold::new(taken, engine.keeper.clock.clone()));
        engine.keeper.watchdog.add(&hold);
        // Where others can hold as well, or line up elsewhere, the next in line need not wait for us.
        let keeps_seat = !matches!(hold.target.kind(), LockKind::Semaphore | LockKind::Fair);
        let seat = keeps_seat.then_some(seat);
        let stand = Stand::new(Arc::clone(&engine.keeper), hold, seat, token, tokens);
        Next::Return(self.contention.stand_on(stand).ok_or_else(|| {
            let message = "the lease was over as soon as it was granted";
            StoreError::new(StoreErrorKind::NotReady, message).into()
        }))
    }

    fn answered(&mut self) {
        if self.failing_since.take().is_some()
            && let Some(seat) = &self.attempt.seat
        {
            seat.answered();
        }
    }

    async fn refused(&mut self, remaining: Option<Duration>) -> Next {
        self.answered();
        let held = *self.held.insert(Held(remaining));
        if self.contention.options.wait() == Wait::Never {
            return Next::Return(Err(self.contention.busy(BusyReason::Held)));
        }
        if self.out_of_time() {
            return Next::Return(Err(self.contention.timed_out(remaining)));
        }
        if self.notices.is_none() && self.subscribe().await {
            return Next::TryAgain;
        }
        Next::WaitForHolder(held)
    }

    /// Nobody got it because several asked at once (S-29): a random pause breaks the tie.
    async fn split(&mut self) -> Next {
        self.answered();
        if self.contention.options.wait() == Wait::Never {
            return Next::Return(Err(self.contention.busy(BusyReason::Held)));
        }
        if self.out_of_time() {
            return Next::Return(Err(self.contention.timed_out(None)));
        }
        self.pause(5..100).await;
        Next::TryAgain
    }

    /// Taken, but too few replicas know (S-31): given back and tried again while the wait lasts.
    async fn not_replicated(&mut self, acked: u32) -> Next {
        // Whatever ends us gives it back before the next in line goes on.
        self.attempt.placed = true;
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if self.contention.options.wait() == Wait::Never
            || self.out_of_time()
            || since.elapsed() >= self.keeper().timing.store_patience
        {
            return Next::Return(Err(self.contention.not_replicated(acked)));
        }
        // Who reads as the writer around it stays that owner, so a release now could come too late.
        if self.contention.writer.is_none() {
            // Or the next attempt would find it held, by us.
            let given_back = self.start_over();
            let limit = self.time_left(self.keeper().timing.command_timeout);
            let _ = timeout(limit, given_back).await;
        }
        self.pause(10..50).await;
        Next::TryAgain
    }

    fn start_over(&mut self) -> oneshot::Receiver<()> {
        let given_back = self.attempt.start_over();
        if self.attempt.target.kind() == LockKind::Fair {
            // The new owner has a channel of its own (S-26).
            self.notices = None;
        }
        given_back
    }

    /// Sleeps for a random time, in milliseconds, but not past our own limit.
    async fn pause(&self, millis: std::ops::Range<u64>) {
        let pause = Duration::from_millis(fastrand::u64(millis));
        tokio::time::sleep(self.time_left(pause)).await;
    }

    /// S-33: what may pass is tried again while patience and wait last; the rest is returned.
    async fn failed(&mut self, error: StoreError) -> Next {
        // Errors of which the server says nothing about what ran before it.
        self.attempt.unsettled |= matches!(
            error.kind(),
            StoreErrorKind::OutcomeUnknown | StoreErrorKind::Denied | StoreErrorKind::Protocol
        );
        if error.kind() == StoreErrorKind::WrongType {
            let key = self.contention.target.key().to_string();
            return Next::Return(Err(LockError::KeyCollision { key, found: error.to_string() }));
        }
        if let (Some(held), true) = (self.held.take(), self.out_of_time()) {
            // The store is well and the lock was held; it was our own limit that cut this short.
            return Next::Return(Err(self.contention.timed_out(held.0)));
        }
        let patience = self.keeper().timing.store_patience;
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let out_of_patience = since.max(self.contention.started).elapsed() >= patience;
        if let (true, Some(seat)) = (error.kind().is_transient(), &self.attempt.seat) {
            seat.failed(&error, patience);
        }
        let give_up = !error.kind().is_transient()
            || out_of_patience
            || self.out_of_time()
            || self.contention.options.wait() == Wait::Never;
        if give_up {
            // Never "busy" or "timed out": nobody knows whether the lock was free.
            return Next::Return(Err(LockError::Store(error)));
        }
        self.pause(10..50).await;
        Next::TryAgain
    }

    /// True once a release from now on will be noticed. Where it cannot be had, polling does.
    async fn subscribe(&mut self) -> bool {
        let timeout = self.time_left(self.keeper().timing.command_timeout);
        match self.keeper().store.subscribe(&self.attempt.target, timeout).await {
            Ok(notices) => {
                self.notices = Some(notices);
                true
            }
            Err(error) => {
                tracing::debug!(lock.key = ?self.contention.target.key(), %error, "no subscription");
                false
            }
        }
    }

    /// Sleeps until the first of: a notice, the holder's end, the poll cap, our own limit (S-15).
    async fn wait(&mut self, Held(remaining): Held) {
        let cap = self.keeper().timing.poll_cap.mul_f64(0.8 + 0.4 * fastrand::f64());
        // A few milliseconds late on purpose: at the very end the key may still be there.
        let jitter = Duration::from_millis(fastrand::u64(1..5));
        let nap = remaining.map_or(cap, |remaining| cap.min(remaining.saturating_add(jitter)));
        // A place in the store wants a sign of life, with room for two that are lost.
        let nap =
            if self.attempt.placed { nap.min(self.keeper().timing.waiter_lease / 3) } else { nap };
        let nap = tokio::time::sleep(self.time_left(nap));
        let engine = &self.contention.engine;
        let closing = engine.closing.notified();
        tokio::pin!(closing);
        // Register, then check, then wait; the loop looks at `closed` as well.
        closing.as_mut().enable();
        if engine.closed.load(Ordering::SeqCst) {
            return;
        }
        let noticed = async {
            match &mut self.notices {
                Some(notices) => notices.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = nap => {}
            () = closing => {}
            () = noticed => {}
        }
    }

    /// How long the store may take: as long as we wait, but an answer always gets a moment, or a
    /// short wait over a slow network could never succeed.
    fn time_to_answer(&self) -> Duration {
        let replicas = self.contention.options.replicas();
        let command_timeout = self.keeper().timing.command_timeout
            + replicas.map_or(Duration::ZERO, |replicas| replicas.timeout);
        self.time_left(command_timeout).max(A_MOMENT.min(command_timeout))
    }

    fn time_left(&self, most: Duration) -> Duration {
        let left = |limit: Instant| limit.saturating_duration_since(Instant::now());
        self.limit.map_or(most, |limit| left(limit).min(most))
    }

    fn out_of_time(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }
}

impl Drop for Contender<'_> {
    /// Counts out last: what the attempt leaves behind is handed over before.
    fn drop(&mut self) {
        self.attempt.clean_up();
        let engine = &self.contention.engine;
        if engine.contenders.fetch_sub(1, Ordering::SeqCst) == 1 {
            engine.no_contenders.notify_waiters();
        }
    }
}
