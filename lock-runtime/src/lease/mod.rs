//! A hold that was acquired from the store: how long it lasts, and the tasks that renew it.
//!
//! [`Hold`] does the arithmetic and is the one place that declares a loss. The [`watchdog`] renews holds at the times
//! of its [`schedule`], the [`releaser`] releases those that were dropped, and the [`lease manager`] owns both.
//! [`reentries`] decides which guards may be inside one hold at once.
//!
//! # Invariants
//!
//! 1. The deadline is computed from before a request was sent, never from its reply, and moves only forward and
//!    only on a confirmed success.
//! 2. A hold that was seen lost stays lost, whatever a late reply says.
//! 3. Unknown is not lost: only a passed deadline or a NotOwner answer is.
// S-8, S-9.

mod batch;
mod client_task;
mod commands;
mod in_flight;
mod keepers;
pub(crate) mod manager;
mod pulse;
pub(crate) mod reentries;
pub(crate) mod releaser;
mod schedule;
mod stored;
mod under_way;
mod watchdog;
pub(crate) mod watched;

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

#[cfg(feature = "redis")]
pub(crate) use self::commands::CommandUnderWay;
pub(crate) use self::pulse::Pulse;
use self::reentries::Level;
use self::schedule::Slot;
pub(crate) use self::under_way::{UnderWay, wait_until};
use crate::clock::{Clock, Tick};
use crate::error::{LockError, LossCause};
use crate::fence::FencingToken;
use crate::observe::{HoldRecorder, Meter, ReleaseOutcome};
use crate::options::Lease;
use crate::store::{OwnerId, Target};

/// Returns the end of a lease that was requested at `sent_at`, with a margin for clocks that run at different
/// speeds.
// S-8: the server's time begins when the request arrives, so this one is over first, however late the answer is.
pub(crate) fn deadline(sent_at: Tick, lease: Duration) -> Tick {
    let margin = lease / 100 + Duration::from_millis(2);
    sent_at.after(lease.saturating_sub(margin))
}

// | state | next | by |
// |---|---|---|
// | `HELD` | `LOST_DEADLINE` | the first check after the deadline |
// | | `LOST_NOT_OWNER` | an answer of the store |
// | | `RELEASED` | `mark_released`, for its last guard |
// | the others | nothing | |
//
// Each change is one compare-and-exchange from `HELD`, so of a loss and a release that meet the first stays.
const HELD: u8 = 0;
const LOST_DEADLINE: u8 = 1;
const LOST_NOT_OWNER: u8 = 2;
const RELEASED: u8 = 3;

/// A hold of one key. Guards use it one after the other (hand-off) or one inside the other (re-entry).
pub(crate) struct Hold {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: OwnerId,
    pub(crate) lease: Lease,
    /// Before the request that acquired it was sent.
    pub(crate) taken_at: Tick,
    /// True if an earlier request for this owner may still take effect late.
    // S-21.
    pub(crate) unsettled: bool,
    clock: Clock,
    pulse: Arc<Pulse>,
    /// Nanoseconds of a [`Tick`].
    // Grows by `confirm` (AcqRel); its partners are the loads. One that misses a confirmation finds an earlier deadline, which
    // is safe.
    deadline: AtomicU64,
    /// The latest end that the store may have for it, in nanoseconds of a [`Tick`].
    stored_until: AtomicU64,
    // Loads acquire what was written before the change. Tasks that wait for a change are ordered by `told`: see `tell`.
    state: AtomicU8,
    told: Mutex<Told>,
    on_loss: Option<SeatOfHold>,
    /// The holds of several locks that were acquired in turn, if this is the hold of all of them.
    parts: Option<Parts>,
    /// Renewals under way.
    renewals: AtomicU8,
    /// When renewals end, in nanoseconds of a [`Tick`] (`max_hold`).
    renew_until: AtomicU64,
    /// Guards that use this hold at once, without those of re-entries.
    // | count | meaning | next |
    // |---|---|---|
    // | 1 or more | guards use it; more than one only if readers share it | 0 by `departs`, or as the last reader leaves |
    // | 0 | on its way to a waiter, or only kept for readers to join; not renewed | 1 by `arrives` or `count_in` |
    //
    // Every change is a read-modify-write, so a load that acquires one (`has_guards`) has all that came before it: an observer
    // that finds the next holder's guard finds that holder's token, too.
    count: AtomicU32,
    /// Commands whose outcome is not known.
    commands: AtomicU8,
    /// The fencing token of its current holder.
    token: AtomicU64,
    slot: Slot,
    /// The root of the re-entries inside it. Made for the first of them.
    level: OnceLock<Arc<Level>>,
    pub(crate) recorder: HoldRecorder,
}

/// The tasks that wait for what happens to a hold.
#[derive(Default)]
struct Told {
    /// Made for the first of them: most holds end before a task waits for that.
    tasks: Option<Arc<Notify>>,
    /// True once one of them waits for the end of a guard. Until then the end of a guard, which is frequent with re-entries, wakes no
    /// task.
    are_guards_watched: bool,
}

/// The holds of several locks, at least two. Boxed twice: a hold is small, and few have parts.
type Parts = Box<Box<[Arc<Hold>]>>;

/// Acts at once when a hold is lost.
pub(crate) trait AtLoss: Send + Sync {
    /// Called once for a hold of that target and place, by the task that finds the loss.
    fn lost(self: Arc<Self>, target: &Arc<Target>, place: u64);
}

/// The queue of a hold, and the number of its seat there.
// A number, because the seat itself belongs to the owned hold, which may hang when the hold is lost. The seat is void from then
// on. A hold that is handed over keeps its seat, and so the number.
pub(crate) type SeatOfHold = (Arc<dyn AtLoss>, u64);

/// The arguments of a new [`Hold`].
pub(crate) struct Taken {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: OwnerId,
    pub(crate) lease: Lease,
    /// How long the store was asked to keep it, which `at_least` may make longer than the lease.
    pub(crate) stored_lease: Duration,
    pub(crate) sent_at: Tick,
    pub(crate) token: FencingToken,
    pub(crate) unsettled: bool,
    /// If the next waiter of this process has to wait for the end of the hold.
    pub(crate) on_loss: Option<SeatOfHold>,
}

impl Hold {
    pub(crate) fn new(taken: Taken, clock: Clock, pulse: Arc<Pulse>) -> Self {
        let Taken { target, owner, lease, stored_lease, sent_at, .. } = taken;
        let Taken { token, unsettled, on_loss, .. } = taken;
        Self {
            target,
            owner,
            lease,
            taken_at: sent_at,
            unsettled,
            clock,
            pulse,
            deadline: AtomicU64::new(deadline(sent_at, lease.duration()).as_nanos()),
            stored_until: AtomicU64::new(sent_at.after(stored_lease).as_nanos()),
            state: AtomicU8::new(HELD),
            told: Mutex::default(),
            on_loss,
            parts: None,
            renewals: AtomicU8::new(0),
            renew_until: AtomicU64::new(u64::MAX),
            count: AtomicU32::new(1),
            commands: AtomicU8::new(0),
            token: AtomicU64::new(token.get()),
            slot: Slot::default(),
            level: OnceLock::new(),
            recorder: HoldRecorder::default(),
        }
    }

    /// The hold of several locks that were acquired in turn, for their one guard. Each of them is renewed and released by its own
    /// client. This one is known to no store and no watchdog: it lasts for as long as they all do, and does not count for metrics.
    // S-28.
    pub(crate) fn of_parts(target: Arc<Target>, parts: Box<[Arc<Self>]>, meter: Meter) -> Self {
        let first = &*parts[0];
        let taken = Taken {
            target,
            owner: first.owner.with_permits(1),
            lease: first.lease,
            stored_lease: Duration::ZERO,
            sent_at: first.taken_at,
            token: parts.iter().map(|part| part.token()).max().unwrap_or(first.token()),
            unsettled: false,
            on_loss: None,
        };
        let (clock, pulse) = (first.clock.clone(), Arc::clone(&first.pulse));
        Self {
            deadline: AtomicU64::new(u64::MAX),
            parts: Some(Box::new(parts)),
            recorder: HoldRecorder::uncounted(meter),
            ..Self::new(taken, clock, pulse)
        }
    }

    /// The holds in the store: those of its parts, or itself.
    pub(crate) fn parts(self: &Arc<Self>) -> &[Arc<Self>] {
        self.parts.as_ref().map_or(std::slice::from_ref(self), |parts| parts)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn deadline(&self) -> Tick {
        Tick::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Returns the time left until the deadline; zero once lost.
    pub(crate) fn remaining(&self) -> Duration {
        match self.check() {
            Ok(now) => self.left(now, Self::remaining),
            Err(_) => Duration::ZERO,
        }
    }

    /// The time left of a hold that is not lost. Each part counts it on the clock of its client.
    fn left(&self, now: Tick, of_part: fn(&Self) -> Duration) -> Duration {
        let parts = self.parts.iter().flat_map(|parts| parts.iter());
        parts.map(|part| of_part(part)).fold(self.deadline().since(now), Duration::min)
    }

    /// The same, where nothing may run that a loss would wake: declares none.
    pub(crate) fn peek_remaining(&self) -> Duration {
        match self.is_lost() {
            true => Duration::ZERO,
            false => self.left(self.clock.now(), Self::peek_remaining),
        }
    }

    /// Returns the time now, or the cause if the hold is lost. Declares the loss if the deadline has passed,
    /// which needs no network.
    // S-12.
    pub(crate) fn check(&self) -> Result<Tick, LossCause> {
        match self.state.load(Ordering::Acquire) {
            LOST_DEADLINE => Err(LossCause::Deadline),
            LOST_NOT_OWNER => Err(LossCause::NotOwner),
            // One that is released, too: its release is no loss before the deadline, and `lose` changes nothing after it.
            _ => {
                let lost = |parts: &Parts| parts.iter().find_map(|part| part.check().err());
                if let Some(cause) = self.parts.as_ref().and_then(lost) {
                    return Err(self.lose(cause));
                }
                let now = self.clock.now();
                if now < self.deadline() { Ok(now) } else { Err(self.lose(LossCause::Deadline)) }
            }
        }
    }

    /// The same, with the error of a lost hold.
    pub(crate) fn ensure_held(&self) -> Result<Tick, LockError> {
        self.check().map_err(|cause| self.lost_error(cause))
    }

    /// Declares the hold lost and wakes the tasks that wait for the loss. The first cause stays.
    pub(crate) fn lose(&self, cause: LossCause) -> LossCause {
        let new = match cause {
            LossCause::Deadline => LOST_DEADLINE,
            LossCause::NotOwner => LOST_NOT_OWNER,
            // The end of a guard, not a loss of its hold.
            LossCause::Released => return cause,
        };
        match self.state.compare_exchange(HELD, new, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => {
                self.tell(false);
                // The holder may release at the same time: of its seat and this void one, the first to leave serves the next
                // waiter.
                if let Some((queue, place)) = &self.on_loss {
                    Arc::clone(queue).lost(&self.target, *place);
                }
                // The loss of a part was logged as that.
                if self.parts.is_none() {
                    self.log_loss(cause);
                }
                cause
            }
            Err(LOST_NOT_OWNER) => LossCause::NotOwner,
            Err(_) => cause,
        }
    }

    /// Records that the store confirmed `lease` for a request sent at `sent_at`.
    pub(crate) fn confirm(&self, sent_at: Tick, lease: Duration) {
        // A deadline that has passed was a loss even if it was not checked (invariant 2).
        // A loss right after this check stays one: every check looks at the state first.
        if self.check().is_ok() {
            self.deadline.fetch_max(deadline(sent_at, lease).as_nanos(), Ordering::AcqRel);
        }
    }

    /// Marks the hold as released, so that it is neither renewed nor declared lost any more.
    pub(crate) fn mark_released(&self, now: Tick) {
        // From here on a renewal that is due skips it, and the answer to one under way counts for nothing.
        let _ = self.state.compare_exchange(HELD, RELEASED, Ordering::SeqCst, Ordering::Acquire);
        self.tell_watches();
        // Re-entries that still wait inside have nothing to wait for any more.
        if self.has_reentries() {
            self.tell(false);
        }
        self.recorder.end(now);
    }

    /// Starts the time of a holder, which `whose` counts.
    pub(crate) fn begin(&self, whose: Meter, now: Tick) {
        self.recorder.begin(whose, now);
        if self.is_lost() {
            // If the hold was lost in between, it would be counted until the guard is dropped.
            self.recorder.end(now);
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), LOST_DEADLINE | LOST_NOT_OWNER)
    }

    /// Returns the meter that counts its release, if its end is not counted yet: a loss is counted at once.
    pub(crate) fn release_meter(&self) -> Option<Meter> {
        let meter = self.recorder.to_end()?;
        if self.is_lost() {
            meter.released(ReleaseOutcome::Lost);
            return None;
        }
        Some(meter)
    }

    /// True until it is lost or released.
    fn is_held(&self) -> bool {
        self.state.load(Ordering::Acquire) == HELD
    }

    pub(crate) fn is_released(&self) -> bool {
        self.state.load(Ordering::Acquire) == RELEASED
    }

    /// Notified when the hold is lost by NotOwner, and once it is watched, when a guard ends; the deadline also needs a timer.
    ///
    /// The caller registers, then checks.
    pub(crate) fn lost(&self) -> Arc<Notify> {
        Arc::clone(self.told.lock().tasks.get_or_insert_default())
    }

    /// Wakes the tasks that wait for the loss or the end of the hold, or only those that also watch the ends of guards. Called after
    /// the change that they wait for.
    // The mutex orders the two: a task that was here before is woken, and one that comes later sees the change, because it checks
    // only then. Notified after the unlock: a waker may run any code.
    fn tell(&self, only_watches: bool) {
        let told = {
            let told = self.told.lock();
            if told.are_guards_watched || !only_watches { told.tasks.clone() } else { None }
        };
        if let Some(tasks) = told {
            tasks.notify_waiters();
        }
    }

    /// The level of re-entries that the hold itself is.
    pub(crate) fn level(&self) -> &Arc<Level> {
        self.level.get_or_init(|| Level::outermost(self.target.members().len().max(1)))
    }

    /// True if a re-entry is inside it or waits for its turn, for a caller that has the hold alone.
    pub(crate) fn has_reentries(&self) -> bool {
        self.level.get().is_some_and(Level::is_in_use)
    }

    /// Counts one more guard, without those of re-entries.
    pub(crate) fn count_in(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one guard less.
    pub(crate) fn count_out(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Marks the hold as handed to a waiter; it has no holder until the waiter is polled.
    // S-34.
    pub(crate) fn departs(&self) {
        // A sequentially consistent change, as `tell_watches` needs it; the token of the next holder was set before.
        self.count.swap(0, Ordering::SeqCst);
        self.tell_watches();
    }

    /// Marks that a guard uses it. True if it was on its way to a waiter.
    pub(crate) fn arrives(&self) -> bool {
        // Of several readers that come for a hold, one gets true; the others count themselves in. Acquires what `departs`
        // released.
        self.count.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// False while it is only kept so that others can join it, or on its way to a waiter.
    fn has_guards(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Records its current holder's token, for observers.
    pub(crate) fn set_token(&self, token: FencingToken) {
        // Relaxed: `admit_commands` and `departs`, which follow at a hand-off, release it to those that load them first.
        self.token.store(token.get(), Ordering::Relaxed);
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token.load(Ordering::Relaxed))
    }

    pub(crate) fn lost_error(&self, cause: LossCause) -> LockError {
        LockError::Lost { key: self.target.key().to_string(), cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_leaves_a_margin() {
        let sent_at = Tick::from_nanos(5);
        let end = deadline(sent_at, Duration::from_secs(10));
        assert_eq!(end.since(sent_at), Duration::from_millis(9_898));
    }
}
