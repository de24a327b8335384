//! What guards stand on: a hold together with the seat at the gate and a fencing token.
//!
//! Nested guards share one stand; the last to go ends it. Ending it hands the hold to the next in
//! the local line where the rules allow, and gives it back to the store otherwise, to be freed at once or,
//! by the store alone, when `at_least` has passed. Dropping a stand does
//! either without waiting; [`Stand::release`] waits for the store's word.
// S-14, S-20.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Tick;
use crate::error::{LockError, LossCause, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::gate::Seat;
use crate::lease::Hold;
use crate::lease::keeper::Keeper;
use crate::lease::reentries::ReentryGuard;
use crate::lease::releaser::{AfterRelease, keep};
use crate::observe::ReleaseOutcome;
use crate::options::Lease;
use crate::store::{ReleaseReply, ReleaseRequest};

/// Shared with the hold, which lets the next in line in when it is lost: whoever has the guard then
/// may be hanging.
// S-12.
#[derive(Clone)]
struct SharedSeat(Arc<Mutex<Option<Seat<Stand>>>>);

impl SharedSeat {
    fn new(seat: Option<Seat<Stand>>, hold: &Hold) -> Self {
        let shared = Self(Arc::new(Mutex::new(seat)));
        if shared.with(|seat| seat.is_some()) {
            let seat = shared.clone();
            hold.on_lost(move || drop(seat.take()));
        }
        shared
    }

    fn take(&self) -> Option<Seat<Stand>> {
        self.with(Option::take)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Option<Seat<Stand>>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One place of holders: see the module.
pub(crate) struct Stand {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// The last token reserved with the hold.
    last_token: FencingToken,
    handoffs: u32,
    /// The store keeps the hold until then at least, however soon the stand ends (`at_least`). Each
    /// guard that has the hold sets it for itself.
    pub(crate) keep_until: Option<Tick>,
    /// Keeps writers of the enclosing write hold out, for a read hold inside of one.
    // S-27.
    pub(crate) inside: Option<ReentryGuard>,
    /// Gone once the stand has ended or the hold is lost, and from the start where the next in line
    /// need not wait for that.
    seat: SharedSeat,
    /// False once somebody else sees to the hold.
    ours: bool,
}

impl Stand {
    pub(crate) fn new(
        keeper: Arc<Keeper>,
        hold: Arc<Hold>,
        seat: Option<Seat<Self>>,
        token: FencingToken,
        tokens: u32,
    ) -> Self {
        let last_token = FencingToken::new(token.get() + u64::from(tokens.max(1)) - 1);
        let seat = SharedSeat::new(seat, &hold);
        Self {
            keeper,
            hold,
            token,
            last_token,
            handoffs: 0,
            keep_until: None,
            inside: None,
            seat,
            ours: true,
        }
    }

    /// Passes the hold to the next in the local line, if the rules allow it and somebody is there.
    // S-14.
    fn hand_off(&mut self) -> bool {
        // Without a token to spare nobody was in line when the hold was taken: the usual case, told
        // without a look at the clock. And a hold that is being released is nobody's to pass on.
        if self.token >= self.last_token || self.hold.is_released() {
            return false;
        }
        let Ok(now) = self.hold.check() else { return false };
        let Lease::Watchdog(lease) = self.hold.lease else { return false };
        // A task of the last holder may still wait inside the hold; the next would find it there (S-6).
        let allowed = !self.hold.has_reentries()
            && self.keep_until.is_none_or(|until| until <= now)
            && now.since(self.hold.taken_at) < self.keeper.timing.handoff_window
            && self.hold.deadline().since(now) >= lease / 2;
        if !allowed {
            return false;
        }
        let Some(seat) = self.seat.take() else { return false };
        let next = |seat| {
            let token = FencingToken::new(self.token.get() + 1);
            self.hold.set_token(token);
            self.hold.departs();
            self.hold.seen.end(now);
            Self {
                keeper: Arc::clone(&self.keeper),
                hold: Arc::clone(&self.hold),
                token,
                last_token: self.last_token,
                handoffs: self.handoffs + 1,
                keep_until: None,
                inside: None,
                seat: SharedSeat::new(Some(seat), &self.hold),
                ours: true,
            }
        };
        let replicas = self.hold.target.replicas().map_or(0, |replicas| replicas.at_least);
        match seat.hand_off(self.hold.lease, replicas, next) {
            Ok(()) => {
                self.ours = false;
                true
            }
            Err(seat) => {
                self.seat.with(|ours| *ours = Some(seat));
                // Lost meanwhile, it would not be taken out any more.
                if self.hold.check().is_err() {
                    drop(self.seat.take());
                }
                false
            }
        }
    }

    /// Ends the stand and waits for the store's word.
    ///
    /// Dropping the future leaves the rest to the releaser.
    pub(crate) async fn release(mut self) -> Result<(), LockError> {
        if let Err(cause) = self.hold.check() {
            // The loss needs no network to be reported (S-12); the releaser cleans up.
            return Err(self.hold.lost_error(cause));
        }
        if self.hand_off() {
            return Ok(());
        }
        self.give_back().await
    }

    /// The same for a holder whom nothing is to hold up: past a moment, the rest is the releaser's.
    pub(crate) async fn release_in_passing(self) -> Result<(), LockError> {
        let sight = Arc::clone(&self.keeper.sight);
        if !sight.is_clear() {
            return self.hold.check().map(drop).map_err(|cause| self.hold.lost_error(cause));
        }
        match sight.within_a_look(self.release()).await {
            Err(LockError::Store(_)) => Ok(()),
            released => released,
        }
    }

    async fn give_back(self) -> Result<(), LockError> {
        // A shutdown has to wait for it too. Outlives the stand, which may leave the rest to the
        // releaser.
        let _counted = self.keeper.releaser.elsewhere();
        let mut stand = self;
        stand.hold.mark_released();
        stand.keeper.watchdog.remove(&stand.hold);
        stand.seat.with(|seat| seat.as_ref().map(Seat::leaving));
        let reply = stand.ask_release().await;
        let outcome = match &reply {
            Ok(ReleaseReply::Released { .. }) => Ok(()),
            Ok(ReleaseReply::NotOwner) => Err(stand.hold.lost_error(LossCause::NotOwner)),
            Err(error) => Err(LockError::Store(error.clone())),
        };
        if let Some(meter) = stand.hold.release_meter() {
            match &reply {
                // Whether it was a repetition that found it gone is in the reply already.
                Ok(reply) => meter.answered(*reply, false),
                Err(_) => meter.released(ReleaseOutcome::Failed),
            }
        }
        // A request that takes this hold may still be under way: then the releaser asks again.
        if let Ok(reply) = reply
            && !stand.hold.unsettled
        {
            stand.ours = false;
            leave(stand.seat.take(), stand.handoffs, Some(reply));
        }
        outcome
    }

    /// When to leave an unanswered release to the releaser.
    fn give_up_at(&self) -> Instant {
        let left = self.hold.deadline().since(self.keeper.clock.now());
        Instant::now() + self.keeper.timing.store_patience.min(left)
    }

    /// Asks until there is an answer, for as long as the lease and the patience last.
    // S-19.
    async fn ask_release(&self) -> Result<ReleaseReply, StoreError> {
        let timing = self.keeper.timing;
        let mut give_up = None;
        let mut repeated = false;
        loop {
            let request = ReleaseRequest {
                target: Arc::clone(&self.hold.target),
                owner: self.hold.owner.clone(),
                keep: keep(self.keep_until, self.keeper.clock.now()),
                timeout: timing.command_timeout,
            };
            match self.keeper.store.release(request).await {
                // Gone after a lost reply, and in time: it was we who released it.
                Ok(ReleaseReply::NotOwner)
                    if repeated && self.keeper.clock.now() < self.hold.deadline() =>
                {
                    return Ok(ReleaseReply::Released { others: 0 });
                }
                Err(error)
                    if error.kind().is_transient()
                        && Instant::now() < *give_up.get_or_insert_with(|| self.give_up_at()) =>
                {
                    // Only what may have run can be the reason for a later "not the owner".
                    repeated |= error.kind() == StoreErrorKind::OutcomeUnknown;
                    let pause = Duration::from_millis(fastrand::u64(5..25));
                    tokio::time::sleep(pause).await;
                }
                reply => return reply,
            }
        }
    }
}

/// Leaves the gate after a release that was answered, or not.
fn leave(seat: Option<Seat<Stand>>, handoffs: u32, reply: Option<ReleaseReply>) {
    let Some(seat) = seat else { return };
    if reply.is_some() {
        seat.answered(false);
    }
    seat.note_handoffs(handoffs);
    seat.leave(match reply {
        Some(ReleaseReply::Released { others }) => others,
        _ => 0,
    });
}

impl Drop for Stand {
    fn drop(&mut self) {
        if !self.ours || self.hand_off() {
            return;
        }
        let seat = self.seat.take();
        if let Some(seat) = &seat {
            seat.leaving();
        }
        // Nothing is kept of what was lost before it was let go.
        let lost = !self.hold.is_released() && self.hold.check().is_err();
        let keep_until = self.keep_until.filter(|_| !lost);
        let handoffs = self.handoffs;
        let after: AfterRelease = Box::new(move |reply| leave(seat, handoffs, reply));
        self.keeper.give_back(&self.hold, keep_until, Some(after));
    }
}

impl fmt::Debug for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stand").field("hold", &self.hold).finish_non_exhaustive()
    }
}
