//! From the first request on: what an acquire does in its caller's future.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, timeout};

use super::attempt::{Attempt, known_as};
use super::contend::{Contended, Contender};
use super::enclosing::Within;
use super::queued::QueuedAcquire;
use super::request::{Request, serve};
use super::share::Joined;
use super::{AcquireSpec, Taken};
use crate::error::{BusyReason, LockError, StoreError};
use crate::guard::LockGuard;
use crate::liveness;
use crate::observe::AcquireOutcome;
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::queue::{Admission, Kept, Seat, WaitsFor};
use crate::shadow::SHADOW_TIMEOUT;
use crate::store::{HoldKind, OwnerId, ReleaseRequest};

/// How far an acquire has come.
pub(super) enum Tried {
    Over(Taken),
    /// It waits in the queue, or for the task that asks for it.
    Waits(Box<QueuedAcquire>),
    /// It lost what it was given, or was passed over: it begins again, at its place if it has had one. Or it can share a hold,
    /// which is kept for it.
    Again(Option<u64>, Kept),
    /// It asks the store whatever other tasks of this process do.
    Apart,
    /// The store has failed, perhaps because the name holds something else.
    Failed(StoreError),
}

impl Request {
    /// Acquires a hold. `is_outermost` if the acquire has just found that no hold is around the caller.
    pub(super) async fn acquire(self: Arc<Self>, is_outermost: bool) -> Tried {
        if !is_outermost {
            match Box::pin(self.take_inside()).await {
                Ok(None) => {}
                Ok(Some(taken)) => return Tried::Over(Ok(taken)),
                Err(error) => return Tried::Over(Err(error)),
            }
        }
        self.go_on(None, None).await
    }

    /// As [`acquire`](Self::acquire), to its end, for a call that is not enforced. If it is cancelled, what it acquired is
    /// released.
    // S-21.
    pub(super) async fn shadow_lock(self: Arc<Self>) -> Tried {
        let leases = &self.spec.engine.leases;
        let probe = || {
            let owner = leases.next_owner(1);
            let target = known_as(
                self.spec.parts().map_or(&self.spec.target, |parts| &parts[0].target),
                &owner,
            );
            ReleaseRequest::new(target, owner, SHADOW_TIMEOUT)
        };
        let acquiring = async { Arc::clone(&self).acquire_to_end(false).await };
        Tried::Over(Box::pin(leases.breaker.ask(&leases.store, probe, acquiring)).await)
    }

    /// Acquires a hold, or several in turn, with all waits, in one future.
    pub(super) async fn acquire_to_end(self: Arc<Self>, is_outermost: bool) -> Taken {
        if let Some(parts) = self.spec.parts().cloned() {
            return self.acquire_in_turn(parts).await;
        }
        let mut tried = Arc::clone(&self).acquire(is_outermost).await;
        loop {
            tried = match tried {
                Tried::Over(taken) => return taken,
                // A future that is dropped at one of these awaits drops what it waits with: a ticket leaves the queue, and an
                // attempt has its request undone.
                Tried::Waits(mut queued) => {
                    self.waits();
                    let turn = std::future::poll_fn(|cx| queued.poll(cx)).await;
                    queued.end(turn)
                }
                Tried::Again(place, kept) => Arc::clone(&self).go_on(place, kept).await,
                Tried::Apart => Arc::clone(&self).apart().await,
                Tried::Failed(error) => Arc::clone(&self).fails(error).await,
            };
        }
    }

    /// Acquires a hold inside of the holds around the caller. `None` if there is none, or it has ended.
    async fn take_inside(
        self: &Arc<Self>,
    ) -> Result<Option<(AcquireOutcome, LockGuard)>, LockError> {
        let inside = match self.enter_within(self.limit()).await? {
            Within::Reentered(guard) => return Ok(Some((AcquireOutcome::Reentered, guard))),
            Within::Writer(inside) => Arc::new(inside),
            Within::Nothing => return Ok(None),
        };
        // `inside` keeps the level of the write hold and not the hold: if that ends during this wait, the read waits as any other.
        let request = Arc::new(self.within(Arc::clone(&inside)));
        let Contended::Taken { owned, now, .. } = request.ask_apart().await? else {
            unreachable!("inside of a write hold a read shares no hold, and has no seat to lose");
        };
        let mut guard = request.guard_on(owned, now);
        // The request has the other reference to `inside`, which is the guard's alone from here on.
        drop(request);
        if let Some(inside) = Arc::into_inner(inside) {
            guard.set_inside(inside);
        }
        Ok(Some((AcquireOutcome::Acquired, guard)))
    }

    /// Asks the store whatever other tasks of this process do.
    pub(super) async fn apart(self: Arc<Self>) -> Tried {
        // Other tasks acquire and release meanwhile; the store tells what is true when it is asked.
        self.wait_for_releases().await;
        match self.ask_apart().await {
            Ok(Contended::Taken { owned, now, .. }) => {
                Tried::Over(Ok((AcquireOutcome::Acquired, self.guard_on(owned, now))))
            }
            Ok(Contended::ToShare | Contended::PassedOver) => Tried::Again(None, None),
            Err(error) => Tried::Over(Err(error)),
        }
    }

    async fn ask_apart(self: &Arc<Self>) -> Result<Contended, LockError> {
        // With no seat: nothing of this process waits for it, and it neither takes nor gives up a place in the queue.
        let attempt = Attempt::new(self, Seat::none());
        Contender::new(Arc::clone(self), attempt).contend(None, None).await
    }

    /// A call that does not wait for a holder waits for what this process releases in the background: perhaps its other side, or as
    /// one of several, or what a request of its own was granted.
    async fn wait_for_releases(&self) {
        let AcquireSpec { engine, target, options } = &*self.spec;
        let is_try = options.get_wait() == Wait::None;
        // A release that is queued after this look is of a lock that was held when the call came: "busy" is then the truth.
        if is_try && self.label.is_enforced() && engine.leases.releaser.is_releasing(target) {
            let answered = engine.leases.releaser.answered(target);
            let _ = timeout(engine.leases.timing.command_timeout, answered).await;
        }
    }

    /// Asks what the name holds, if it is something else.
    pub(super) async fn fails(self: Arc<Self>, error: StoreError) -> Tried {
        Tried::Over(Err(self.spec.collision(error).await))
    }

    /// Acquires a hold from the store, or from another task of this process, for a caller that has that place in the queue if
    /// it has queued before.
    pub(super) async fn go_on(self: Arc<Self>, place: Option<u64>, kept: Kept) -> Tried {
        match self.join(self.limit(), kept).await {
            Joined::Yes(Ok(guard)) => return Tried::Over(Ok((AcquireOutcome::Joined, guard))),
            Joined::Yes(Err(error)) => return Tried::Over(Err(error)),
            Joined::Unknown(error) if self.gives_up_on(&error) => {
                return Tried::Over(Err(error.into()));
            }
            Joined::Unknown(_) | Joined::No => {}
        }
        // Another reader may be granted a hold between the join and the request: `Contender::ask_once` looks for one again.
        if self.asks_apart() {
            return self.apart().await;
        }
        self.wait_for_releases().await;
        match self.enter(place, Instant::now()) {
            Ok(first) => first.ask().await,
            Err(tried) => tried,
        }
    }

    /// True if nothing comes before the store is asked, or the queue entered.
    pub(super) fn asks_at_once(&self) -> bool {
        let AcquireSpec { engine, target, options } = &*self.spec;
        target.kind() != HoldKind::Read
            && !self.asks_apart()
            && (options.get_wait() != Wait::None || !engine.leases.releaser.is_releasing(target))
    }

    /// Enters the queue. If its key is unused, the caller asks the store.
    pub(super) fn enter(
        self: &Arc<Self>,
        place: Option<u64>,
        now: Instant,
    ) -> Result<First, Tried> {
        let queues = &self.spec.engine.queues;
        let caller = self.caller(place, now);
        let target = &self.spec.target;
        if caller.waits_for == WaitsFor::Answer && queues.others_go_first(target) {
            // Another process was notified of the last release, and goes first.
            return Err(Tried::Over(Err(self.busy(BusyReason::Held, None))));
        }
        // The key may change between that look and this one, which decides: the head start is a courtesy.
        let owner = || self.next_owner();
        let admission = match self.queues_in_store() {
            true => queues.enter_store(target, caller, owner),
            false => queues.enter(target, caller, owner, || Arc::clone(self) as _),
        };
        Err(Tried::Over(Err(match admission {
            Admission::First(seat, owner) => {
                return Ok(First::new(Arc::clone(self), now, seat, owner));
            }
            Admission::Waits(ticket) => {
                return Err(Tried::Waits(Box::new(QueuedAcquire::new(Arc::clone(self), ticket))));
            }
            Admission::Busy(reason) => self.busy(reason, None),
            Admission::Failing(error) => LockError::Store(error),
            Admission::Closed => LockError::Closed,
        })))
    }
}

/// A caller that asks the store itself, because its key was unused.
pub(super) struct First {
    request: Arc<Request>,
    contender: Contender,
    /// When it has entered, which is its first sign of life for the queue.
    since: Instant,
}

impl First {
    fn new(request: Arc<Request>, since: Instant, seat: Seat<OwnedHold>, owner: OwnerId) -> Self {
        let attempt = Attempt::of(&request, owner, seat);
        Self { contender: Contender::new(Arc::clone(&request), attempt), request, since }
    }

    /// Asks the store once. If it grants nothing, and the caller waits, a task of the client goes on.
    pub(super) async fn ask(self) -> Tried {
        let Self { request, mut contender, since } = self;
        let seat = contender.seat_id();
        let place = seat.place();
        let engine = &request.spec.engine;
        let every = request.look_every();
        let next = since + every;
        let lives = |now| {
            engine.leases.revive(false);
            engine.queues.lives(&request.spec.target, seat, now)
        };
        // Waiters that come meanwhile queue behind this caller. If it is not polled for a second, one of them makes its seat
        // void, and releases what its owner may be granted.
        let driven = liveness::drive(next, every, lives, pin!(contender.ask_once())).await;
        let answered = match driven {
            Some(Ok(Ok(contended))) => return request.first_end(contended, place),
            Some(Err(error)) => return Tried::Over(Err(error)),
            Some(Ok(Err(answered))) => answered,
            // Passed over: the drop of the contender undoes the request, and its seat admits no one, since another has taken
            // its place.
            None => return Tried::Again(place, None),
        };
        // A caller that does not wait heeds the answer by itself, with the seat of its first request.
        if request.spec.options.get_wait() == Wait::None {
            return match Box::pin(contender.contend(Some(answered), None)).await {
                Ok(contended) => request.first_end(contended, place),
                Err(error) => Tried::Over(Err(error)),
            };
        }
        // From here on the key says that the store is asked for this waiter. No await follows before the client has the job, so
        // the future is not dropped in between; a job that no task begins puts the waiter back into the queue when it is
        // dropped.
        let waits = contender.take_seat().wait(
            request.terms_of_hold(),
            request.started,
            Arc::clone(&request) as _,
        );
        match waits {
            Ok((ticket, asked, seat)) => {
                contender.set_seat(seat);
                let serving =
                    asked.served_by(|asked| request.boxed(serve(asked, contender, Some(answered))));
                engine.leases.give_job(Box::new(serving));
                Tried::Waits(Box::new(QueuedAcquire::new(Arc::clone(&request), ticket)))
            }
            // It was passed over meanwhile.
            Err(place) => Tried::Again(place, None),
        }
    }
}

impl Request {
    fn first_end(&self, contended: Contended, place: Option<u64>) -> Tried {
        match contended {
            Contended::Taken { owned, now, left, .. } => {
                let guard = self.guard_on(owned, now);
                // Readers that queued before this moment share the hold; those that come later find it offered.
                if let Some(left) = left {
                    let kept = Self::keep_for_queue(&guard.owned, Some(&left));
                    left.share_before(Instant::now(), &kept);
                }
                Tried::Over(Ok((AcquireOutcome::Acquired, guard)))
            }
            Contended::ToShare | Contended::PassedOver => Tried::Again(place, None),
        }
    }
}
