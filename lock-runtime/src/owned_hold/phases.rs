//! Readers and writers of one process take turns on one write hold.
//!
//! A writer that may hand its hold on opens a *read phase* if readers of this process wait: they read while the store
//! still shows the writer, and the last of them hands the write hold to the next writer, or opens the next phase. The
//! store hears nothing of that. It is bounded as other hand-offs are: a phase begins within the hand-off window only. When
//! the window ends, a phase is *settled*: the readers that are still there get a read hold in the store, and the
//! write hold is released, so that readers of other processes share the lock with them.
//!
//! # Invariants
//!
//! 1. The read hold of a phase ends no later than the write hold under it, which is passed on, released or lost only
//!    after the phase.
//! 2. Whoever takes the write hold out of a phase ends it: the last reader, the task that settles it, or the loss.
//! 3. A read phase without readers lasts until the window ends: they may not be polled.
//! 4. Readers that come during a phase join it, unless a writer of this process waits.
// S-14, S-27, S-34.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{OwnedHold, Role};
use crate::backoff::Backoff;
use crate::clock::Tick;
use crate::error::LossCause;
use crate::gate::Kept;
use crate::lease::manager::LeaseManager;
use crate::lease::{AtLoss, Hold, PlaceAtGate, Settling, Taken, wait_until};
use crate::store::{AcquireReply, AcquireRequest, Target};

/// First and longest pause between attempts to settle a phase.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The tasks of one client that use a read/write lock, on equal terms.
#[derive(Default)]
pub(crate) struct Phases {
    state: Mutex<State>,
    /// Counts the notifications.
    changes: AtomicU64,
    /// Notified when a read phase has opened, and when the writer has released.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Until when a writer of this process hands the lock on, if one holds it.
    writer_until: Option<Tick>,
    /// Readers that wait for the store or for a phase. All others wait for them at the gate.
    waiting: usize,
    /// The target of the read hold that the next phase gives them.
    wanted: Option<Arc<Target>>,
    /// The phase that has opened, until a reader takes it.
    opened: Option<Arc<OwnedHold>>,
}

impl Phases {
    /// Registers a reader that acquires this target.
    pub(crate) fn enter(self: Arc<Self>, target: Arc<Target>) -> WaitingReader {
        {
            let mut state = self.state.lock();
            state.waiting += 1;
            state.wanted = Some(target);
        }
        WaitingReader { phases: self, seen: 0 }
    }

    /// True if a reader waits whom a phase would let in.
    pub(crate) fn has_reader(&self) -> bool {
        self.state.lock().wanted.is_some()
    }

    fn notify(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Takes the phase, if it has opened and no reader has taken it.
    fn take_opened(&self, hold: &Hold) -> Option<Arc<OwnedHold>> {
        self.state.lock().opened.take_if(|opened| std::ptr::eq(&*opened.hold, hold))
    }
}

/// A reader that waits for the store or for a read phase.
pub(crate) struct WaitingReader {
    phases: Arc<Phases>,
    /// The number of changes when it last looked.
    seen: u64,
}

/// What a waiting reader finds.
pub(crate) enum Found {
    /// A phase has opened for it and for those behind it.
    Phase(Arc<OwnedHold>),
    /// A writer of this process has the lock, and may open a phase until then.
    Writer(Tick),
}

impl WaitingReader {
    /// Looks, before it waits for [`changed`](Self::changed).
    pub(crate) fn look(&mut self) -> Option<Found> {
        self.seen = self.phases.changes.load(Ordering::SeqCst);
        let mut state = self.phases.state.lock();
        let opened = state.opened.take().map(Found::Phase);
        opened.or_else(|| state.writer_until.map(Found::Writer))
    }

    /// Resolves at the first change since it has looked.
    pub(crate) async fn changed(&self) {
        wait_until(&self.phases.changed, || self.has_changed()).await;
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.phases.changes.load(Ordering::SeqCst) != self.seen
    }
}

impl Drop for WaitingReader {
    fn drop(&mut self) {
        let mut state = self.phases.state.lock();
        state.waiting -= 1;
        if state.waiting > 0 {
            return;
        }
        state.wanted = None;
        let opened = state.opened.take();
        // Ended after the unlock: the next writer takes over.
        drop(state);
        drop(opened);
    }
}

/// The part of a writer of this process. It ends when the write hold leaves the process.
pub(crate) struct WriterPart {
    phases: Arc<Phases>,
    at_loss: Arc<LossOfWriter>,
}

/// Acts when the write hold is lost: readers that have it must stop too.
// S-12.
#[derive(Default)]
struct LossOfWriter {
    gate: Option<Arc<dyn AtLoss>>,
    /// The read hold of the last phase.
    read: Mutex<Weak<Hold>>,
}

impl AtLoss for LossOfWriter {
    fn lost(self: Arc<Self>, target: &Arc<Target>, place: u64) {
        let read = self.read.lock().upgrade();
        // It may have passed its own deadline too, which then is the cause.
        if let Some(read) = read.filter(|read| read.check().is_ok()) {
            read.lose(LossCause::NotOwner);
        }
        if let Some(gate) = &self.gate {
            Arc::clone(gate).lost(target, place);
        }
    }
}

impl WriterPart {
    /// A writer with that place at the gate, which may hand the lock on until then.
    pub(crate) fn new(
        phases: Arc<Phases>,
        until: Tick,
        place: Option<PlaceAtGate>,
    ) -> (Arc<Self>, PlaceAtGate) {
        phases.state.lock().writer_until = Some(until);
        let (gate, number) = place.unzip();
        let at_loss = Arc::new(LossOfWriter { gate, read: Mutex::default() });
        let part = Self { phases, at_loss: Arc::clone(&at_loss) };
        (Arc::new(part), (at_loss, number.unwrap_or_default()))
    }

    pub(super) fn has_reader(&self) -> bool {
        self.phases.has_reader()
    }

    /// Opens a read phase on this write hold.
    ///
    /// # Errors
    ///
    /// The write hold, if no reader waits any more.
    pub(super) fn open(&self, under: OwnedHold) -> Result<(), OwnedHold> {
        let mut state = self.phases.state.lock();
        let Some(target) = state.wanted.take() else { return Err(under) };
        let (leases, write) = (Arc::clone(&under.leases), Arc::clone(&under.hold));
        let (owner, token) = (leases.next_owner(1).within(&write.owner), under.token);
        let phases = Some(Arc::clone(&self.phases));
        let phase = ReadPhase::new(&leases, phases, PhaseState::Standing(Box::new(under)));
        let taken = Taken {
            target,
            owner,
            lease: write.lease,
            // Its deadline is that of the write hold, or earlier if that was renewed.
            sent_at: write.taken_at,
            token,
            unsettled: false,
            place_at_gate: Some((Arc::clone(&phase) as _, 0)),
        };
        let read = Arc::new(Hold::new(taken, leases.clock.clone()));
        read.has_no_field();
        *self.at_loss.read.lock() = Arc::downgrade(&read);
        let mut owned = OwnedHold::new(leases, read, None, token, 1);
        owned.begin(Role::ReadPhase(phase));
        let earlier = state.opened.replace(Arc::new(owned));
        drop(state);
        // One that was lost before a reader took it.
        drop(earlier);
        self.phases.notify();
        Ok(())
    }
}

impl Drop for WriterPart {
    fn drop(&mut self) {
        self.phases.state.lock().writer_until = None;
        self.phases.notify();
    }
}

/// A read phase: what is under a read hold, and what keeps it.
pub(crate) struct ReadPhase {
    /// Weak, because the hold keeps the phase, and the watchdog drops holds under its mutex.
    leases: Weak<LeaseManager>,
    opened_at: Instant,
    /// Where the first reader finds it, if a writer has opened it.
    phases: Option<Arc<Phases>>,
    state: Mutex<PhaseState>,
    kept: Mutex<KeptPhase>,
}

/// The read hold, kept for readers that were let in together: quick ones would end it before others have joined.
// S-34.
#[derive(Default)]
struct KeptPhase {
    owned: Option<Arc<OwnedHold>>,
    /// True once the window is over.
    over: bool,
}

/// Keeps a read phase until the last reader that was let in with others has dropped it.
struct Keeper(Arc<ReadPhase>);

impl Drop for Keeper {
    fn drop(&mut self) {
        let kept = self.0.kept.lock().owned.take();
        // Ended after the unlock.
        drop(kept);
    }
}

enum PhaseState {
    /// The read hold is in no store.
    Standing(Box<OwnedHold>),
    /// The store was asked for the read hold, which it may have granted.
    Settling(Box<OwnedHold>),
    /// The read hold is in the store, or has ended.
    Over,
}

/// What the end of the last reader ends.
pub(super) enum PhaseEnd {
    /// A read hold as any other.
    ReadHold,
    /// A read hold that is in no store, on this write hold.
    WriteHold(OwnedHold),
    /// A read hold that the store may have granted, on this write hold.
    Both(OwnedHold),
}

impl ReadPhase {
    /// A phase of readers whose hold the store has granted. It acts when that hold is lost.
    pub(crate) fn in_store(leases: &Arc<LeaseManager>) -> Arc<Self> {
        Self::new(leases, None, PhaseState::Over)
    }

    fn new(
        leases: &Arc<LeaseManager>,
        phases: Option<Arc<Phases>>,
        state: PhaseState,
    ) -> Arc<Self> {
        Arc::new(Self {
            leases: Arc::downgrade(leases),
            opened_at: Instant::now(),
            phases,
            state: Mutex::new(state),
            kept: Mutex::default(),
        })
    }

    /// Whether a reader that came at `came_at` may join: not if a writer of this process would wait for it.
    pub(crate) fn admits(&self, came_at: Instant) -> bool {
        match &*self.state.lock() {
            PhaseState::Standing(under) | PhaseState::Settling(under) => {
                came_at <= self.opened_at || !under.has_queue()
            }
            PhaseState::Over => true,
        }
    }

    /// Ends the phase, for its last reader.
    pub(super) fn end(&self) -> PhaseEnd {
        match std::mem::replace(&mut *self.state.lock(), PhaseState::Over) {
            PhaseState::Standing(under) => PhaseEnd::WriteHold(*under),
            PhaseState::Settling(under) => PhaseEnd::Both(*under),
            PhaseState::Over => PhaseEnd::ReadHold,
        }
    }

    /// Takes out the write hold, which is dropped after the unlock.
    fn take_under(&self) -> Option<OwnedHold> {
        match self.end() {
            PhaseEnd::WriteHold(under) | PhaseEnd::Both(under) => Some(under),
            PhaseEnd::ReadHold => None,
        }
    }

    /// False if the phase is over.
    fn begin_settling(&self) -> bool {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, PhaseState::Over) {
            PhaseState::Standing(under) | PhaseState::Settling(under) => {
                *state = PhaseState::Settling(under);
                true
            }
            PhaseState::Over => false,
        }
    }

    /// No longer keeps the phase for readers that have not joined it (invariant 3).
    fn stop_keeping(&self, hold: &Hold) {
        let opened = self.phases.as_ref().and_then(|phases| phases.take_opened(hold));
        let kept = {
            let mut kept = self.kept.lock();
            kept.over = true;
            kept.owned.take()
        };
        drop((opened, kept));
    }

    fn has_ended(&self) -> bool {
        matches!(*self.state.lock(), PhaseState::Over)
    }

    /// Acquires the read hold in the store, inside of the write hold, and releases the write hold.
    async fn settled(self: Arc<Self>, hold: Arc<Hold>) {
        let Some(leases) = self.leases.upgrade() else { return };
        let LeaseManager { store, clock, timing, watchdog, .. } = &*leases;
        self.stop_keeping(&hold);
        if self.has_ended() {
            watchdog.settled(&hold, hold.taken_at);
            return;
        }
        let lease = hold.lease.duration();
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        while hold.check().is_ok() && self.begin_settling() {
            let (target, owner) = (Arc::clone(&hold.target), hold.owner.clone());
            let sent_at = clock.now();
            let request = AcquireRequest::new(target, owner, lease, timing.command_timeout);
            match store.acquire(request).await {
                Ok(AcquireReply::Granted(_)) => {
                    hold.confirm(sent_at, lease);
                    // From here on the read hold stands alone.
                    let under = self.take_under();
                    if under.is_some() {
                        watchdog.settled(&hold, sent_at);
                    }
                    // Released in the background, which tells waiting readers everywhere.
                    drop(under);
                    return;
                }
                // The write hold is not in the store any more.
                Ok(_) => {
                    watchdog.not_owner(&hold);
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "could not settle a read phase, trying again");
                    tokio::time::sleep(backoff.pause()).await;
                }
            }
        }
    }
}

impl AtLoss for ReadPhase {
    fn lost(self: Arc<Self>, _target: &Arc<Target>, _place: u64) {
        drop(self.take_under());
    }

    fn settle(self: Arc<Self>, hold: Arc<Hold>) -> Option<Settling> {
        let is_first = !std::mem::replace(&mut self.kept.lock().over, true);
        is_first.then(|| Box::pin(self.settled(hold)) as _)
    }
}

impl OwnedHold {
    /// Begins its part in the turns of readers and writers.
    pub(crate) fn begin(&mut self, role: Role) {
        if let Role::ReadPhase(_) = role {
            let LeaseManager { watchdog, timing, .. } = &*self.leases;
            watchdog.settle_at(&self.hold, self.hold.taken_at.after(timing.handoff_window));
        }
        self.role = role;
    }

    /// Keeps this read hold for the readers that are let in with its own, until the last of them has dropped the
    /// result, but not past the hand-off window.
    pub(crate) fn keep_for_others(self: &Arc<Self>) -> Kept {
        let Role::ReadPhase(phase) = &self.role else { return None };
        let mut kept = phase.kept.lock();
        if kept.over {
            return None;
        }
        kept.owned = Some(Arc::clone(self));
        Some(Arc::new(Keeper(Arc::clone(phase))))
    }
}
