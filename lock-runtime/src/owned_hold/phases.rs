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
//! 1. The read hold of a phase that is not settled ends no later than the write hold under it, which is passed on or
//!    released only after the phase.
//! 2. A phase ends when the write hold is taken out of it, which happens once: the last reader does it, or the task that
//!    settles the phase, or the task that finds the loss.
//! 3. A read phase without readers lasts until the window ends: they may not be polled.
//! 4. Readers that come during a phase join it, unless a writer of this process waits.
// S-14, S-27, S-34.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{OwnedHold, ReadPhase, Role};
use crate::clock::Tick;
use crate::error::LossCause;
use crate::lease::{AtLoss, Hold, SeatOfHold, Taken, wait_until};
use crate::store::Target;

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
    /// Readers that wait for the store or for a phase. All others wait for them in the queue.
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

    /// True if a reader waits that a phase would admit.
    pub(crate) fn has_reader(&self) -> bool {
        self.state.lock().wanted.is_some()
    }

    /// True if a writer of this process has the lock, and hands it on.
    pub(crate) fn has_writer(&self) -> bool {
        self.state.lock().writer_until.is_some()
    }

    fn writer_gone(&self) {
        self.state.lock().writer_until = None;
        self.notify();
    }

    fn notify(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Takes the phase, if it has opened and no reader has taken it.
    pub(super) fn take_opened(&self, hold: &Hold) -> Option<Arc<OwnedHold>> {
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
    at_loss: Arc<LossOfWriter>,
}

/// Acts when the write hold is lost: readers that have it must stop too.
// S-12.
struct LossOfWriter {
    phases: Arc<Phases>,
    queue: Option<Arc<dyn AtLoss>>,
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
        self.phases.writer_gone();
        if let Some(queue) = &self.queue {
            Arc::clone(queue).lost(target, place);
        }
    }
}

impl WriterPart {
    /// A writer with that seat, which may hand the lock on until then.
    pub(crate) fn new(
        phases: Arc<Phases>,
        until: Tick,
        place: Option<SeatOfHold>,
    ) -> (Arc<Self>, SeatOfHold) {
        phases.state.lock().writer_until = Some(until);
        let (queue, number) = place.unzip();
        let at_loss = Arc::new(LossOfWriter { phases, queue, read: Mutex::default() });
        let part = Self { at_loss: Arc::clone(&at_loss) };
        (Arc::new(part), (at_loss, number.unwrap_or_default()))
    }

    pub(super) fn has_reader(&self) -> bool {
        self.at_loss.phases.has_reader()
    }

    /// The end of the write hold concerns no reader any more.
    pub(super) fn ends_alone(&self) {
        *self.at_loss.read.lock() = Weak::new();
    }

    /// Opens a read phase on this write hold.
    ///
    /// # Errors
    ///
    /// The write hold, if no reader waits any more.
    pub(super) fn open(&self, under: OwnedHold) -> Result<(), OwnedHold> {
        let phases = &self.at_loss.phases;
        let mut state = phases.state.lock();
        let Some(target) = state.wanted.take() else { return Err(under) };
        let (leases, write) = (Arc::clone(&under.leases), Arc::clone(&under.hold));
        let (owner, token) = (leases.next_owner(1).within(&write.owner), under.token);
        let phase = ReadPhase::on(under, Arc::clone(phases));
        let taken = Taken {
            target,
            owner,
            lease: write.lease,
            stored_lease: write.lease.duration(),
            // Its deadline is that of the write hold, or earlier if that was renewed.
            sent_at: write.taken_at,
            token,
            unsettled: false,
            on_loss: Some((Arc::clone(&phase) as _, 0)),
        };
        let read = Arc::new(Hold::new(taken, leases.clock.clone(), leases.watchdog.pulse()));
        // Until a reader takes it.
        read.departs();
        *self.at_loss.read.lock() = Arc::downgrade(&read);
        let mut owned = OwnedHold::new(leases, Arc::clone(&read), None, token, 1);
        owned.begin(Role::ReadPhase(phase));
        let earlier = state.opened.replace(Arc::new(owned));
        drop(state);
        // One that was lost before a reader took it.
        drop(earlier);
        // A loss in between did not find the readers.
        if write.check().is_err() {
            read.lose(LossCause::NotOwner);
        }
        phases.notify();
        Ok(())
    }
}

impl Drop for WriterPart {
    fn drop(&mut self) {
        self.at_loss.phases.writer_gone();
    }
}
