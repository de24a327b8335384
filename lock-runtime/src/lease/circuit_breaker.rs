//! Whether the store answers fast enough for those who are not to wait for it: calls that their policy
//! does not enforce.
//!
//! An answer that is overdue is waited for once. From then on nobody asks, until the store has answered
//! a probe: one at a time, and by nobody's call but a task of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::store::{ReleaseRequest, Store};

/// How long a call that runs in any case waits for an answer: several round trips within a region, and
/// less than a person notices.
pub(crate) const SHADOW_TIMEOUT: Duration = Duration::from_millis(50);

/// The pause between two probes.
const REST: Duration = Duration::from_millis(200);

const CLEAR: u8 = 0;
const LOST: u8 = 1;
const PROBING: u8 = 2;

/// See the module. One for each client.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(AtomicU8);

impl CircuitBreaker {
    /// True if an answer can be expected in time.
    pub(crate) fn is_clear(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CLEAR
    }

    /// What `asking` the store comes to, if it does so at once.
    ///
    /// # Errors
    ///
    /// Its own, or that the store did not answer within [`SHADOW_TIMEOUT`].
    pub(crate) async fn within_shadow_timeout<T>(
        &self,
        asking: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let answer = timeout(SHADOW_TIMEOUT, asking).await;
        let answer = answer.unwrap_or_else(|_| Err(unanswered("in time").into()));
        if let Err(LockError::Store(error)) = &answer
            && error.kind().is_transient()
        {
            self.lose(error);
        }
        answer
    }

    fn lose(&self, error: &StoreError) {
        if self.turn(CLEAR, LOST) {
            tracing::warn!(
                %error,
                "until the lock store answers again, what is not enforced runs without asking it"
            );
        }
    }

    /// The right to probe, if it is time for one and nobody has it.
    pub(crate) fn probe(self: &Arc<Self>) -> Option<Probe> {
        self.turn(LOST, PROBING).then(|| Probe(Arc::clone(self)))
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// What is known of a lock without an answer.
pub(crate) fn unanswered(when: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the store did not answer {when}"))
}

/// The right to ask the store for a sign of life. Dropped without one, the next may ask.
#[derive(Debug)]
pub(crate) struct Probe(Arc<CircuitBreaker>);

impl Probe {
    /// Sends `request`, which is to change nothing: that of an owner whom nobody knows. It takes the
    /// same way as what a look sends, and needs no permission that a lock does not need.
    pub(crate) async fn run(self, store: Arc<dyn Store>, request: ReleaseRequest) {
        // Longer than the store itself may take: it is to notice that its connection is silent.
        let answer = timeout(SHADOW_TIMEOUT * 2, store.release(request)).await;
        drop(store);
        // A server that refuses has answered as well.
        let alive = answer.is_ok_and(|reply| !reply.is_err_and(|e| e.kind().is_transient()));
        if !alive {
            return sleep(REST).await;
        }
        if self.0.turn(PROBING, CLEAR) {
            tracing::info!("the lock store answers again");
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.turn(PROBING, LOST);
    }
}
