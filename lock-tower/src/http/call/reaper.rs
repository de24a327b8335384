//! Releases the lock of a body that the server does not poll.

use std::sync::{Arc, Weak};
use std::task::Waker;

use lock_runtime::LockClient;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::held::HoldHandle;
use crate::http::error::LockBodyError;

/// The hold of a body, which the reaper may take away from it.
pub(crate) struct HoldCell(Mutex<CellState>);

struct CellState {
    /// `None` once the body has ended or was cut off.
    handle: Option<HoldHandle>,
    /// Why the body was cut off, if it was.
    reason: CutReason,
    /// Wakes the task that sends the body.
    sender: Option<Waker>,
}

/// Why a body is cut off.
#[derive(Debug, Clone, Copy)]
enum CutReason {
    TooLong,
    ShutDown,
}

impl CutReason {
    fn message(self) -> &'static str {
        match self {
            Self::TooLong => {
                "a response is cut off: it was not sent within the time for which it may hold its lock \
                 (`max_body_hold` or `max_hold`), because its client reads slowly or its handler writes slowly"
            }
            Self::ShutDown => {
                "a response is cut off: its lock client was shut down and the grace is over"
            }
        }
    }
}

impl HoldCell {
    pub(crate) fn new(handle: HoldHandle) -> Arc<Self> {
        let (handle, reason) = (Some(handle), CutReason::TooLong);
        Arc::new(Self(Mutex::new(CellState { handle, reason, sender: None })))
    }

    /// Takes the hold out, to release it.
    pub(crate) fn take(&self) -> Option<HoldHandle> {
        self.0.lock().handle.take()
    }

    /// Runs `work` on the hold, which the reaper cannot take meanwhile; an error if the reaper has taken it.
    pub(crate) fn with<T, E>(
        &self,
        sender: &Waker,
        work: impl FnOnce(&mut HoldHandle) -> T,
    ) -> Result<T, LockBodyError<E>> {
        let mut state = self.0.lock();
        let CellState { handle, reason, sender: known } = &mut *state;
        known.get_or_insert_with(|| sender.clone()).clone_from(sender);
        match (handle, reason) {
            (Some(handle), _) => Ok(work(handle)),
            (None, CutReason::TooLong) => Err(LockBodyError::TooLong),
            (None, CutReason::ShutDown) => Err(LockBodyError::ShutDown),
        }
    }

    /// Takes the hold from the body and wakes its sender; if the lock is not `enforced`, only releases the
    /// lock. Waits for a poll of the body that is under way; later polls find no hold.
    fn cut(&self, reason: CutReason, enforced: bool) {
        let mut state = self.0.lock();
        if !enforced {
            return state.handle.iter_mut().for_each(HoldHandle::release_in_background);
        }
        let Some(handle) = state.handle.take_if(|handle| !handle.is_released()) else { return };
        state.reason = reason;
        let sender = state.sender.take();
        drop(state);
        handle.log_warn(reason.message());
        // The release starts before the client can see the end of the body.
        drop(handle);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

/// A task that cuts off a body when its time or the grace of a shutdown is over, even if the server does not
/// poll the body because its client does not read. Dropping it ends the task.
pub(crate) struct Reaper(AbortHandle);

impl Reaper {
    pub(crate) fn start(
        cell: &Arc<HoldCell>,
        until: Option<Instant>,
        client: LockClient,
        enforced: bool,
    ) -> Self {
        let cell: Weak<HoldCell> = Arc::downgrade(cell);
        let task = tokio::spawn(async move {
            let reason = reason_to_cut(until, &client).await;
            if let Some(cell) = cell.upgrade() {
                cell.cut(reason, enforced);
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the body has to end.
async fn reason_to_cut(until: Option<Instant>, client: &LockClient) -> CutReason {
    let shut_down = client.grace_over();
    match until {
        Some(until) => match timeout_at(until, shut_down).await {
            Ok(()) => CutReason::ShutDown,
            Err(_) => CutReason::TooLong,
        },
        None => {
            shut_down.await;
            CutReason::ShutDown
        }
    }
}
