//! Ends an owned hold: by a hand-off or the store's answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::OwnedHold;
use crate::clock::Tick;
use crate::error::{LockError, LossCause, StoreError, StoreErrorKind};
use crate::lease::releaser::keep;
use crate::observe::ReleaseOutcome;
use crate::queue::{Seat, TokensUsed};
use crate::store::{ReleaseReply, ReleaseRequest};

/// Result of a release as far as it goes without the store.
pub(crate) enum LocalRelease {
    /// It is over: the hold was handed on, other guards keep it, or it is lost, which is the error.
    Done(Result<(), LockError>),
    /// The store has to be asked, by [`OwnedHold::release_from`] with this time.
    NeedsStore(OwnedHold, Tick),
}

impl OwnedHold {
    /// Takes the owned hold out, for its last guard.
    ///
    /// # Errors
    ///
    /// If other guards keep it: whether it is held.
    pub(crate) fn alone(owned: Arc<Self>) -> Result<Self, Result<(), LockError>> {
        Arc::try_unwrap(owned).or_else(|owned| {
            // Another guard may be dropped meanwhile: then this is the last one.
            let hold = Arc::clone(&owned.hold);
            Arc::into_inner(owned).ok_or_else(|| hold.ensure_held().map(drop))
        })
    }

    /// Ends the owned hold without the store, if it is lost, passes to a task of this process or is kept by other guards.
    // The next holder gets an `Arc` of its own: what refers to this one weakly, such as a scope that has ended, must not find it.
    pub(crate) fn release_here(owned: Arc<Self>) -> LocalRelease {
        Self::alone(owned).map_or_else(LocalRelease::Done, Self::release_alone)
    }

    fn release_alone(mut self) -> LocalRelease {
        match self.hold.ensure_held() {
            // A loss is reported without the store (S-12); the releaser cleans up.
            Err(lost) => LocalRelease::Done(Err(lost)),
            Ok(now) if self.pass_on(Some(now)) => LocalRelease::Done(Ok(())),
            Ok(now) => LocalRelease::NeedsStore(self, now),
        }
    }

    /// Ends the owned hold and waits for the store's answer.
    ///
    /// Dropping the future leaves the rest to the releaser.
    pub(crate) async fn release(self) -> Result<(), LockError> {
        match self.release_alone() {
            LocalRelease::Done(released) => released,
            LocalRelease::NeedsStore(owned, now) => owned.release_from(now).await,
        }
    }

    /// As [`release`](Self::release), after [`release_here`](Self::release_here).
    #[expect(clippy::manual_async_fn, reason = "an async function would keep `self` twice")]
    pub(crate) fn release_from(
        mut self,
        now: Tick,
    ) -> impl Future<Output = Result<(), LockError>> + Send {
        async move {
            self.waited_for = Some(self.leases.releaser.elsewhere());
            self.release_to_store(now).await
        }
    }

    /// As [`release`](Self::release), for a call that is not enforced: leaves the rest to the releaser if the
    /// store's answer is overdue.
    pub(crate) async fn shadow_release(self) -> Result<(), LockError> {
        let breaker = Arc::clone(&self.leases.breaker);
        if !breaker.is_closed() {
            return self.hold.ensure_held().map(drop);
        }
        match breaker.within_shadow_timeout(self.release()).await {
            Err(LockError::Store(_)) => Ok(()),
            released => released,
        }
    }

    async fn release_to_store(&mut self, now: Tick) -> Result<(), LockError> {
        self.hold.mark_released(now);
        self.leases.watchdog.remove(&self.hold);
        self.announce_release();
        let reply = self.ask_release().await;
        let outcome = match &reply {
            Ok(ReleaseReply::Released { .. }) => Ok(()),
            Ok(ReleaseReply::NotOwner) => Err(self.hold.lost_error(LossCause::NotOwner)),
            Err(error) => Err(LockError::Store(error.clone())),
        };
        if let Some(meter) = self.hold.release_meter() {
            match &reply {
                // The reply already tells whether an earlier request freed it.
                Ok(reply) => meter.answered(*reply, false),
                Err(_) => meter.released(ReleaseOutcome::Failed),
            }
        }
        // A request that acquires this hold may still be under way: then the releaser asks again.
        if let Ok(reply) = reply
            && !self.hold.unsettled
        {
            let used = self.tokens_used();
            leave(self.owned.take_all().flatten(), used, Some(reply));
        }
        outcome
    }

    /// Announces the release to newcomers at the queue.
    pub(super) fn announce_release(&self) {
        if let Some(place) = self.owned.place() {
            place.leaving();
        }
    }

    /// Returns when to leave an unanswered release to the releaser.
    fn give_up_at(&self) -> Instant {
        let left = self.hold.deadline().since(self.leases.clock.now());
        Instant::now() + self.leases.timing.store_patience.min(left)
    }

    fn release_request(&self) -> ReleaseRequest {
        let (target, owner) = (Arc::clone(&self.hold.target), self.hold.owner.clone());
        let timeout = self.leases.timing.command_timeout;
        let keep = keep(self.keep_until, &self.leases.clock);
        let lasts = self.hold.stored_until().since(self.leases.clock.now());
        ReleaseRequest { target, owner, keep, lasts, timeout }
    }

    /// Asks until the store answers, for as long as the lease and the patience last.
    // S-19.
    async fn ask_release(&self) -> Result<ReleaseReply, StoreError> {
        let mut give_up = None;
        let mut repeated = false;
        loop {
            match self.leases.store.release(self.release_request()).await {
                // Gone in time, after a lost reply: an earlier request of this process released it.
                Ok(ReleaseReply::NotOwner)
                    if repeated && self.leases.clock.now() < self.hold.deadline() =>
                {
                    return Ok(ReleaseReply::Released { others: 0 });
                }
                Err(error)
                    if error.kind().is_transient()
                        && Instant::now() < *give_up.get_or_insert_with(|| self.give_up_at()) =>
                {
                    // Only a request that may have run can cause a later "not the owner".
                    repeated |= error.kind() == StoreErrorKind::OutcomeUnknown;
                    let pause = Duration::from_millis(fastrand::u64(5..25));
                    // Boxed: every release would have room for it.
                    Box::pin(tokio::time::sleep(pause)).await;
                }
                reply => return reply,
            }
        }
    }
}

/// Leaves the seat after the first attempt to release a hold that used these tokens, with the store's answer if there was
/// one.
pub(super) fn leave(place: Option<Seat<OwnedHold>>, used: TokensUsed, reply: Option<ReleaseReply>) {
    let Some(place) = place else { return };
    // After another answer, others heard the release, or may want the lock and hear nothing.
    let alone = matches!(reply, Some(ReleaseReply::Released { others: 0 }));
    let others = reply.map(|reply| match reply {
        ReleaseReply::Released { others } => others,
        ReleaseReply::NotOwner => 0,
    });
    place.leave(&TokensUsed { alone, ..used }, others);
}
