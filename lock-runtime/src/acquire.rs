//! The one loop that takes locks: enter the gate → try → subscribe → try again → wait.
//!
//! Every kind goes through [`Acquire`]. The order at each joint is what makes it right:
//!
//! - The seat at the gate comes first: one task per key and process talks to the store (S-14).
//! - The first try never subscribes: an uncontended lock costs one round trip (S-16).
//! - Then register, check, wait (S-15): a release between the refusal and the subscription is
//!   found by the second try, one after it is found by the subscription. A notice is a hint; the
//!   store is asked again. Every sleep is bounded by the holder's lease and the poll cap, so a lost
//!   notice costs time and nothing else.
//! - What was sent and not answered is undone ([`Attempt`], S-21), whatever makes us stop.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::clock::Tick;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::gate::{Entry, Gates, Seat, Turn};
use crate::guard::LockGuard;
use crate::lease::keeper::Keeper;
use crate::lease::releaser::ReleaseJob;
use crate::lease::{Hold, Taken, deadline};
use crate::options::{Lease, LockOptions, Wait};
use crate::scope;
use crate::stand::Stand;
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Subscription, Target};

/// What acquiring needs of a client.
pub(crate) struct Engine {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) gates: Arc<Gates<Stand>>,
    /// The client's uuid (S-4).
    pub(crate) uuid: Arc<str>,
    pub(crate) holds: AtomicU64,
    pub(crate) closed: AtomicBool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

impl Engine {
    fn next_owner(&self) -> OwnerId {
        OwnerId::new(Arc::clone(&self.uuid), self.holds.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// An acquisition under way.
///
/// # Cancel safety
///
/// Dropping it gives up the place in line and leaves nothing in the store longer than one round
/// trip: a lock that was granted meanwhile is given back in the background (S-21).
#[must_use = "futures do nothing unless polled"]
pub struct Acquire(State);

enum State {
    /// Not polled yet. Whether it is re-entry depends on where it is polled (S-6).
    Start(Arc<Engine>, Arc<Target>, LockOptions),
    Failed(LockError),
    UnderWay(Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>),
    Done,
}

/// What the first poll finds.
type Started = Result<Result<LockGuard, LockError>, State>;

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0 = match std::mem::replace(&mut self.0, State::Done) {
            State::Start(engine, target, options) => match start(engine, target, options) {
                Ok(result) => return Poll::Ready(result),
                Err(state) => state,
            },
            State::Failed(error) => return Poll::Ready(Err(error)),
            state => state,
        };
        // A future that is done may answer as it likes, short of a panic.
        let State::UnderWay(acquiring) = &mut self.0 else { return Poll::Pending };
        acquiring.as_mut().poll(cx)
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

impl Acquire {
    /// Takes `target` once polled.
    pub(crate) fn new(engine: &Arc<Engine>, target: &Arc<Target>, options: LockOptions) -> Self {
        Self(State::Start(Arc::clone(engine), Arc::clone(target), options))
    }

    /// An acquisition that has failed already.
    pub(crate) fn failed(error: LockError) -> Self {
        Self(State::Failed(error))
    }
}

fn start(engine: Arc<Engine>, target: Arc<Target>, options: LockOptions) -> Started {
    if engine.closed.load(Ordering::Acquire) {
        return Ok(Err(LockError::Closed));
    }
    if let Some(stand) = scope::enclosing_stand(&engine.keeper, &target) {
        return re_enter(stand, options);
    }
    let contention = Contention { engine, target, options, started: Instant::now() };
    Err(State::UnderWay(Box::pin(contention.run())))
}

/// S-6: a count in memory and no round trip, unless a fixed lease has to be made longer first.
fn re_enter(stand: Arc<Stand>, options: LockOptions) -> Started {
    let hold = &stand.hold;
    if let Err(cause) = hold.check() {
        return Ok(Err(hold.lost_error(cause)));
    }
    let (wanted, renew_as) = match (hold.lease, options.lease()) {
        // The watchdog keeps the hold for as long as anybody stands on it.
        (Lease::Watchdog(_), _) => (Duration::ZERO, None),
        (Lease::Fixed(_), Lease::Fixed(lease)) => (lease, None),
        (Lease::Fixed(_), Lease::Watchdog(lease)) => (lease, Some(lease)),
    };
    let remaining = hold.remaining();
    let guard = LockGuard::nested(stand, options.on_lost(), renew_as);
    // The margin of S-8 is not asked for again, or every equal lease would cost a round trip.
    if wanted <= remaining + wanted / 20 {
        return Ok(Ok(guard));
    }
    Err(State::UnderWay(Box::pin(async move {
        guard.extend(wanted).await?;
        Ok(guard)
    })))
}

/// One acquisition that has to line up.
struct Contention {
    engine: Arc<Engine>,
    target: Arc<Target>,
    options: LockOptions,
    started: Instant,
}

impl Contention {
    async fn run(self) -> Result<LockGuard, LockError> {
        self.engine.keeper.ensure_running();
        let limit = self.limit();
        loop {
            let may_wait = self.options.wait() != Wait::Never;
            let (lease, max) = (self.options.lease(), self.options.max_waiters());
            let seat = match self.engine.gates.enter(&self.target, lease, max, may_wait) {
                Entry::Turn(seat) => seat,
                Entry::Busy(reason) => return Err(self.busy(reason)),
                Entry::Closed => return Err(LockError::Closed),
                Entry::Line(ticket) => match until(limit, ticket).await {
                    None => return Err(self.timed_out(None)),
                    Some(None) => return Err(LockError::Closed),
                    Some(Some(Turn::Contend(seat))) => seat,
                    Some(Some(Turn::Handed(stand))) => match self.stand_on(stand) {
                        Some(guard) => return Ok(guard),
                        // Lost on the way here; line up again.
                        None => continue,
                    },
                },
            };
            return Contender::new(&self, seat, limit).contend().await;
        }
    }

    fn limit(&self) -> Option<Instant> {
        match self.options.wait() {
            // Only behind a release that is under way: for as long as that may take.
            Wait::Never => Some(self.started + self.engine.keeper.timing.command_timeout),
            Wait::UpTo(wait) => self.started.checked_add(wait),
            Wait::Forever => None,
        }
    }

    fn stand_on(&self, stand: Stand) -> Option<LockGuard> {
        let now = stand.hold.check().ok()?;
        let until = self.options.max_hold().map(|max_hold| now.after(max_hold));
        stand.hold.set_renew_until(until);
        Some(LockGuard::outermost(stand, self.options.on_lost()))
    }

    fn busy(&self, reason: BusyReason) -> LockError {
        LockError::Busy { key: self.target.key().to_string(), reason }
    }

    fn timed_out(&self, holder_remaining: Option<Duration>) -> LockError {
        if self.options.wait() == Wait::Never {
            return self.busy(BusyReason::Held);
        }
        LockError::Timeout {
            key: self.target.key().to_string(),
            waited: self.started.elapsed(),
            holder_remaining,
        }
    }
}

/// The output of `future` if it comes before `limit`.
async fn until<F: Future>(limit: Option<Instant>, future: F) -> Option<F::Output> {
    match limit {
        None => Some(future.await),
        Some(limit) => timeout_at(limit, future).await.ok(),
    }
}

/// What was sent on behalf of one owner and what is known of its effect. Dropped unsettled, it has
/// the releaser undo whatever took effect (S-21), and keeps the seat until that was sent: the next
/// in line must not run into our own leftover.
struct Attempt<'a> {
    contention: &'a Contention,
    owner: OwnerId,
    seat: Option<Seat<Stand>>,
    in_flight: bool,
    /// A request's outcome is unknown, and it may take effect late.
    unsettled: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let seat = self.seat.take();
        if self.in_flight || self.unsettled {
            self.give_back(true, seat);
        }
    }
}

impl Attempt<'_> {
    fn give_back(&self, unsettled: bool, seat: Option<Seat<Stand>>) {
        let Contention { engine, target, options, .. } = self.contention;
        engine.keeper.releaser.give(ReleaseJob {
            target: Arc::clone(target),
            owner: self.owner.clone(),
            until: engine.keeper.clock.now().after(options.lease().duration()),
            unsettled,
            after: seat.map(|seat| Box::new(move |_| drop(seat)) as _),
        });
    }
}

/// The one task of this process that asks the store for the key.
struct Contender<'a> {
    contention: &'a Contention,
    attempt: Attempt<'a>,
    limit: Option<Instant>,
    notices: Option<Subscription>,
    /// Since when the store has been failing.
    failing_since: Option<Instant>,
}

/// What to do after an answer that did not grant the lock.
enum Next {
    Return(Result<LockGuard, LockError>),
    TryAgain,
    WaitForHolder(Option<Duration>),
}

impl<'a> Contender<'a> {
    fn new(contention: &'a Contention, seat: Seat<Stand>, limit: Option<Instant>) -> Self {
        let attempt = Attempt {
            contention,
            owner: contention.engine.next_owner(),
            seat: Some(seat),
            in_flight: false,
            unsettled: false,
        };
        Self { contention, attempt, limit, notices: None, failing_since: None }
    }

    fn keeper(&self) -> &'a Arc<Keeper> {
        &self.contention.engine.keeper
    }

    async fn contend(mut self) -> Result<LockGuard, LockError> {
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
                    self.granted(token, tokens, sent_at)
                }
                Ok((AcquireReply::Held(remaining), ..)) => self.refused(remaining).await,
                Err(error) => self.failed(error).await,
            };
            match next {
                Next::Return(result) => return result,
                Next::TryAgain => {}
                Next::WaitForHolder(remaining) => self.wait(remaining).await,
            }
        }
    }

    /// S-14: after a release that other processes heard of, one of them may go first.
    async fn let_others_go_first(&mut self) {
        let Some(until) = self.attempt.seat.as_ref().and_then(Seat::take_others_first) else {
            return;
        };
        if self.contention.options.wait() == Wait::Never {
            return;
        }
        self.subscribe().await;
        if let Some(notices) = &mut self.notices {
            let _ = timeout_at(until, notices.notified()).await;
        }
    }

    /// One request. `sent_at` is read before anything is written (S-8).
    async fn ask(&mut self) -> Result<(AcquireReply, u32, Tick), StoreError> {
        let options = &self.contention.options;
        let tokens = match (options.lease(), &self.attempt.seat) {
            // Only watchdog holds are handed on, so only they need tokens in stock.
            (Lease::Watchdog(_), Some(seat)) => seat.tokens_wanted(),
            _ => 1,
        };
        let request = AcquireRequest {
            target: Arc::clone(&self.contention.target),
            owner: self.attempt.owner.clone(),
            lease: options.lease().duration(),
            tokens,
            timeout: self.time_left(self.keeper().timing.command_timeout),
        };
        let sent_at = self.keeper().clock.now();
        self.attempt.in_flight = true;
        let reply = self.keeper().store.acquire(request).await;
        self.attempt.in_flight = false;
        reply.map(|reply| (reply, tokens, sent_at))
    }

    /// A granted lock becomes a guard, unless the answer came after its own deadline (S-8).
    fn granted(&mut self, token: FencingToken, tokens: u32, sent_at: Tick) -> Next {
        let Contention { engine, target, options, .. } = self.contention;
        let lease = options.lease();
        if engine.keeper.clock.now() >= deadline(sent_at, lease.duration()) {
            tracing::warn!(lock.key = ?target.key(), "granted too late, given back");
            self.attempt.give_back(self.attempt.unsettled, None);
            self.attempt.unsettled = false;
            self.attempt.owner = engine.next_owner();
            return if self.out_of_time() {
                Next::Return(Err(self.contention.timed_out(None)))
            } else {
                Next::TryAgain
            };
        }
        let Some(seat) = self.attempt.seat.take() else {
            return Next::Return(Err(LockError::Closed));
        };
        let taken = Taken {
            target: Arc::clone(target),
            owner: self.attempt.owner.clone(),
            lease,
            sent_at,
            // From here on it is the guard's to undo.
            unsettled: std::mem::take(&mut self.attempt.unsettled),
        };
        let hold = Arc::new(Hold::new(taken, engine.keeper.clock.clone()));
        engine.keeper.watchdog.add(&hold);
        let stand = Stand::new(Arc::clone(&engine.keeper), hold, seat, token, tokens);
        Next::Return(match self.contention.stand_on(stand) {
            Some(guard) => Ok(guard),
            None => Err(self.contention.timed_out(None)),
        })
    }

    async fn refused(&mut self, remaining: Option<Duration>) -> Next {
        self.failing_since = None;
        if self.contention.options.wait() == Wait::Never {
            return Next::Return(Err(self.contention.busy(BusyReason::Held)));
        }
        if self.out_of_time() {
            return Next::Return(Err(self.contention.timed_out(remaining)));
        }
        if self.notices.is_none() && self.subscribe().await {
            return Next::TryAgain;
        }
        Next::WaitForHolder(remaining)
    }

    /// S-33: what may pass is tried again while patience and wait last; the rest is returned.
    async fn failed(&mut self, error: StoreError) -> Next {
        if error.kind() == StoreErrorKind::OutcomeUnknown {
            self.attempt.unsettled = true;
        }
        if error.kind() == StoreErrorKind::WrongType {
            let key = self.contention.target.key().to_string();
            return Next::Return(Err(LockError::KeyCollision { key, found: error.to_string() }));
        }
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let out_of_patience = since.elapsed() >= self.keeper().timing.store_patience;
        let give_up = !error.kind().is_transient()
            || out_of_patience
            || self.out_of_time()
            || self.contention.options.wait() == Wait::Never;
        if give_up {
            // Never "busy" or "timed out": nobody knows whether the lock was free.
            return Next::Return(Err(LockError::Store(error)));
        }
        let pause = Duration::from_millis(fastrand::u64(10..50));
        tokio::time::sleep(self.time_left(pause)).await;
        Next::TryAgain
    }

    /// True once a release from now on will be noticed. Where it cannot be had, polling does.
    async fn subscribe(&mut self) -> bool {
        let timeout = self.time_left(self.keeper().timing.command_timeout);
        match self.keeper().store.subscribe(&self.contention.target, timeout).await {
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
    async fn wait(&mut self, remaining: Option<Duration>) {
        let cap = self.keeper().timing.poll_cap.mul_f64(0.8 + 0.4 * fastrand::f64());
        // A few milliseconds late on purpose: at the very end the key may still be there.
        let jitter = Duration::from_millis(fastrand::u64(1..5));
        let nap = remaining.map_or(cap, |remaining| cap.min(remaining + jitter));
        let nap = tokio::time::sleep(self.time_left(nap));
        match &mut self.notices {
            None => nap.await,
            Some(notices) => tokio::select! {
                () = nap => {}
                () = notices.notified() => {}
            },
        }
    }

    fn time_left(&self, most: Duration) -> Duration {
        let left = |limit: Instant| limit.saturating_duration_since(Instant::now());
        self.limit.map_or(most, |limit| left(limit).min(most))
    }

    fn out_of_time(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }
}
