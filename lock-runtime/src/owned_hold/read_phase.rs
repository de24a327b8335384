//! [`ReadPhase`]: what a read hold stands on, and what keeps it.
// S-27, S-34.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{OwnedHold, Phases, Role};
use crate::backoff::Backoff;
use crate::gate::Kept;
use crate::lease::manager::LeaseManager;
use crate::lease::{AtLoss, Hold, Settling};
use crate::store::{AcquireReply, AcquireRequest, Target};

/// First and longest pause between attempts to settle a phase.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A read phase: what is under a read hold, and what keeps it.
pub(crate) struct ReadPhase {
    /// Weak, because the hold keeps the phase, and the watchdog drops holds under its mutex.
    leases: Weak<LeaseManager>,
    opened_at: Instant,
    /// Where the first reader finds it, if a writer has opened it.
    phases: Option<Arc<Phases>>,
    state: Mutex<PhaseState>,
    /// Locked by the task that settles the phase.
    settling: tokio::sync::Mutex<()>,
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

    /// A phase of readers whose hold stands on this write hold.
    pub(super) fn on(under: OwnedHold, phases: Arc<Phases>) -> Arc<Self> {
        let leases = Arc::clone(&under.leases);
        Self::new(&leases, Some(phases), PhaseState::Standing(Box::new(under)))
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
            settling: tokio::sync::Mutex::default(),
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

    fn is_over(&self) -> bool {
        matches!(*self.state.lock(), PhaseState::Over)
    }

    /// Ends what the window allows: readers that have not joined, and a write hold under the others.
    async fn end_window(self: Arc<Self>, hold: Arc<Hold>) {
        self.stop_keeping(&hold);
        if self.is_over() {
            if let Some(leases) = self.leases.upgrade() {
                leases.watchdog.settled(&hold, hold.taken_at);
            }
            return;
        }
        self.settle(&hold).await;
    }

    /// Acquires the read hold in the store, inside of the write hold, and releases the write hold.
    async fn settle(&self, hold: &Arc<Hold>) {
        let _one_at_a_time = self.settling.lock().await;
        let Some(leases) = self.leases.upgrade() else { return };
        let LeaseManager { store, clock, timing, watchdog, .. } = &*leases;
        let lease = hold.lease.duration();
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        while hold.check().is_ok() && self.begin_settling() {
            let (target, owner) = (Arc::clone(&hold.target), hold.owner.clone());
            let sent_at = clock.now();
            let request = AcquireRequest::new(target, owner, lease, timing.command_timeout);
            // Only inside of the write hold: the readers must learn if that is gone.
            match store.acquire(request.with_joins(true)).await {
                Ok(AcquireReply::Granted(_)) => {
                    hold.confirm(sent_at, lease);
                    // From here on the read hold stands alone.
                    let under = self.take_under();
                    if under.is_some() {
                        watchdog.settled(hold, sent_at);
                    }
                    // Released in the background, which tells waiting readers everywhere.
                    drop(under);
                    return;
                }
                // The write hold is not in the store any more.
                Ok(_) => {
                    watchdog.not_owner(hold);
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

    fn when_due(self: Arc<Self>, hold: Arc<Hold>) -> Option<Settling> {
        let is_first = !std::mem::replace(&mut self.kept.lock().over, true);
        is_first.then(|| Box::pin(self.end_window(hold)) as _)
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

    /// Puts this read hold into the store, if it is in none.
    pub(crate) async fn settle(&self) {
        if let Role::ReadPhase(phase) = &self.role
            && !phase.is_over()
        {
            Box::pin(phase.settle(&self.hold)).await;
        }
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
