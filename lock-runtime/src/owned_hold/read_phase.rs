//! [`ReadPhase`]: what a read hold stands on, and what keeps it.
// S-27, S-34.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{OwnedHold, Phases, Role};
use crate::backoff::Backoff;
use crate::error::StoreError;
use crate::lease::manager::LeaseManager;
use crate::lease::{AtLoss, Hold, Settling};
use crate::queue::Kept;
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
    /// True while the watchdog settles it.
    is_settling: AtomicBool,
    /// True once the store was asked for the read hold, until it has answered.
    is_asked: AtomicBool,
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
            is_settling: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
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
                self.is_asked.store(true, Ordering::Relaxed);
                *state = PhaseState::Settling(under);
                true
            }
            PhaseState::Over => false,
        }
    }

    /// True if the store may grant, or have granted, the read hold of a phase that was over before the answer.
    // S-21.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
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
    async fn end_window(self: Arc<Self>, hold: Arc<Hold>, _running: Running) {
        self.stop_keeping(&hold);
        if self.is_over() {
            if let Some(leases) = self.leases.upgrade() {
                leases.watchdog.settled(&hold, hold.taken_at);
            }
            return;
        }
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        while hold.check().is_ok()
            && let Err(error) = self.settle(&hold).await
        {
            tracing::debug!(%error, "could not settle a read phase, trying again");
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// Acquires the read hold in the store, inside of the write hold, and releases the write hold, unless the phase is
    /// over. Several tasks may do that at once: the store takes their requests for one.
    async fn settle(&self, hold: &Arc<Hold>) -> Result<(), StoreError> {
        self.stop_keeping(hold);
        let Some(leases) = self.leases.upgrade().filter(|_| self.begin_settling()) else {
            return Ok(());
        };
        let LeaseManager { store, clock, timing, watchdog, .. } = &*leases;
        let (target, owner) = (Arc::clone(&hold.target), hold.owner.clone());
        let (lease, sent_at) = (hold.lease.duration(), clock.now());
        hold.asks_for(sent_at, lease);
        let request = AcquireRequest::new(target, owner, lease, timing.command_timeout);
        // Only inside of the write hold: the readers must learn if that is gone.
        let reply = store.acquire(request.with_joins(true)).await?;
        let Some(under) = self.take_under() else { return Ok(()) };
        self.is_asked.store(false, Ordering::Relaxed);
        if let AcquireReply::Granted(_) = reply {
            hold.confirm(sent_at, lease);
            watchdog.settled(hold, sent_at);
            // Released in the background, which tells waiting readers everywhere.
            under.give_back();
        } else {
            // The store knows the write hold no more, so it must not be passed on either.
            watchdog.not_owner(&under.hold);
            watchdog.not_owner(hold);
        }
        Ok(())
    }
}

/// Allows another task to settle the phase, should this one end with its runtime.
struct Running(Arc<ReadPhase>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.is_settling.store(false, Ordering::Relaxed);
    }
}

impl AtLoss for ReadPhase {
    fn lost(self: Arc<Self>, _target: &Arc<Target>, _place: u64) {
        if let Some(under) = self.take_under() {
            under.give_back();
        }
    }

    fn when_due(self: Arc<Self>, hold: Arc<Hold>) -> Option<Settling> {
        let is_first = !std::mem::replace(&mut self.kept.lock().over, true);
        if !is_first && self.is_over() {
            return None;
        }
        if self.is_settling.swap(true, Ordering::Relaxed) {
            // A renewal would say that the store does not know the hold.
            return Some(Box::pin(std::future::ready(())));
        }
        // Not inside of the future, which may be dropped before its first poll: then nothing would settle the phase any
        // more, or renew its hold.
        let running = Running(Arc::clone(&self));
        Some(Box::pin(self.end_window(hold, running)))
    }
}

impl OwnedHold {
    /// Begins its part in the turns of readers and writers.
    pub(crate) fn begin(&mut self, role: Role) {
        if let Role::ReadPhase(_) = role {
            let window = self.leases.timing.phase_window(self.hold.lease.duration());
            self.leases.watchdog.settle_at(&self.hold, self.hold.taken_at.after(window));
        }
        self.role = role;
    }

    /// Puts this read hold into the store, if it is in none.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        match &self.role {
            Role::ReadPhase(phase) if !phase.is_over() => Box::pin(phase.settle(&self.hold)).await,
            _ => Ok(()),
        }
    }

    /// Releases the hold, in the background, and hands it on to no task of this process.
    fn give_back(mut self) {
        if let Role::Writer(writer) = std::mem::replace(&mut self.role, Role::Nothing) {
            writer.ends_alone();
        }
        self.last_token = self.token;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockClient;

    /// A runtime that ends may drop the work before its first poll, and the next one has to do it.
    #[tokio::test(start_paused = true)]
    async fn a_phase_is_settled_after_an_attempt_that_was_never_polled() {
        let client = LockClient::in_memory();
        let writer = client.rw_lock("r").write().await.expect("it is free");
        let lock = client.rw_lock("r");
        let reader = tokio::spawn(async move { lock.read().await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        writer.release().await.expect("it is held");
        let reader = reader.await.expect("it ends").expect("it is let in");
        let Role::ReadPhase(phase) = &reader.owned.role else { panic!("no phase has opened") };
        let due = || Arc::clone(phase).when_due(Arc::clone(&reader.owned.hold));
        drop(due());
        due().expect("it is not settled").await;
        assert!(phase.is_over(), "nothing settles it");
        reader.release().await.expect("it is held");
    }
}
