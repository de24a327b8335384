//! [`BodyHold`]: the hold of a body, which ends even if the server does not poll the body.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use lock_runtime::LockClient;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::held::Hold;
use crate::http::error::LockBodyError;

/// The hold of a body, which the reaper may take away from it: the server does not poll the body of a client that does not
/// read.
pub(crate) struct BodyHold {
    /// `None` once the body has ended.
    pub(crate) state: Mutex<Result<Option<Hold>, CutReason>>,
    /// Wakes the task that sends the body.
    pub(crate) sender: AtomicWaker,
}

impl BodyHold {
    pub(crate) fn new(hold: Hold) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(Ok(Some(hold))), sender: AtomicWaker::new() })
    }

    /// Takes the hold from the body and wakes its sender; if the lock is not `enforced`, only releases the
    /// lock. Waits for a poll of the body that is under way; later polls find no hold.
    pub(crate) fn cut(&self, reason: CutReason, enforced: bool) {
        let mut state = self.state.lock();
        let Ok(Some(hold)) = &mut *state else { return };
        if !enforced || hold.is_released() {
            return hold.release_in_background(None);
        }
        // The release starts before the client can see the end of the body.
        hold.release_in_background(Some(reason.message()));
        let hold = std::mem::replace(&mut *state, Err(reason));
        drop(state);
        drop(hold);
        self.sender.wake();
    }
}

/// Why a body is cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CutReason {
    TooLong,
    ShutDown,
}

impl CutReason {
    /// Waits until the body has to end.
    pub(crate) async fn wait(until: Option<Instant>, client: &LockClient) -> Self {
        let shut_down = client.grace_over().map(|()| Self::ShutDown);
        match until {
            Some(until) => timeout_at(until, shut_down).await.unwrap_or(Self::TooLong),
            None => shut_down.await,
        }
    }

    pub(crate) fn error<E>(self) -> LockBodyError<E> {
        match self {
            Self::TooLong => LockBodyError::TooLong,
            Self::ShutDown => LockBodyError::ShutDown,
        }
    }

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
