//! [`OwnedHold`]: the ownership of a hold, with its fencing token and its place at the gate.
//!
//! Nested guards share one owned hold, and the last guard ends it. Ending it hands the hold to the next waiter
//! of this process where the rules allow, and otherwise releases it to the store, which frees the lock at once
//! or, by itself, when `at_least` has passed. Dropping an owned hold does the same without waiting;
//! [`OwnedHold::release`] waits for the store's answer.
// S-14, S-20.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Tick;
use crate::error::{LockError, LossCause, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::gate::{GateGuard, Gates, Sleeper};
use crate::lease::manager::LeaseManager;
use crate::lease::reentries::{KeepsHold, ReentryGuard};
use crate::lease::releaser::{AfterRelease, Elsewhere, keep};
use crate::lease::{AtLoss, Hold};
use crate::observe::ReleaseOutcome;
use crate::options::Lease;
use crate::store::{ReleaseReply, ReleaseRequest, Target};

/// The parts of an owned hold that are not released yet. Each step is one change of this state:
///
/// | step | from | to |
/// |---|---|---|
/// | the next waiter takes over the hold | `HoldAndPlace` | `Nothing` |
/// | the store confirms the release | any | `Nothing`; the next waiter is admitted |
/// | the owned hold is dropped | any but `Nothing` | `Nothing`; the releaser does the rest, place included |
///
/// When the hold is lost, its place becomes void and the gate admits the next waiter, because this holder may hang.
enum Owned {
    /// The hold, and the place at the gate that keeps the next waiter waiting.
    HoldAndPlace(GateGuard<OwnedHold>),
    /// The hold alone. The next waiter did not have to wait.
    Hold,
    /// Nothing: the next waiter owns the hold, or the store has freed it.
    Nothing,
}

// S-12.
impl AtLoss for Gates<OwnedHold> {
    fn lost(self: Arc<Self>, target: &Arc<Target>, place: u64) {
        self.admit_behind(target, place);
    }
}

impl Owned {
    /// Takes everything that is left: `None` if nothing is, else the place, if there is one.
    fn take_all(&mut self) -> Option<Option<GateGuard<OwnedHold>>> {
        match std::mem::replace(self, Self::Nothing) {
            Self::HoldAndPlace(place) => Some(Some(place)),
            Self::Hold => Some(None),
            Self::Nothing => None,
        }
    }

    fn place(&self) -> Option<&GateGuard<OwnedHold>> {
        match self {
            Self::HoldAndPlace(place) => Some(place),
            Self::Hold | Self::Nothing => None,
        }
    }
}

/// The ownership of a hold by this process: see the module.
pub(crate) struct OwnedHold {
    pub(crate) leases: Arc<LeaseManager>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// The last token reserved with the hold.
    last_token: FencingToken,
    handoffs: u32,
    /// The store keeps the hold at least until then, however soon the owned hold ends (`at_least`). Each guard
    /// sets it for its own time.
    pub(crate) keep_until: Option<Tick>,
    /// For a read hold inside of a write hold: excludes other writers inside that write hold.
    // S-27.
    pub(crate) inside: Option<ReentryGuard>,
    owned: Owned,
    /// Counts the release that a caller waits for. The last field: it outlives what dropping this leaves to the
    /// releaser, since a shutdown must wait for both.
    waited_for: Option<Elsewhere>,
}

impl KeepsHold for Arc<OwnedHold> {
    fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }
}

impl OwnedHold {
    pub(crate) fn new(
        leases: Arc<LeaseManager>,
        hold: Arc<Hold>,
        place: Option<GateGuard<Self>>,
        token: FencingToken,
        tokens: u32,
    ) -> Self {
        let last_token = token.last_of(tokens);
        let owned = place.map_or(Owned::Hold, Owned::HoldAndPlace);
        Self {
            leases,
            hold,
            token,
            last_token,
            handoffs: 0,
            keep_until: None,
            inside: None,
            owned,
            waited_for: None,
        }
    }

    /// Passes the hold to the next local waiter, if the rules allow it and there is one.
    // S-14.
    fn hand_off(&mut self) -> bool {
        // Without a spare token the queue was empty when the hold was acquired: the usual case, found without
        // reading the clock. And a hold that is being released cannot be passed on.
        if self.token >= self.last_token || self.hold.is_released() {
            return false;
        }
        let Ok(now) = self.hold.check() else { return false };
        let Lease::Watchdog(lease) = self.hold.lease else { return false };
        // A task of the last holder may still wait inside the hold; the next holder would find it there (S-6).
        let allowed = !self.hold.has_reentries()
            && self.keep_until.is_none_or(|until| until <= now)
            && now.since(self.hold.taken_at) < self.leases.timing.handoff_window
            && self.hold.deadline().since(now) >= lease / 2;
        if !allowed {
            return false;
        }
        let place = match std::mem::replace(&mut self.owned, Owned::Nothing) {
            Owned::HoldAndPlace(place) => place,
            other => {
                self.owned = other;
                return false;
            }
        };
        let next = |place| {
            let token = FencingToken::new(self.token.get() + 1);
            self.hold.set_token(token);
            self.hold.departs();
            self.hold.recorder.end(now);
            Self {
                leases: Arc::clone(&self.leases),
                hold: Arc::clone(&self.hold),
                token,
                last_token: self.last_token,
                handoffs: self.handoffs + 1,
                keep_until: None,
                inside: None,
                owned: Owned::HoldAndPlace(place),
                waited_for: None,
            }
        };
        let replicas = self.hold.target.replicas().map_or(0, |replicas| replicas.at_least);
        match place.hand_off(self.hold.lease, replicas, next) {
            Ok(()) => true,
            Err(place) => {
                self.owned = Owned::HoldAndPlace(place);
                false
            }
        }
    }

    /// Ends the owned hold and waits for the store's answer.
    ///
    /// Dropping the future leaves the rest to the releaser.
    #[expect(clippy::manual_async_fn, reason = "an async function would keep `self` twice")]
    pub(crate) fn release(mut self) -> impl Future<Output = Result<(), LockError>> + Send {
        async move {
            // A loss is reported without the store (S-12); the releaser cleans up.
            let now = self.hold.ensure_held()?;
            if self.hand_off() {
                return Ok(());
            }
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
            leave(self.owned.take_all().flatten(), self.handoffs, Some(reply));
        }
        outcome
    }

    /// Announces the release to newcomers at the gate.
    fn announce_release(&self) {
        if let Some(place) = self.owned.place() {
            place.leaving();
        }
    }

    /// Returns when to leave an unanswered release to the releaser.
    fn give_up_at(&self) -> Instant {
        let left = self.hold.deadline().since(self.leases.clock.now());
        Instant::now() + self.leases.timing.store_patience.min(left)
    }

    /// The request, and the waiter to wake once it is on its way.
    fn release_request(&self) -> (ReleaseRequest, Option<Sleeper>) {
        let (target, owner) = (Arc::clone(&self.hold.target), self.hold.owner.clone());
        let timeout = self.leases.timing.command_timeout;
        let keep = keep(self.keep_until, &self.leases.clock);
        let place = self.owned.place().filter(|_| keep.is_zero());
        let next = place.and_then(GateGuard::next_unqueued);
        let next_owner = next.as_ref().map(|next| Box::new(next.owner.clone()));
        (ReleaseRequest { target, owner, keep, next: next_owner, timeout }, next)
    }

    /// Asks until the store answers, for as long as the lease and the patience last.
    // S-19.
    async fn ask_release(&self) -> Result<ReleaseReply, StoreError> {
        let mut give_up = None;
        let mut repeated = false;
        loop {
            let (request, mut next) = self.release_request();
            let mut released = pin!(self.leases.store.release(request));
            let released = poll_fn(|cx| {
                let released = released.as_mut().poll(cx);
                // Its request follows this one: the first poll has sent it.
                drop(next.take());
                released
            });
            match released.await {
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

/// Leaves the gate after the first attempt to release, with the store's answer if there was one.
fn leave(place: Option<GateGuard<OwnedHold>>, handoffs: u32, reply: Option<ReleaseReply>) {
    let Some(place) = place else { return };
    let others = reply.map(|reply| match reply {
        ReleaseReply::Released { others } => others,
        ReleaseReply::NotOwner => 0,
    });
    place.leave(handoffs, others);
}

impl Drop for OwnedHold {
    fn drop(&mut self) {
        if matches!(self.owned, Owned::Nothing) || self.hand_off() {
            return;
        }
        self.announce_release();
        let Some(place) = self.owned.take_all() else { return };
        // `at_least` does not outlive a loss that came before the release.
        let lost = !self.hold.is_released() && self.hold.check().is_err();
        let keep_until = self.keep_until.filter(|_| !lost);
        let handoffs = self.handoffs;
        let after: AfterRelease = Box::new(move |reply| leave(place, handoffs, reply));
        self.leases.release_later(&self.hold, keep_until, Some(after));
    }
}
