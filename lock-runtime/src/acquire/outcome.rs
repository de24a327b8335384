//! The errors of an acquire that fails.

use std::time::Duration;

use tokio::time::timeout;

use super::PendingAcquire;
use super::waiting::A_MOMENT;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind, rounded};
use crate::gate::{GateGuard, Said, Turn};
use crate::options::Wait;
use crate::owned_hold::OwnedHold;

impl PendingAcquire {
    pub(super) fn not_replicated(&self, acked: u32) -> LockError {
        let replicas = self.spec.options.replicas();
        LockError::NotReplicated {
            key: self.spec.target.key().to_string(),
            acked: acked as usize,
            wanted: replicas.map_or(0, |replicas| replicas.at_least) as usize,
            // The wait may have left them less than the options give them.
            timeout: replicas
                .map_or(Duration::ZERO, |replicas| replicas.timeout)
                .min(rounded(self.started.elapsed())),
        }
    }

    pub(super) fn busy(&self, reason: BusyReason, holder_remaining: Option<Duration>) -> LockError {
        LockError::Busy { key: self.spec.target.key().to_string(), reason, holder_remaining }
    }

    /// Ends a wait in the queue that is over without a turn. Never reports a busy lock if the store cannot be asked: if it
    /// has not answered since this wait began, the task that is asking it gets `A_MOMENT` for its answer. If no task is
    /// asking it, or that one leaves as its own wait is over, this caller asks once, and gets its turn to do so.
    // S-33.
    pub(super) async fn timed_out_in_queue(&self) -> Result<Turn<OwnedHold>, LockError> {
        let gates = &self.spec.engine.gates;
        if let Some((_, error)) = gates.failing(&self.spec.target) {
            return Err(LockError::Store(error));
        }
        let answer = match gates.said_since(&self.spec.target, self.started) {
            Said::Held => return Err(self.timed_out(None)),
            Said::NotYet(answer) => answer,
            Said::Nothing => return Ok(Turn::Contend(GateGuard::apart())),
        };
        match timeout(A_MOMENT, answer).await {
            Ok(Ok(Ok(()))) => Err(self.timed_out(None)),
            Ok(Ok(Err(error))) => Err(LockError::Store(error)),
            Ok(Err(_)) => Ok(Turn::Contend(GateGuard::apart())),
            Err(_) => Err(self.unanswered()),
        }
    }

    /// The error of a store that has not answered whether the lock is free.
    fn unanswered(&self) -> LockError {
        let waited = rounded(self.started.elapsed());
        let message = format!("the store did not say in {waited:?} whether the lock is free");
        StoreError::new(StoreErrorKind::Unavailable, message).into()
    }

    pub(super) fn timed_out(&self, holder_remaining: Option<Duration>) -> LockError {
        if self.spec.options.wait() == Wait::Never {
            // The lock may be free: the answer to this request, or to the release before it, is overdue.
            return self.unanswered();
        }
        LockError::Timeout {
            key: self.spec.target.key().to_string(),
            waited: self.started.elapsed(),
            holder_remaining,
        }
    }
}
