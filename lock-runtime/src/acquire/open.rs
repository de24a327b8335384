//! Operating a count-down latch, and waiting for it to open.
//!
//! A waiter holds no lock, so it has nothing to undo. Waiting tasks queue as for a lock; a task of the client asks the store for
//! all of them, and its answer counts for each waiter that queued before it asked.
// S-30.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::first::Tried;
use super::queued::Ended;
use super::request::Request;
use super::waiting::Waiting;
use super::{Handle, LongWait};
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::observe::{AcquireOutcome, AcquireRecorder, AcquireSpan, Label};
use crate::opaque::opaque_debug;
use crate::options::{LockOptions, Wait};
use crate::owned_hold::OwnedHold;
use crate::queue::{Asked, Seat, Turn};
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
        let options = LockOptions::clone(&spec.options).wait(Wait::Forever);
        let asked = Request::new(
            spec.once_with(options),
            1,
            Label::default(),
            Instant::now(),
            AcquireSpan::none(),
        );
        let (asked, apart) = (Arc::new(asked), Seat::none());
        let mut waiting = Waiting::new(Arc::clone(&asked), Instant::now(), None);
        loop {
            let error = match asked.ask_latch(request, waiting.ask()).await? {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let repeatable =
                request.is_repeatable() || error.kind() != StoreErrorKind::OutcomeUnknown;
            if !repeatable || waiting.failed(&error, &apart) {
                return Err(asked.spec.collision(error).await);
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
        let (span, label) = (recorder.span(), recorder.label().clone());
        let request = Arc::new(Request::new(spec.clone(), 1, label, Instant::now(), span.clone()));
        let mut recorder = recorder.timed_from(request.started);
        let opened = span.around(request.opened(&mut recorder)).await;
        match &opened {
            Ok(()) => recorder.over(AcquireOutcome::Acquired, None),
            Err(error) => recorder.failed(spec.target.key(), error),
        }
        opened
    }
}

impl Request {
    async fn opened(self: &Arc<Self>, recorder: &mut AcquireRecorder) -> Result<(), LockError> {
        if self.spec.options.get_wait() == Wait::None {
            // A waiter may be cut off, and only the store knows.
            let mut waiting = Waiting::new(Arc::clone(self), self.started, None);
            return self.watch(&mut waiting, &Seat::none(), None).await.map(drop);
        }
        let (mut place, mut long) = (None, LongWait::default());
        loop {
            let mut queued = match self.enter(place, Instant::now()) {
                Ok(_) => unreachable!("no waiter of a latch asks itself"),
                Err(Tried::Waits(queued)) => queued,
                Err(Tried::Over(Err(error))) => return Err(error),
                Err(_) => unreachable!("it waits or is refused"),
            };
            recorder.waits();
            let turn = poll_fn(|cx| {
                let polled = queued.poll(cx);
                if polled.is_pending() {
                    long.look(self, true, cx);
                }
                polled
            });
            match turn.await {
                Ended::Turn(Turn::Shared(_)) => return Ok(()),
                Ended::Turn(Turn::Closed) => return Err(LockError::Closed),
                Ended::Turn(Turn::Failed(LockError::Store(error))) => {
                    return Err(self.spec.collision(error).await);
                }
                Ended::Turn(Turn::Failed(error)) => return Err(error),
                Ended::Turn(Turn::Busy) | Ended::TimedOut => return Err(self.latch_closed(None)),
                Ended::Unanswered => return Err(self.unanswered()),
                // A latch has no holder, so no task hands it over.
                Ended::Turn(Turn::Handed(_)) => place = Some(queued.place()),
            }
        }
    }

    /// Asks the store for a waiter, and for those behind it, until the latch is open or the waiter waits no more.
    pub(super) async fn watch_latch(
        self: Arc<Self>,
        asked: Asked<OwnedHold>,
        seat: Seat<OwnedHold>,
    ) {
        let mut waiting = Waiting::new(Arc::clone(&self), Instant::now(), seat.failing_since());
        let opened = tokio::select! {
            biased;
            () = asked.stops_waiting() => return,
            opened = self.watch(&mut waiting, &seat, Some(&asked)) => opened,
        };
        match opened {
            Ok(None) => {}
            Ok(Some(asked_at)) => {
                asked.share(None);
                seat.share_before(asked_at, &None);
            }
            Err(error) => asked.fail(error),
        }
    }

    /// Returns when the request was made that found it open; `None` if the waiter was passed over.
    async fn watch(
        &self,
        waiting: &mut Waiting,
        seat: &Seat<OwnedHold>,
        asked: Option<&Asked<OwnedHold>>,
    ) -> Result<Option<Instant>, LockError> {
        let mut known = None;
        loop {
            if asked.is_some_and(Asked::is_passed_over) {
                return Ok(None);
            }
            waiting.forget_past();
            let asked_at = Instant::now();
            let count = match self.ask_latch(LatchRequest::Count, waiting.ask()).await? {
                Ok(count) => count,
                // The store answers and the latch was closed; only this wait's limit cut the request short.
                Err(_) if known.is_some() && waiting.out_of_time() => {
                    return Err(self.latch_closed(known));
                }
                Err(error) if waiting.failed(&error, seat) => {
                    return Err(self.spec.collision(error).await);
                }
                Err(_) => {
                    known = None;
                    waiting.pause(10..50).await;
                    continue;
                }
            };
            waiting.answered(seat);
            known = Some(count);
            if count == 0 {
                return Ok(Some(asked_at));
            }
            if self.spec.options.get_wait() == Wait::None {
                return Err(self.latch_closed(known));
            }
            // Register, then check, then wait (S-15).
            let checked = waiting.listens() || !waiting.subscribe(&self.spec.target).await;
            if checked && !waiting.out_of_time() {
                waiting.nap(waiting.poll_cap(), asked).await;
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
