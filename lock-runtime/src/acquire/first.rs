//! The usual acquire: no task of this process holds the lock or waits for it, and the store grants it at once.
//!
//! It asks once, without the room that a longer acquire needs. Any other answer goes on where a
//! [contender](super::contend) would act on it.

use std::pin::Pin;
use std::task::Waker;

use super::attempt::Attempt;
use super::contend::{Answered, Contended, Contender};
use super::{AcquireSpec, PendingAcquire};
use crate::error::LockError;
use crate::gate::Admission;
use crate::guard::LockGuard;
use crate::observe::AcquireOutcome;
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::store::HoldKind;

type Taking<'a> =
    Pin<Box<dyn Future<Output = Result<(AcquireOutcome, LockGuard), LockError>> + Send + 'a>>;

impl PendingAcquire {
    /// Enters the gate if it is free and other processes do not go first.
    pub(super) fn enter_free_gate(&self) -> Option<Attempt> {
        let asks_at_once = match self.spec.target.kind() {
            // Without a wait, it learns first whether this process is releasing the lock, as one of several.
            HoldKind::Mutex => {
                let AcquireSpec { engine, target, options } = &*self.spec;
                options.get_wait() != Wait::None || !engine.is_releasing(target)
            }
            HoldKind::Write | HoldKind::Multi => self.spec.options.get_wait() != Wait::None,
            HoldKind::Fair | HoldKind::Read | HoldKind::Semaphore | HoldKind::Latch => false,
        };
        if !asks_at_once {
            return None;
        }
        let (gates, owner) = (&self.spec.engine.gates, || self.next_owner());
        let (gate_guard, owner) = gates.enter_unused(&self.spec.target, owner, self.started)?;
        Some(Attempt::of(self, owner, gate_guard))
    }

    /// Enters the gate as an outermost acquire that [may wait](Self::queues_at_once) there: with the first request, if it is
    /// free and other processes do not go first.
    pub(super) fn enter_at_once(&self, waker: &Waker) -> Result<Attempt, Admission<OwnedHold>> {
        let (gates, options) = (&self.spec.engine.gates, &self.spec.options);
        let (gate_guard, owner) = gates.enter_first(
            &self.spec.target,
            options.stored_lease(),
            options.get_max_waiters(),
            || self.next_owner(),
            || (self.asker(), waker.clone()),
            self.started,
        )?;
        Ok(Attempt::of(self, owner, gate_guard))
    }

    #[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
    pub(super) fn run_first(
        self,
        mut attempt: Attempt,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send {
        async move {
            let limit = self.limit();
            let mut contender = Contender::first(&self, &mut attempt, limit);
            let (id, place) = contender.id_and_place();
            // The gate knows its first sign of life.
            let next = self.started + self.look_every();
            let rest: Taking<'_> = match self.drive_from(next, id, contender.ask_once()).await {
                Some(Ok(Ok(Contended::Taken(guard)))) => {
                    return self.report(Ok((AcquireOutcome::Acquired, guard)));
                }
                Some(Err(error)) => return self.report(Err(error)),
                Some(Ok(Err(answered))) => Box::pin(self.go_on(contender, answered)),
                Some(Ok(Ok(Contended::JoinableHold(_) | Contended::PassedOver))) | None => {
                    drop(contender);
                    Box::pin(self.take_hold_at(limit, Some(place), None))
                }
            };
            let taken = Box::pin(self.log_if_long(rest)).await;
            self.report(taken)
        }
    }

    async fn go_on<'a>(
        &'a self,
        contender: Contender<'a>,
        answered: Answered,
    ) -> Result<(AcquireOutcome, LockGuard), LockError> {
        let (id, place) = contender.id_and_place();
        match self.drive(id, contender.go_on(answered)).await.transpose()? {
            Some(Contended::Taken(guard)) => Ok((AcquireOutcome::Acquired, guard)),
            Some(Contended::JoinableHold(_) | Contended::PassedOver) | None => {
                self.take_hold_at(self.limit(), Some(place), None).await
            }
        }
    }
}
