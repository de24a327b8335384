//! [`OwnedHold`]: the ownership of a hold, with its fencing token and its seat.
//!
//! Nested guards share one owned hold, and the last guard ends it. Ending it hands the hold to the next waiter
//! of this process where the rules allow, and otherwise releases it to the store, which frees the lock at once
//! or, by itself, when `at_least` has passed. Dropping an owned hold does the same without waiting;
//! [`OwnedHold::release`] waits for the store's answer.
// S-14, S-20.

mod kept;
mod release;

use std::sync::Arc;

pub(crate) use self::release::LocalRelease;
use self::release::leave;
use crate::clock::Tick;
use crate::fence::FencingToken;
use crate::lease::manager::LeaseManager;
use crate::lease::reentries::ReentryGuard;
use crate::lease::releaser::{AfterRelease, Elsewhere};
use crate::lease::{AtLoss, Hold};
use crate::options::Lease;
use crate::queue::{NextHolder, Queues, Seat, Terms, TokensUsed};
use crate::store::{HoldKind, Target};

/// The parts of an owned hold that are not released yet. Each step is one change of this state:
///
/// | step | from | to |
/// |---|---|---|
/// | the next waiter takes over the hold | `HoldAndPlace` | `Nothing`; what it needs is taken out |
/// | the store confirms the release | any | `Nothing`; the next waiter is admitted |
/// | the owned hold is dropped | any but `Nothing` | `Nothing`; the releaser does the rest, place included |
///
/// When the hold is lost, its seat becomes void and the next waiter is served, because this holder may hang.
enum Owned {
    /// The hold, and the seat that keeps the next waiter waiting.
    HoldAndPlace(Seat<OwnedHold>),
    /// The hold alone. The next waiter did not have to wait.
    Hold,
    /// Nothing: the next waiter owns the hold, or the store has freed it.
    Nothing,
}

// S-12.
impl AtLoss for Queues<OwnedHold> {
    fn lost(self: Arc<Self>, target: &Arc<Target>, place: u64) {
        self.vacate(target, place);
    }
}

impl Owned {
    /// Takes everything that is left: `None` if nothing is, else the place, if there is one.
    fn take_all(&mut self) -> Option<Option<Seat<OwnedHold>>> {
        match std::mem::replace(self, Self::Nothing) {
            Self::HoldAndPlace(place) => Some(Some(place)),
            Self::Hold => Some(None),
            Self::Nothing => None,
        }
    }

    fn place(&self) -> Option<&Seat<OwnedHold>> {
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
    /// Its place inside of the write hold around it, for a read hold that has one: there it excludes other writers.
    // S-27.
    pub(crate) inside: Option<Box<ReentryGuard>>,
    owned: Owned,
    /// Counts the release that a caller waits for. The last field: it outlives what dropping this leaves to the
    /// releaser, since a shutdown must wait for both.
    waited_for: Option<Elsewhere>,
}

impl OwnedHold {
    pub(crate) fn new(
        leases: Arc<LeaseManager>,
        hold: Arc<Hold>,
        place: Option<Seat<Self>>,
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

    /// The next waiter of this process that the rules let have the hold, and when it gets it. `now` if the caller has just checked
    /// the hold.
    // S-14.
    fn choose_next(&mut self, now: Option<Tick>) -> Option<(NextHolder<Self>, Tick)> {
        // Most holds have no spare token, because no task waited when they were acquired. This check comes before the clock is
        // read, which they need not pay for. A hold that is being released cannot be passed on either.
        if self.token >= self.last_token || self.hold.is_released() {
            return None;
        }
        let now = now.or_else(|| self.hold.check().ok())?;
        let Lease::Watchdog(lease) = self.hold.lease else { return None };
        // A task of the last holder may still wait inside the hold: let in there, it would be inside beside the next holder.
        let allowed = !self.hold.has_reentries()
            && self.keep_until.is_none_or(|until| until <= now)
            && now.since(self.hold.taken_at) < self.leases.timing.handoff_window
            && self.hold.deadline().since(now) >= lease / 2
            && !self.hold.outlasts_its_lease(now)
            // Last: it refuses the commands of the guard that ends.
            && self.hold.refuse_commands();
        let next = allowed.then(|| self.next_holder()).flatten()?;
        Some((next, now))
    }

    /// Passes what is here to the next local waiter, if [`choose_next`](Self::choose_next) finds one.
    fn pass_on(&mut self, now: Option<Tick>) -> bool {
        let Some((next, now)) = self.choose_next(now) else { return false };
        let mut owned = self.take();
        owned.depart_to_next(now);
        next.hand(Arc::new(owned));
        true
    }

    /// The first waiter in the queue, if it can have the hold. A writer cannot if readers of this process came before it: the store
    /// lets them in after this write.
    // S-27. A reader that comes after this look also comes after that writer.
    fn next_holder(&self) -> Option<NextHolder<Self>> {
        let place = self.owned.place()?;
        let target = &self.hold.target;
        let readers = (target.kind() == HoldKind::Write)
            .then(|| place.wanted_since(&Target::read(target.key().clone())));
        let replicas = target.replicas().map_or(0, |replicas| replicas.acks);
        place.next_holder(Terms { lease: self.hold.lease, replicas, permits: 1 }, readers.flatten())
    }

    /// Takes out what the next holder needs.
    fn take(&mut self) -> Self {
        Self {
            leases: Arc::clone(&self.leases),
            hold: Arc::clone(&self.hold),
            token: self.token,
            last_token: self.last_token,
            handoffs: self.handoffs,
            keep_until: self.keep_until,
            inside: self.inside.take(),
            owned: std::mem::replace(&mut self.owned, Owned::Nothing),
            waited_for: None,
        }
    }

    /// Makes it the next holder's.
    fn depart_to_next(&mut self, now: Tick) {
        self.token = FencingToken::new(self.token.get() + 1);
        self.hold.set_token(self.token);
        // In this order: an earlier guard that begins one finds that the token is not its own.
        self.hold.admit_commands();
        self.handoffs += 1;
        self.hold.departs();
        self.hold.recorder.end(now);
        self.keep_until = None;
    }

    /// What it made of its fencing tokens.
    fn tokens_used(&self) -> TokensUsed {
        let unused = self.last_token.get().saturating_sub(self.token.get());
        let reserved = u32::try_from(unused).unwrap_or(u32::MAX).saturating_add(self.handoffs + 1);
        let since = || (self.leases.clock.clone(), self.hold.taken_at);
        TokensUsed {
            handoffs: self.handoffs,
            reserved,
            since: (reserved > 1).then(since),
            alone: false,
        }
    }

    /// True if a task of this process had it before.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handoffs > 0
    }
}

impl Drop for OwnedHold {
    fn drop(&mut self) {
        if matches!(self.owned, Owned::Nothing) || self.pass_on(None) {
            return;
        }
        self.announce_release();
        let Some(place) = self.owned.take_all() else { return };
        // `at_least` does not outlive a loss that came before the release.
        let lost = !self.hold.is_released() && self.hold.check().is_err();
        let keep_until = self.keep_until.filter(|_| !lost);
        let used = self.tokens_used();
        let after: AfterRelease = Box::new(move |reply| leave(place, used, reply));
        self.leases.release_later(&self.hold, keep_until, Some(after));
    }
}
