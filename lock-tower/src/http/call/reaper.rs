//! What ends the hold of a body that is sent, whether or not the server polls it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use lock_runtime::LockClient;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use crate::held::HoldHandle;
use crate::http::call::body::LockBodyError;

/// The hold of a body, which the reaper may take away.
#[derive(Debug)]
pub(crate) struct GripCell(Mutex<Hold>);

#[derive(Debug)]
struct Hold {
    handle: Option<HoldHandle>,
    cut: Cut,
    /// The task that sends the body.
    sender: Option<Waker>,
}

/// Why a hold was taken away from its body.
#[derive(Debug, Clone, Copy)]
enum Cut {
    TooLong,
    ShutDown,
}

impl Cut {
    fn message(self) -> &'static str {
        match self {
            Self::TooLong => {
                "a response is not sent within the time for which it may hold its lock (`max_body_hold` or \
                 `max_hold`) and is cut off: its client reads slowly, or its handler writes slowly"
            }
            Self::ShutDown => {
                "a response is cut off, because its lock client was shut down and the grace is over"
            }
        }
    }
}

impl GripCell {
    pub(crate) fn new(handle: HoldHandle) -> Arc<Self> {
        let hold = Hold { handle: Some(handle), cut: Cut::TooLong, sender: None };
        Arc::new(Self(Mutex::new(hold)))
    }

    fn lock(&self) -> MutexGuard<'_, Hold> {
        self.0.lock()
    }

    /// Takes the hold out, to release it.
    pub(crate) fn take(&self) -> Option<HoldHandle> {
        self.lock().handle.take()
    }

    /// Does something with the hold while the reaper cannot take it; an error if it has.
    pub(crate) fn with<T, E>(
        &self,
        sender: &Waker,
        work: impl FnOnce(&mut HoldHandle) -> T,
    ) -> Result<T, LockBodyError<E>> {
        let mut hold = self.lock();
        let Hold { handle, cut, sender: known } = &mut *hold;
        known.get_or_insert_with(|| sender.clone()).clone_from(sender);
        match (handle, cut) {
            (Some(handle), _) => Ok(work(handle)),
            (None, Cut::TooLong) => Err(LockBodyError::TooLong),
            (None, Cut::ShutDown) => Err(LockBodyError::ShutDown),
        }
    }

    /// Takes the hold from the body, or only its lock if it is not to be cut off. A poll that is under way ends first; from then on there is none without
    /// the guard.
    fn cut(&self, cut: Cut, cuts_off: bool) {
        let mut hold = self.lock();
        if !cuts_off {
            return hold.handle.iter_mut().for_each(HoldHandle::give_back);
        }
        let Some(handle) = hold.handle.take_if(|handle| !handle.is_given_back()) else { return };
        hold.cut = cut;
        let sender = hold.sender.take();
        drop(hold);
        handle.log_warn(cut.message());
        // The release is under way before the client can see the end.
        drop(handle);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

/// Gives the lock of a body back that the server does not poll, because its client does not read, and that of
/// any body when the grace of a shutdown is over. Ends with the body.
#[derive(Debug)]
pub(crate) struct Reaper(AbortHandle);

impl Reaper {
    pub(crate) fn start(
        cell: &Arc<GripCell>,
        until: Option<Instant>,
        client: LockClient,
        cuts_off: bool,
    ) -> Self {
        let cell: Weak<GripCell> = Arc::downgrade(cell);
        let task = tokio::spawn(async move {
            let cut = reason_to_cut(until, &client).await;
            let Some(cell) = cell.upgrade() else { return };
            cell.cut(cut, cuts_off);
        });
        Self(task.abort_handle())
    }
}

/// Waits until a body has to end.
async fn reason_to_cut(until: Option<Instant>, client: &LockClient) -> Cut {
    let mut shut_down = pin!(client.grace_over());
    let mut too_long = pin!(async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    });
    poll_fn(|cx| {
        if shut_down.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Cut::ShutDown);
        }
        too_long.as_mut().poll(cx).map(|()| Cut::TooLong)
    })
    .await
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
