//! Shadow mode: calls whose policy does not enforce the lock (`enforce`).
//!
//! Such a call acquires the lock if it is free, and always runs. It never waits for another holder, and at most
//! [`SHADOW_TIMEOUT`] for the store; what would have blocked it is only recorded. The call's
//! [`Label`](crate::observe::Label) marks it, and every other module asks the label.
//!
//! The body does not start beside its acquire: it would have neither a token nor re-entry, even while the store is healthy.
//!
//! This module has the parts that only such calls need: a circuit breaker for a store that is slow or down, and
//! the limit of their log lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::store::{ReleaseRequest, Store};

/// How long a call that is not enforced waits for the store: several round trips within a region, and less
/// than a person notices.
pub(crate) const SHADOW_TIMEOUT: Duration = Duration::from_millis(50);

/// The pause between two probes.
const PROBE_PAUSE: Duration = Duration::from_millis(200);

/// The pause between two log lines of a policy that is not enforced.
const LOG_PAUSE: Duration = Duration::from_secs(1);

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const HALF_OPEN: u8 = 2;

/// Circuit breaker for calls whose policy is not enforced; each client has one.
///
/// The first overdue answer opens it. While it is open, no call asks the store: a task of its own sends one
/// probe at a time, and the first answer closes it.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(AtomicU8);

impl CircuitBreaker {
    /// Drives `asking`, which asks the store, unless the breaker is open: then `probe` returns the request for
    /// the next probe, which must change nothing.
    ///
    /// # Errors
    ///
    /// Those of `asking`, and [`StoreErrorKind::Unavailable`] if the breaker is open or the answer overdue.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        probe: impl FnOnce() -> ReleaseRequest,
        asking: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        if self.is_closed() {
            return self.within_shadow_timeout(asking).await;
        }
        // Outside of a runtime no task can probe; the next call tries again.
        if let Ok(runtime) = Handle::try_current()
            && self.turn(OPEN, HALF_OPEN)
        {
            runtime.spawn(Probe(Arc::clone(self)).run(Arc::clone(store), probe()));
        }
        Err(unanswered("of late, and is not asked").into())
    }

    /// True if an answer can be expected in time.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CLOSED
    }

    /// Drives `asking`, and opens if the answer is overdue or a transient failure.
    ///
    /// # Errors
    ///
    /// Those of `asking`, and [`StoreErrorKind::Unavailable`] after [`SHADOW_TIMEOUT`].
    pub(crate) async fn within_shadow_timeout<T>(
        &self,
        asking: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let answer = timeout(SHADOW_TIMEOUT, asking).await;
        let answer = answer.unwrap_or_else(|_| Err(unanswered("in time").into()));
        if let Err(LockError::Store(error)) = &answer
            && error.kind().is_transient()
            && self.turn(CLOSED, OPEN)
        {
            tracing::warn!(
                %error,
                "until the lock store answers again, what is not enforced runs without asking it"
            );
        }
        answer
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

fn unanswered(when: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the store did not answer {when}"))
}

/// The right to send one probe. Dropping it lets the next call start one.
struct Probe(Arc<CircuitBreaker>);

impl Probe {
    /// Sends `request`, a release of an owner that the store does not know: it takes the same path as an
    /// acquire, and needs no permission beyond those of a lock.
    async fn run(self, store: Arc<dyn Store>, request: ReleaseRequest) {
        // Longer than the store's own limit, so that the store notices that its connection is silent.
        let answer = timeout(SHADOW_TIMEOUT * 2, store.release(request)).await;
        drop(store);
        // A server that refuses has answered too.
        let alive = answer.is_ok_and(|reply| !reply.is_err_and(|e| e.kind().is_transient()));
        if !alive {
            return sleep(PROBE_PAUSE).await;
        }
        if self.0.turn(HALF_OPEN, CLOSED) {
            tracing::info!("the lock store answers again");
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.turn(HALF_OPEN, OPEN);
    }
}

/// Limits the log of a policy that is not enforced to one line in [`LOG_PAUSE`].
#[derive(Default)]
pub(crate) struct LogLimit(Mutex<Logged>);

#[derive(Default)]
struct Logged {
    last_line: Option<Instant>,
    /// How many lines were omitted since.
    unlogged: u64,
}

impl LogLimit {
    /// Returns how many omitted lines the next one also counts; `None` if it is omitted too.
    pub(crate) fn next_line(&self) -> Option<u64> {
        let now = Instant::now();
        let mut logged = self.0.lock();
        if logged.last_line.is_some_and(|last| now < last + LOG_PAUSE) {
            logged.unlogged += 1;
            return None;
        }
        logged.last_line = Some(now);
        Some(std::mem::take(&mut logged.unlogged))
    }
}
