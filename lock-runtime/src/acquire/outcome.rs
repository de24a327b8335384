//! The errors of an acquire that fails.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::PendingAcquire;
use super::waiting::A_MOMENT;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind, rounded};
use crate::gate::{Admission, AnswerSince, Turn, WaitsFor};
use crate::options::Wait;
use crate::owned_hold::OwnedHold;

impl PendingAcquire {
    pub(super) fn not_replicated(&self, acked: u32) -> LockError {
        let replicas = self.spec.options.replicas;
        LockError::NotReplicated {
            key: self.spec.target.key().to_string(),
            acked: acked as usize,
            wanted: replicas.map_or(0, |replicas| replicas.acks) as usize,
            // The wait may have left them less than the options give them.
            timeout: replicas
                .map_or(Duration::ZERO, |replicas| replicas.timeout)
                .min(rounded(self.started.elapsed())),
        }
    }

    pub(super) fn busy(&self, reason: BusyReason, holder_remaining: Option<Duration>) -> LockError {
        LockError::Busy { key: self.spec.target.key().to_string(), reason, holder_remaining }
    }

    /// Ends a wait in the queue that is over without a turn. A lock is not called busy unless the store has said so since
    /// this wait began: a task that is asking it gets `A_MOMENT` for its answer. If no task is asking it, or that task
    /// leaves because its own wait is over, this returns a turn to ask once.
    // S-33.
    pub(super) async fn timed_out_in_queue(&self) -> Result<Turn<OwnedHold>, LockError> {
        let (gates, target) = (&self.spec.engine.gates, &self.spec.target);
        let enough = Instant::now() + A_MOMENT;
        loop {
            if let Some((_, error)) = gates.failing(target) {
                return Err(LockError::Store(error));
            }
            let answer = match gates.answer_since(target, self.started) {
                AnswerSince::Busy => return Err(self.timed_out(None)),
                AnswerSince::Pending(answer) => answer,
                AnswerSince::Missing => match self.enter_now() {
                    Admission::Turn(gate_guard) => return Ok(Turn::Contend(gate_guard)),
                    Admission::Closed => return Err(LockError::Closed),
                    // Another task was first, and is asking now.
                    _ => continue,
                },
            };
            match timeout_at(enough, answer).await {
                Ok(Ok(Ok(()))) => return Err(self.timed_out(None)),
                Ok(Ok(Err(error))) => return Err(LockError::Store(error)),
                // That task has left.
                Ok(Err(_)) => {}
                Err(_) => return Err(self.unanswered()),
            }
        }
    }

    /// Enters the gate if it is free.
    fn enter_now(&self) -> Admission<OwnedHold> {
        let (engine, lease) = (&self.spec.engine, self.spec.options.stored_lease());
        let newcomer = || (self.asker(), Instant::now());
        engine.gates.enter(&self.spec.target, lease, 0, WaitsFor::Nothing, None, newcomer)
    }

    /// The error of a store that has not answered whether the lock is free.
    fn unanswered(&self) -> LockError {
        let waited = rounded(self.started.elapsed());
        let message = format!("the store did not say in {waited:?} whether the lock is free");
        StoreError::new(StoreErrorKind::Unavailable, message).into()
    }

    pub(super) fn timed_out(&self, holder_remaining: Option<Duration>) -> LockError {
        if self.spec.options.get_wait() == Wait::None {
            // The lock may be free: the answer to this request, or to the release before it, is overdue.
            return self.unanswered();
        }
        LockError::Timeout {
            key: self.spec.target.key().to_string(),
            waited: self.started.elapsed(),
            holder_remaining,
            local_holder: self.local_holder().map(Box::new),
        }
    }
}
