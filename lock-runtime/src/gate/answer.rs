//! The store's answers to the task inside a gate, for callers that do not wait there, or whose wait is over.
//!
//! Such a caller must not take a contender for a holder: the store may be down, and the lock free. So it waits
//! for the store's next answer to that task, which is woken for it if it sleeps. That keeps the order of the
//! queue, and one request answers all such callers. If that task leaves without an answer, one of them enters the gate.
// S-33.

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Admission, Gate, GateState, Gates, WaitsFor};
use crate::error::{BusyReason, StoreError};
use crate::store::Target;

/// The store's answer: another task has the lock now, or the store has failed.
pub(crate) type StoreAnswer = Result<(), StoreError>;

/// Resolves to the store's next answer, or to an error when the gate guard becomes free without one.
pub(crate) type NextAnswer = oneshot::Receiver<StoreAnswer>;

/// The store's answer about a lock since a given time.
pub(crate) enum AnswerSince {
    /// The store has refused the contender, or a task of this process holds the lock.
    Busy,
    /// There is none yet. This is the next answer to the task in the gate.
    Pending(NextAnswer),
    /// There is none, and no task is in the gate.
    Missing,
}

#[derive(Default)]
pub(super) struct Answers {
    /// When the store last answered.
    answered_at: Option<Instant>,
    listeners: Vec<oneshot::Sender<StoreAnswer>>,
    /// Wakes the contender, if it sleeps.
    asleep: Option<oneshot::Sender<()>>,
}

impl Answers {
    pub(super) fn take_listeners(&mut self) -> Vec<oneshot::Sender<StoreAnswer>> {
        std::mem::take(&mut self.listeners)
    }

    /// The contender sleeps until what this returns resolves.
    pub(super) fn sleep(&mut self) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        if self.listeners.is_empty() {
            self.asleep = Some(wake);
        } else {
            // A caller came before this: nothing else would wake the contender.
            let _ = wake.send(());
        }
        woken
    }

    /// Adds a caller. Also returns the channel that wakes the contender, for use after the shard is unlocked.
    fn listen(&mut self) -> (NextAnswer, Option<oneshot::Sender<()>>) {
        let (listener, answer) = oneshot::channel();
        // Callers that gave up meanwhile are removed when the list would grow.
        if self.listeners.len() == self.listeners.capacity() {
            self.listeners.retain(|listener| !listener.is_closed());
        }
        self.listeners.push(listener);
        (answer, self.asleep.take())
    }
}

/// Wakes a contender that sleeps. Do not call it under a shard's mutex.
pub(super) fn wake_up(contender: Option<oneshot::Sender<()>>) {
    if let Some(wake) = contender {
        let _ = wake.send(());
    }
}

impl<H> Gate<H> {
    /// Records that the store has answered, and whether its answer `grants` the lock to the contender. Returns the
    /// callers to send the answer to.
    pub(super) fn note_answer(&mut self, grants: bool) -> Vec<oneshot::Sender<StoreAnswer>> {
        if grants {
            self.gate_guard = GateState::Holding;
            // Only waiters read when the store last answered, and none waits.
            if self.queue.is_empty() {
                return self.forget_failure();
            }
        }
        self.told().answers.answered_at = Some(Instant::now());
        self.forget_failure()
    }

    /// Records that the store has answered to a task that leaves the gate. When it did matters only to a next contender.
    pub(super) fn note_last_answer(&mut self) -> Vec<oneshot::Sender<StoreAnswer>> {
        if self.queue.is_empty() { self.forget_failure() } else { self.note_answer(false) }
    }

    fn forget_failure(&mut self) -> Vec<oneshot::Sender<StoreAnswer>> {
        let Some(told) = &mut self.told else { return Vec::new() };
        told.failing = None;
        told.holder_ends = None;
        told.answers.take_listeners()
    }

    /// Answers a caller that does not wait and finds the gate guard taken. Also returns the contender to wake.
    pub(super) fn refuse(
        &mut self,
        waits_for: WaitsFor,
    ) -> (Admission<H>, Option<oneshot::Sender<()>>) {
        let admission = match (&self.gate_guard, self.failing()) {
            _ if self.is_held() => Admission::Busy(BusyReason::Held),
            // It counts as a hold of this process until the store has answered, and the caller does not wait
            // for that.
            (GateState::Leaving { held: true, .. }, _) if waits_for == WaitsFor::Nothing => {
                Admission::Busy(BusyReason::Held)
            }
            (_, Some((_, error))) => Admission::Failing(error.clone()),
            _ => {
                let (answer, wake) = self.told().answers.listen();
                return (Admission::Unknown(answer), wake);
            }
        };
        (admission, None)
    }
}

impl<H> Gates<H> {
    /// Returns the store's answer for a caller that has waited in the queue since `then`, and whose wait is over.
    pub(crate) fn answer_since(&self, target: &Target, then: Instant) -> AnswerSince {
        let (answer, wake) = {
            let mut shard = self.shard(target);
            let Some(gate) = shard.gates.get_mut(target) else {
                return AnswerSince::Missing;
            };
            let answered_at = gate.told.as_ref().and_then(|told| told.answers.answered_at);
            if gate.is_held() || answered_at.is_some_and(|at| at >= then) {
                return AnswerSince::Busy;
            }
            if gate.is_free() {
                return AnswerSince::Missing;
            }
            gate.told().answers.listen()
        };
        wake_up(wake);
        AnswerSince::Pending(answer)
    }
}
