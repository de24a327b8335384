//! One acquire under way, whatever stage it is in.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::attempt::{Attempt, known_as};
use super::contend::{Contended, Contender};
use super::enclosing::Within;
use super::share::{JoinableHold, Joined};
use super::{Spec, got};
use crate::clock::Tick;
use crate::error::{LockError, StoreError};
use crate::gate::{GuardId, Turn};
use crate::guard::LockGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::reentries::ReentryGuard;
use crate::liveness::{self, SIGN_OF_LIFE};
use crate::observe::{AcquireOutcome, AcquireRecorder, Meter};
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::scope;
use crate::shadow::SHADOW_TIMEOUT;
use crate::store::ReleaseRequest;
use crate::waits::{Asker, WaitEntry};

/// One acquire that has to queue.
pub(super) struct PendingAcquire {
    pub(super) spec: Spec,
    pub(super) permits: u32,
    /// Its place inside of the write hold around it, if it acquires the read side. Waiting there does not keep
    /// the write hold alive: once that has ended, the read waits as any other.
    pub(super) inside: Mutex<Option<ReentryGuard>>,
    pub(super) started: Instant,
    /// When the holder's lease ends, by the store's last answer.
    pub(super) holder_ends: Mutex<Option<Instant>>,
    pub(super) recorder: AcquireRecorder,
}

impl PendingAcquire {
    pub(super) fn new(spec: Spec, permits: u32, recorder: AcquireRecorder) -> Self {
        let (inside, holder_ends, started) = (Mutex::default(), Mutex::default(), Instant::now());
        let recorder = recorder.timed_from(started);
        Self { spec, permits, inside, started, holder_ends, recorder }
    }

    #[expect(clippy::manual_async_fn, reason = "an async function would keep `self` twice")]
    pub(super) fn run(
        self,
        is_outermost: bool,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send {
        async move {
            let taken = self.log_if_long(self.take(is_outermost)).await;
            self.report(taken)
        }
    }

    /// As [`run`](Self::run), for a call that is not enforced. If it is cancelled, what it acquired is
    /// released.
    // S-21.
    pub(super) async fn shadow_lock(self) -> Result<LockGuard, LockError> {
        let LeaseManager { breaker, store, .. } = &*self.spec.engine.leases;
        let probe = || {
            let owner = self.spec.engine.leases.next_owner(1);
            ReleaseRequest::new(known_as(&self.spec.target, &owner), owner, SHADOW_TIMEOUT)
        };
        let taken = Box::pin(breaker.ask(store, probe, self.take(false))).await;
        self.report(taken)
    }

    pub(super) fn report(
        &self,
        taken: Result<(AcquireOutcome, LockGuard), LockError>,
    ) -> Result<LockGuard, LockError> {
        match taken {
            Ok((how, mut guard)) => {
                got(&self.recorder, how, &mut guard);
                Ok(guard)
            }
            Err(error) => {
                self.recorder.failed(self.spec.target.key(), &error);
                Err(error)
            }
        }
    }

    /// Acquires a hold. `is_outermost` if the acquire has just found that no hold is around the caller.
    async fn take(&self, is_outermost: bool) -> Result<(AcquireOutcome, LockGuard), LockError> {
        let limit = self.limit();
        // Boxed, as all that is rare here: every acquire would have room for it.
        if !is_outermost && let Some(taken) = Box::pin(self.take_inside(limit)).await? {
            return Ok(taken);
        }
        self.take_hold_at(limit, None, None).await
    }

    /// Acquires a hold inside of the holds around the caller. `None` if there is none, or it has ended.
    async fn take_inside(
        &self,
        limit: Option<Instant>,
    ) -> Result<Option<(AcquireOutcome, LockGuard)>, LockError> {
        let inside = match self.enter_within(limit).await? {
            Within::Reentered(guard) => return Ok(Some((AcquireOutcome::Reentered, guard))),
            Within::Writer(inside) => inside,
            Within::Nothing => return Ok(None),
        };
        *self.inside.lock() = Some(inside);
        let taken = self.take_hold_at(limit, None, None).await;
        let inside = self.inside.lock().take();
        let (how, mut guard) = taken?;
        if let Some(inside) = inside {
            guard.set_inside(inside);
        }
        Ok(Some((how, guard)))
    }

    /// Calls `look` with the place inside the write hold around this read, if there is one.
    pub(super) fn inside<T>(&self, look: impl FnOnce(&ReentryGuard) -> T) -> Option<T> {
        self.inside.lock().as_ref().map(look)
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.lock().is_some()
    }

    /// Acquires a hold from the store, or from another task of this process, for a caller that queues at this place
    /// if it has queued before. It may have its `turn` already.
    #[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
    pub(super) fn take_hold_at(
        &self,
        limit: Option<Instant>,
        mut place: Option<u64>,
        mut turn: Option<Turn<OwnedHold>>,
    ) -> impl Future<Output = Result<(AcquireOutcome, LockGuard), LockError>> + Send {
        async move {
            let mut to_join = None;
            loop {
                if turn.is_none() {
                    match self.join(limit, to_join.take()).await {
                        Joined::Yes(result) => return Ok((AcquireOutcome::Joined, result?)),
                        Joined::Unknown(error) if self.gives_up_on(&error) => {
                            return Err(error.into());
                        }
                        Joined::Unknown(_) | Joined::No => {}
                    }
                    let admission = self.enter(place, Instant::now);
                    turn = Some(self.turn_after(admission, limit, &mut place).await?);
                }
                let gate_guard = match turn.take() {
                    None => continue,
                    Some(Turn::Failed(error)) => return Err(LockError::Store(error)),
                    Some(Turn::Closed) => return Err(LockError::Closed),
                    Some(Turn::Contend(gate_guard)) => gate_guard,
                    Some(Turn::Handed(owned)) => match self.guard_on_handed(owned) {
                        Some(guard) => return Ok((AcquireOutcome::HandedOver, guard)),
                        // Lost on the way here; queue again.
                        None => continue,
                    },
                    Some(Turn::Shared(kept)) => {
                        to_join = kept.map(JoinableHold::kept_by);
                        continue;
                    }
                };
                if self.can_join() {
                    // Another reader has joined it meanwhile. The next waiter finds the same.
                    drop(gate_guard);
                    continue;
                }
                let here = gate_guard.place();
                let id = gate_guard.id();
                // In a box of its own: a task that waits in the queue has no use for the room, and two small boxes are
                // allocated faster than a large one.
                let contending = Box::pin(self.drive(id, async move {
                    let mut attempt = Attempt::new(self, gate_guard);
                    Contender::new(self, &mut attempt, limit).contend().await
                }));
                match contending.await.transpose()? {
                    Some(Contended::Taken(guard)) => return Ok((AcquireOutcome::Acquired, guard)),
                    Some(Contended::JoinableHold(hold)) => to_join = Some(hold),
                    Some(Contended::PassedOver) | None => place = Some(here),
                }
            }
        }
    }

    /// True if this failure ends the acquisition.
    // S-33.
    pub(super) fn gives_up_on(&self, error: &StoreError) -> bool {
        !error.kind().is_transient()
            || self.spec.options.get_wait() == Wait::None
            || self.started.elapsed() >= self.spec.engine.leases.timing.store_patience
    }

    /// Who asks, for people who look in. Called where the caller polls.
    pub(super) fn asker(&self) -> Asker {
        Asker { site: self.recorder.label().call_site(), around: scope::surroundings() }
    }

    /// This wait, as one for the store.
    pub(super) fn as_wait(&self) -> WaitEntry {
        let (target, asker) = (Arc::clone(&self.spec.target), self.asker());
        WaitEntry { target, since: self.started, asker, place: None }
    }

    /// How often a waiter checks that the client's tasks run: often enough for the renewals of leases like its
    /// own.
    pub(super) fn look_every(&self) -> Duration {
        SIGN_OF_LIFE.min(self.spec.options.get_lease().duration() / 3)
    }

    /// Drives `contending`, which has that gate guard. `None` once it was passed over: it queues again.
    // S-34.
    pub(super) fn drive<F: Future>(
        &self,
        guard: GuardId,
        contending: F,
    ) -> impl Future<Output = Option<F::Output>> {
        liveness::drive(self.look_every(), self.sign_of_life(guard), contending)
    }

    /// The same, for a contender that has given a sign of life. The next one is due at `first`.
    pub(super) fn drive_from<F: Future>(
        &self,
        first: Instant,
        guard: GuardId,
        contending: F,
    ) -> impl Future<Output = Option<F::Output>> {
        liveness::drive_from(first, self.look_every(), self.sign_of_life(guard), contending)
    }

    /// Tells the gate that the contender is polled. False once it was passed over.
    fn sign_of_life(&self, guard: GuardId) -> impl Fn(Instant) -> bool {
        move |now| {
            self.spec.engine.leases.revive(false, false);
            self.spec.engine.gates.is_contending(&self.spec.target, guard, now)
        }
    }

    pub(super) fn limit(&self) -> Option<Instant> {
        match self.spec.options.get_wait() {
            // Only behind a release that is under way: for as long as that may take.
            Wait::None => Some(self.started + self.spec.engine.leases.timing.command_timeout * 2),
            Wait::UpTo(wait) => self.started.checked_add(wait),
            Wait::Forever => None,
        }
    }

    /// Returns a guard on an owned hold that was handed over, unless it was lost on the way here.
    pub(super) fn guard_on_handed(&self, owned: Arc<OwnedHold>) -> Option<LockGuard> {
        let now = owned.hold.check().ok()?;
        Some(self.guard_on(owned, now))
    }

    /// Returns a guard on the owned hold, which may be lost by now.
    pub(super) fn guard_on(&self, mut owned: Arc<OwnedHold>, now: Tick) -> LockGuard {
        if owned.hold.arrives()
            && owned.hold.deadline().since(now) < owned.hold.lease.duration() / 2
        {
            // It may have waited for its new holder for long, and was not renewed meanwhile.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        if let Some(at_least) = self.spec.options.at_least
            // Nothing else knows it before its guard does.
            && let Some(owned) = Arc::get_mut(&mut owned)
        {
            owned.keep_until = Some(now.after(at_least));
        }
        owned.hold.begin(Meter::new(self.recorder.label().clone(), self.spec.target.kind()), now);
        let until = self.spec.options.max_hold.map(|max_hold| now.after(max_hold));
        if owned.hold.set_renew_until(until) {
            // The previous holder had a limit, and the watchdog may have stopped renewing because of it.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        if self.shares() {
            let guard = LockGuard::first_of_many(owned, self.spec.options.get_on_lost());
            self.offer(&guard.owned);
            return guard;
        }
        LockGuard::outermost(owned, self.spec.options.get_on_lost())
    }
}
