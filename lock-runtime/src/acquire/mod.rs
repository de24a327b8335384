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

mod contend;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::contend::Contender;

use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::gate::{Entry, Gates, Turn};
use crate::guard::LockGuard;
use crate::lease::keeper::Keeper;
use crate::options::{Lease, LockOptions, Wait};
use crate::scope;
use crate::stand::Stand;
use crate::store::{OwnerId, Target};

/// What acquiring needs of a client.
pub(crate) struct Engine {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) gates: Arc<Gates<Stand>>,
    /// The client's uuid (S-4).
    pub(crate) uuid: Arc<str>,
    pub(crate) holds: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// Told when `closed` turns true.
    pub(crate) closing: Notify,
    /// Acquisitions that may have something under way in the store.
    pub(crate) contenders: AtomicUsize,
    /// Told when `contenders` falls to zero.
    pub(crate) no_contenders: Notify,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

impl Engine {
    fn next_owner(&self) -> OwnerId {
        OwnerId::new(&self.uuid, self.holds.fetch_add(1, Ordering::Relaxed) + 1)
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
                    None => return Err(self.timed_out_in_line()),
                    Some(Some(Turn::Failed(error))) => return Err(LockError::Store(error)),
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
            Wait::Never => Some(self.started + self.engine.keeper.timing.command_timeout * 2),
            Wait::UpTo(wait) => self.started.checked_add(wait),
            Wait::Forever => None,
        }
    }

    fn stand_on(&self, stand: Stand) -> Option<LockGuard> {
        let now = stand.hold.check().ok()?;
        let until = self.options.max_hold().map(|max_hold| now.after(max_hold));
        if stand.hold.set_renew_until(until) {
            // The holder before us had a limit, and the watchdog may have given the hold up for it.
            stand.keeper.watchdog.reconsider(&stand.hold);
        }
        Some(LockGuard::outermost(stand, self.options.on_lost()))
    }

    fn busy(&self, reason: BusyReason) -> LockError {
        LockError::Busy { key: self.target.key().to_string(), reason }
    }

    /// A store that cannot be asked is never taken for a busy lock (S-33).
    fn timed_out_in_line(&self) -> LockError {
        match self.engine.gates.failing(&self.target) {
            Some(error) => LockError::Store(error),
            None => self.timed_out(None),
        }
    }

    fn timed_out(&self, holder_remaining: Option<Duration>) -> LockError {
        if self.options.wait() == Wait::Never {
            // Nobody is known to hold it; an answer, ours or that to a release before us, is overdue.
            let message = "the store did not say in time whether the lock is free";
            return StoreError::new(StoreErrorKind::Unavailable, message).into();
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
