//! [`OwnedHold`]: the ownership of a hold, with its fencing token and its seat.
//!
//! Nested guards share one owned hold, and the last guard ends it. Ending it hands the hold to the next waiter
//! of this process where the rules allow, and otherwise releases it to the store, which frees the lock at once
//! or, by itself, when `at_least` has passed. Dropping an owned hold does the same without waiting;
//! [`OwnedHold::release`] waits for the store's answer.
// S-14, S-20.

mod phases;
mod read_phase;
mod release;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

pub(crate) use self::phases::{Found, Phases, WaitingReader, WriterPart};
use self::read_phase::PhaseEnd;
pub(crate) use self::read_phase::ReadPhase;
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
use crate::store::Target;

/// The parts of an owned hold that are not released yet. Each step is one change of this state:
///
/// | step | from | to |
/// |---|---|---|
/// | the next waiter takes over the hold | `HoldAndPlace` | the same, with its `Arc`; `Nothing` if what it needs is taken out |
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

/// Which tasks of this process have the hold next.
enum Next {
    /// The first waiter of the queue. The caller hands the hold to it, as of this time.
    Waiter(NextHolder<OwnedHold>, Tick),
    /// Readers. They have it already.
    Readers,
    /// None: the store has to free the lock.
    None,
}

/// What a hold of a read/write lock has to do with the other side of the lock.
// S-27.
pub(crate) enum Role {
    Nothing,
    /// It reads inside of a write hold, where it excludes other writers.
    InsideWrite(Box<ReentryGuard>),
    /// It writes, and may hand the lock on to readers.
    Writer(Arc<WriterPart>),
    /// Several readers were let in together.
    ReadPhase(Arc<ReadPhase>),
}

/// The ownership of a hold by this process: see the module.
pub(crate) struct OwnedHold {
    pub(crate) leases: Arc<LeaseManager>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// The last token reserved with the hold.
    last_token: FencingToken,
    handoffs: u32,
    /// True if readers had the hold last.
    // S-27.
    after_readers: bool,
    /// The store keeps the hold at least until then, however soon the owned hold ends (`at_least`). Each guard
    /// sets it for its own time.
    pub(crate) keep_until: Option<Tick>,
    pub(crate) role: Role,
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
            after_readers: false,
            keep_until: None,
            role: Role::Nothing,
            owned,
            waited_for: None,
        }
    }

    /// Chooses the next holder in this process, if the rules allow one, and lets it in if it is readers. `now` if the caller has
    /// just checked the hold.
    // S-14.
    fn choose_next(&mut self, now: Option<Tick>) -> Next {
        let writer = match &self.role {
            Role::Writer(writer) if writer.has_reader() => Some(Arc::clone(writer)),
            _ => None,
        };
        // Most holds have no spare token, because no task waited when they were acquired. This check comes before the clock is
        // read, which they need not pay for. A hold that is being released cannot be passed on either.
        if (writer.is_none() && self.token >= self.last_token) || self.hold.is_released() {
            return Next::None;
        }
        let Some(now) = now.or_else(|| self.hold.check().ok()) else { return Next::None };
        let Lease::Watchdog(lease) = self.hold.lease else { return Next::None };
        // A task of the last holder may still wait inside the hold: let in there, it would be inside beside the next holder.
        let allowed = !self.hold.has_reentries()
            && self.keep_until.is_none_or(|until| until <= now)
            && now.since(self.hold.taken_at) < self.leases.timing.handoff_window
            && self.hold.deadline().since(now) >= lease / 2
            && !self.hold.outlasts_its_lease(now)
            // Last: it refuses the commands of the guard that ends.
            && self.hold.refuse_commands();
        if !allowed {
            return Next::None;
        }
        // Readers and writers take turns (S-27).
        if let Some(writer) = &writer
            && !self.after_readers
            && self.hand_to_readers(writer, now)
        {
            return Next::Readers;
        }
        if let Some(next) = self.next_holder() {
            return Next::Waiter(next, now);
        }
        match writer {
            Some(writer) if self.after_readers && self.hand_to_readers(&writer, now) => {
                Next::Readers
            }
            _ => Next::None,
        }
    }

    /// Passes what is here to the next local waiter or to readers, as [`choose_next`](Self::choose_next) says.
    fn pass_on(&mut self, now: Option<Tick>) -> bool {
        match self.choose_next(now) {
            Next::Waiter(next, now) => {
                let mut owned = self.take();
                let _ended = owned.depart_to_next(now);
                next.hand(Arc::new(owned));
                true
            }
            Next::Readers => true,
            Next::None => false,
        }
    }

    /// The first waiter in the queue, if it can have the hold.
    fn next_holder(&self) -> Option<NextHolder<Self>> {
        let place = self.owned.place().filter(|_| self.token < self.last_token)?;
        let replicas = self.hold.target.replicas().map_or(0, |replicas| replicas.acks);
        place.next_holder(Terms { lease: self.hold.lease, replicas, permits: 1 })
    }

    /// Opens a read phase on the hold.
    fn hand_to_readers(&mut self, writer: &WriterPart, now: Tick) -> bool {
        let window = self.leases.timing.phase_window(self.hold.lease.duration());
        if now.since(self.hold.taken_at) >= window || self.owned.place().is_none() {
            return false;
        }
        let mut under = self.take();
        under.depart(now);
        under.after_readers = true;
        match writer.open(under) {
            Ok(()) => true,
            Err(mut under) => {
                std::mem::swap(&mut self.owned, &mut under.owned);
                self.role = std::mem::replace(&mut under.role, Role::Nothing);
                false
            }
        }
    }

    /// Takes out what the next holder needs.
    fn take(&mut self) -> Self {
        Self {
            leases: Arc::clone(&self.leases),
            hold: Arc::clone(&self.hold),
            token: self.token,
            last_token: self.last_token,
            handoffs: self.handoffs,
            after_readers: self.after_readers,
            keep_until: self.keep_until,
            role: std::mem::replace(&mut self.role, Role::Nothing),
            owned: std::mem::replace(&mut self.owned, Owned::Nothing),
            waited_for: None,
        }
    }

    /// Ends the time of its holder, without an end of the hold. Returns the role that the next holder does not have.
    fn depart(&mut self, now: Tick) -> Role {
        self.hold.departs();
        self.hold.recorder.end(now);
        self.keep_until = None;
        match &self.role {
            Role::Writer(_) | Role::Nothing => Role::Nothing,
            _ => std::mem::replace(&mut self.role, Role::Nothing),
        }
    }

    /// Makes it the next holder's. Returns the role that this one does not have.
    fn depart_to_next(&mut self, now: Tick) -> Role {
        self.token = FencingToken::new(self.token.get() + 1);
        self.hold.set_token(self.token);
        // In this order: an earlier guard that begins one finds that the token is not its own.
        self.hold.admit_commands();
        self.handoffs += 1;
        self.after_readers = false;
        self.depart(now)
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

    /// Whether a reader that came at `came_at` may join this read hold.
    // S-27.
    pub(crate) fn admits(&self, came_at: Instant) -> bool {
        match &self.role {
            Role::ReadPhase(phase) => phase.admits(came_at),
            _ => true,
        }
    }

    /// True if tasks of this process wait for its place.
    fn has_queue(&self) -> bool {
        self.owned.place().is_some_and(Seat::has_queue)
    }

    /// The place inside of the write hold around it, for a read hold that has one.
    pub(crate) fn inside(&self) -> Option<&ReentryGuard> {
        match &self.role {
            Role::InsideWrite(inside) => Some(inside),
            _ => None,
        }
    }

    /// Ends the read phase that it is, if it is one, and returns the write hold under it.
    fn end_phase(&mut self, now: Tick) -> PhaseEnd {
        let Role::ReadPhase(phase) = &self.role else { return PhaseEnd::ReadHold };
        let end = phase.end();
        match &end {
            PhaseEnd::WriteHold(_) => {
                self.hold.mark_released(now);
                self.leases.watchdog.remove(&self.hold);
                self.owned = Owned::Nothing;
            }
            // Marked here: that the store does not know it yet, or any more, is no loss. It may also grant it later.
            PhaseEnd::Both(_) => {
                self.hold.mark_released(now);
                self.hold.unsettled.store(true, Ordering::Relaxed);
            }
            PhaseEnd::ReadHold if phase.is_unsettled() => {
                self.hold.unsettled.store(true, Ordering::Relaxed);
            }
            PhaseEnd::ReadHold => {}
        }
        end
    }
}

impl Drop for OwnedHold {
    fn drop(&mut self) {
        if matches!(self.owned, Owned::Nothing) || self.pass_on(None) {
            return;
        }
        // Dropped last: what the store has of the read hold is released before the write hold around it.
        let now = self.leases.clock.now();
        let _under = match self.end_phase(now) {
            PhaseEnd::ReadHold => None,
            PhaseEnd::WriteHold(under) => return drop(under),
            PhaseEnd::Both(under) => Some(under),
        };
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
