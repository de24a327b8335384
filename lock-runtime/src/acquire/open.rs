//! Operating a count-down latch, and waiting for it to open.
//!
//! A waiter holds no lock, so it has nothing to undo. Waiting tasks queue at the gate as for a lock; the first
//! asks the store for all of them, and its answer counts for each task that queued before it asked.
// S-30.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Handle, PendingAcquire};
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::gate::{GateGuard, Turn};
use crate::observe::{AcquireOutcome, AcquireRecorder};
use crate::opaque::opaque_debug;
use crate::options::{LockOptions, Wait};
use crate::owned_hold::OwnedHold;
use crate::site::CallSite;
use crate::store::LatchRequest;

/// A wait for a latch under way: see [`CountDownLatch::reached`](crate::CountDownLatch::reached).
///
/// # Panics
///
/// If it is polled after it has completed.
#[must_use = "futures do nothing unless polled"]
pub struct Reached(BoxFuture<'static, Result<(), LockError>>);

impl Future for Reached {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

opaque_debug!(Reached);

impl Handle {
    /// Operates the latch of this name. Repeats only requests that cannot have run.
    pub(crate) async fn work_latch(&self, request: LatchRequest) -> Result<u64, LockError> {
        let spec = self.spec()?;
        spec.engine.leases.check_caller()?;
        consume_budget().await;
        // Not a wait: only the store's timeout limits it.
        let recorder = AcquireRecorder::nothing(&spec.target);
        let options = LockOptions::clone(&spec.options).wait(Wait::Forever);
        let pending = PendingAcquire::new(spec.once_with(options), 1, recorder);
        let apart = GateGuard::apart();
        let mut waiting = Waiting::new(&pending, Instant::now(), None, None);
        loop {
            let error = match pending.ask_latch(request, waiting.ask()).await? {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let repeatable =
                request.is_repeatable() || error.kind() != StoreErrorKind::OutcomeUnknown;
            if !repeatable || waiting.failed(&error, &apart) {
                return Err(pending.spec.collision(error).await);
            }
            waiting.pause(10..50).await;
        }
    }

    /// Waits until the count is zero.
    #[track_caller]
    pub(crate) fn until_open(&self) -> Reached {
        let (handle, site) = (self.clone(), CallSite::caller());
        Reached(Box::pin(async move { handle.until_open_for(site).await }))
    }

    async fn until_open_for(&self, site: CallSite) -> Result<(), LockError> {
        let spec = self.spec()?;
        spec.engine.leases.check_caller()?;
        consume_budget().await;
        spec.options.check()?;
        let recorder = self.recorder(&spec.target, site);
        let span = recorder.span();
        let pending = PendingAcquire::new(spec.clone(), 1, recorder);
        let opened = span.around(pending.log_if_long(pending.opened())).await;
        match &opened {
            Ok(()) => pending.recorder.over(AcquireOutcome::Acquired, None),
            Err(error) => pending.recorder.failed(pending.spec.target.key(), error),
        }
        opened
    }
}

impl PendingAcquire {
    async fn opened(&self) -> Result<(), LockError> {
        let limit = self.limit();
        let mut place = None;
        loop {
            let admission = self.enter(place, Instant::now);
            let turn =
                self.turn_after(admission, limit, &mut place).await.map_err(
                    |error| match error {
                        LockError::Timeout { .. } => self.latch_closed(None),
                        error => error,
                    },
                )?;
            match turn {
                Turn::Contend(gate_guard) => {
                    place = Some(gate_guard.place());
                    let id = gate_guard.id();
                    if let Some(opened) = self.drive(id, self.watch_latch(gate_guard, limit)).await
                    {
                        return opened;
                    }
                }
                Turn::Shared(_) => return Ok(()),
                Turn::Closed => return Err(LockError::Closed),
                Turn::Failed(error) => {
                    return Err(self.spec.collision(error).await);
                }
                // A latch has no holder, so no task hands it over.
                Turn::Handed(_) => {}
            }
        }
    }

    async fn watch_latch(
        &self,
        gate_guard: GateGuard<OwnedHold>,
        limit: Option<Instant>,
    ) -> Result<(), LockError> {
        let mut waiting = Waiting::new(self, Instant::now(), gate_guard.failing_since(), limit);
        let mut known = None;
        loop {
            waiting.forget_past();
            let asked_at = Instant::now();
            let count = match self.ask_latch(LatchRequest::Count, waiting.ask()).await? {
                Ok(count) => count,
                // The store answers and the latch was closed; only this wait's limit cut the request short.
                Err(_) if known.is_some() && waiting.out_of_time() => {
                    return Err(self.latch_closed(known));
                }
                Err(error) if waiting.failed(&error, &gate_guard) => {
                    return Err(self.spec.collision(error).await);
                }
                Err(_) => {
                    known = None;
                    waiting.pause(10..50).await;
                    continue;
                }
            };
            waiting.answered(&gate_guard);
            known = Some(count);
            if count == 0 {
                gate_guard.share_before(asked_at, &None);
                return Ok(());
            }
            if self.spec.options.get_wait() == Wait::None {
                return Err(self.latch_closed(known));
            }
            // Register, then check, then wait (S-15).
            let checked = waiting.listens() || !waiting.subscribe(&self.spec.target).await;
            if checked && !waiting.out_of_time() {
                waiting.nap(waiting.poll_cap(), &gate_guard, None).await;
            }
            if waiting.out_of_time() {
                return Err(self.latch_closed(known));
            }
        }
    }

    async fn ask_latch(
        &self,
        request: LatchRequest,
        timeout: Duration,
    ) -> Result<Result<u64, StoreError>, LockError> {
        if self.spec.engine.closed.load(Ordering::SeqCst) {
            return Err(LockError::Closed);
        }
        let store = &self.spec.engine.leases.store;
        Ok(store.latch(&self.spec.target, request, timeout).await)
    }

    /// The error of a wait that has ended, with the count that the store last reported.
    fn latch_closed(&self, count: Option<u64>) -> LockError {
        let waited = match self.spec.options.get_wait() {
            Wait::None => Duration::ZERO,
            _ => self.started.elapsed(),
        };
        LockError::LatchClosed { key: self.spec.target.key().to_string(), waited, count }
    }
}
