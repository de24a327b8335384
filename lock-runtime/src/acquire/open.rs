//! Working a count-down latch, and waiting for it to open (S-30).
//!
//! Nothing is held, so nothing has to be undone. Waiting tasks line up at the gate as for a lock;
//! the first asks for all of them, and whoever was in line before it asked may believe its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::waiting::Waiting;
use super::{Contention, Handle};
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::gate::{Life, Seat, Turn};
use crate::observe::{AcquireOutcome, Seen};
use crate::options::{LockOptions, Wait};
use crate::stand::Stand;
use crate::store::{LatchRequest, Target};

impl Handle {
    /// Works the latch of this name. Only what cannot have run is sent again.
    pub(crate) async fn work_latch(&self, request: LatchRequest) -> Result<u64, LockError> {
        // This is no wait: how long it may take is the store's matter alone.
        let target = Arc::clone(self.target().map_err(LockError::clone)?);
        let seen = Seen::nothing(&target);
        let contention = self.contention(target, self.options().with_wait(Wait::Forever), seen);
        let mut waiting = Waiting::new(&contention, None, None);
        loop {
            let error = match contention.ask_latch(request, &waiting).await? {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let repeatable =
                request == LatchRequest::Count || error.kind() != StoreErrorKind::OutcomeUnknown;
            if !repeatable || waiting.failed(&error, None) {
                return Err(contention.latch_error(error));
            }
            waiting.pause(10..50).await;
        }
    }

    /// Waits until nothing is left to count down.
    pub(crate) async fn until_open(&self) -> Result<(), LockError> {
        let target = Arc::clone(self.target().map_err(LockError::clone)?);
        let seen = self.seen(&target);
        let span = seen.span();
        let contention = self.contention(target, self.options(), seen);
        let opened = span.around(contention.opened()).await;
        match &opened {
            Ok(()) => contention.seen.over(AcquireOutcome::Acquired, None),
            Err(error) => contention.seen.failed(error),
        }
        opened
    }

    fn contention(&self, target: Arc<Target>, options: LockOptions, seen: Seen) -> Contention {
        let (engine, started) = (Arc::clone(self.engine()), Instant::now());
        let seen = seen.timed_from(started);
        Contention { engine, target, options, permits: 1, inside: None, started, seen }
    }
}

impl Contention {
    async fn opened(&self) -> Result<(), LockError> {
        let limit = self.limit();
        let mut place = None;
        loop {
            match self.line_up(limit, &mut place).await? {
                Turn::Contend(seat) => {
                    place = Some(seat.place());
                    let life = Life::of(&seat, &self.engine.gates, &self.target);
                    // None if it was passed over: it lines up again (S-34).
                    let watching = self.watch_latch(seat, limit);
                    if let Some(opened) =
                        life.drive(self.look_every(), || self.restart_tasks(), watching).await
                    {
                        return opened;
                    }
                }
                Turn::Shared => return Ok(()),
                Turn::Closed => return Err(LockError::Closed),
                Turn::Failed(error) => return Err(self.latch_error(error)),
                // Nobody holds a latch, so nobody hands one over.
                Turn::Handed(_) => {}
            }
        }
    }

    async fn watch_latch(
        &self,
        seat: Seat<Stand>,
        limit: Option<Instant>,
    ) -> Result<(), LockError> {
        let mut waiting = Waiting::new(self, Some(&seat), limit);
        let mut known = false;
        loop {
            waiting.forget_past();
            let asked_at = Instant::now();
            let count = match self.ask_latch(LatchRequest::Count, &waiting).await? {
                Ok(count) => count,
                // The store is well and the latch was shut; it was our own limit that cut this short.
                Err(_) if std::mem::take(&mut known) && waiting.out_of_time() => {
                    return Err(self.timed_out(None));
                }
                Err(error) if waiting.failed(&error, Some(&seat)) => {
                    return Err(self.latch_error(error));
                }
                Err(_) => {
                    waiting.pause(10..50).await;
                    continue;
                }
            };
            waiting.answered(Some(&seat), false);
            known = true;
            if count == 0 {
                seat.share_before(asked_at);
                return Ok(());
            }
            if self.options.wait() == Wait::Never {
                return Err(self.busy(BusyReason::Held, None));
            }
            // Register, then check, then wait (S-15).
            let checked = waiting.listens() || !waiting.subscribe(&self.target).await;
            if checked && !waiting.out_of_time() {
                waiting.nap(waiting.poll_cap(), Some(&seat)).await;
            }
            if waiting.out_of_time() {
                return Err(self.timed_out(None));
            }
        }
    }

    async fn ask_latch(
        &self,
        request: LatchRequest,
        waiting: &Waiting<'_>,
    ) -> Result<Result<u64, StoreError>, LockError> {
        if self.engine.closed.load(Ordering::SeqCst) {
            return Err(LockError::Closed);
        }
        let store = &self.engine.keeper.store;
        Ok(store.latch(&self.target, request, waiting.time_to_answer()).await)
    }

    fn latch_error(&self, error: StoreError) -> LockError {
        match error.kind() {
            StoreErrorKind::WrongType => LockError::KeyCollision {
                key: self.target.key().to_string(),
                found: error.to_string(),
            },
            _ => LockError::Store(error),
        }
    }
}
