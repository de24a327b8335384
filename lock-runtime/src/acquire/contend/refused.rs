//! What a contender does with an answer that is no grant.

use std::time::Duration;

use super::{Contender, LastAnswer, Next};
use crate::acquire::share::Refusal;
use crate::error::{BusyReason, LockError, StoreError, StoreErrorKind};
use crate::lease::Hold;
use crate::observe::log_lock;
use crate::options::Wait;
use crate::store::HoldKind;

impl Contender {
    fn answered(&mut self) {
        self.last.take_if(|last| matches!(last, LastAnswer::Failed(_)));
        self.waiting.answered(&self.attempt.seat);
    }

    pub(super) async fn refused(&mut self, refusal: Refusal) -> Result<Next, LockError> {
        self.answered();
        let remaining = refusal.holder_remaining();
        self.request.note_holder(remaining);
        self.attempt.seat.note_holder(remaining);
        self.last = Some(LastAnswer::Refused(refusal));
        self.check_wait(remaining)?;
        if !self.waiting.listens() && self.subscribe().await {
            return Ok(Next::TryAgain);
        }
        Ok(Next::Wait(refusal))
    }

    /// Fails if this acquisition does not wait for a busy lock, or not any longer.
    fn check_wait(&self, holder_remaining: Option<Duration>) -> Result<(), LockError> {
        if self.request.spec.options.get_wait() == Wait::None {
            return Err(self.request.busy(BusyReason::Held, holder_remaining));
        }
        if self.waiting.out_of_time() {
            return Err(self.request.timed_out(holder_remaining));
        }
        Ok(())
    }

    /// No contender won a majority because several asked at once: waits for a random time to break the tie.
    // S-29.
    pub(super) async fn split(&mut self) -> Result<Next, LockError> {
        self.answered();
        self.check_wait(None)?;
        self.waiting.pause(5..100).await;
        Ok(Next::TryAgain)
    }

    /// Too few replicas confirmed the hold: releases it, and tries again while the wait lasts.
    // S-31.
    pub(super) async fn not_replicated(&mut self, acked: u32) -> Result<Next, LockError> {
        // The hold is released before the next waiter contends, however this acquire ends.
        self.attempt.placed = true;
        if self.request.spec.options.get_wait() == Wait::None
            || self.waiting.out_of_time()
            || (self.request.spec.options.get_wait() == Wait::Forever
                && self.waiting.failing_for() >= self.leases().timing.store_patience)
        {
            return Err(self.request.not_replicated(acked));
        }
        self.start_over();
        // Otherwise the next attempt would find it held by this process.
        let leases = self.leases();
        let answered = leases.releaser.answered(&self.attempt.target);
        self.waiting.at_most(self.leases().timing.command_timeout, answered).await;
        self.waiting.pause(10..50).await;
        if self.waiting.out_of_time() {
            return Err(self.request.not_replicated(acked));
        }
        self.last = Some(LastAnswer::TooFew(acked));
        Ok(Next::TryAgain)
    }

    /// A reload has changed the kind of the policy while a call of this process holds the lock: it is busy, and asks
    /// again while the wait lasts. The two kinds have different channels, so no notification tells of the release.
    async fn held_as_earlier_kind(&mut self, hold: &Hold) -> Result<Next, LockError> {
        self.answered();
        if !std::mem::replace(&mut self.has_told_of_kind, true) {
            let (key, label) = (self.request.spec.target.key(), &self.request.label);
            let (before, now) = (hold.target.kind(), self.request.spec.target.kind());
            log_lock!(
                warn,
                key,
                label,
                lock.holder = %hold.recorder.label().site(),
                "this process itself still holds the lock as a {before}, the kind that its policy had before a \
                 reload; a {now} finds it busy until then"
            );
        }
        self.check_wait(Some(hold.peek_remaining()))?;
        self.waiting.pause(50..100).await;
        Ok(Next::TryAgain)
    }

    /// Gives up what a request may have been granted, if that is several locks: the next one may find some of them taken, and a
    /// multi lock waits for no lock while it holds another.
    // S-28.
    fn give_up_several(&mut self, was_sent: bool) {
        if self.attempt.target.kind() == HoldKind::Multi
            && (was_sent || self.attempt.unsettled || self.attempt.placed)
        {
            self.start_over();
        }
    }

    /// Tries again after a transient error while the wait and the store's patience last; returns other errors.
    // S-33.
    pub(super) async fn failed(&mut self, error: StoreError) -> Result<Next, LockError> {
        if error.kind() == StoreErrorKind::WrongType {
            if let Some(hold) = self.request.hold_of_earlier_kind() {
                self.has_asked_again = false;
                return self.held_as_earlier_kind(&hold).await;
            }
            // The store may have answered before a hold of the earlier kind was released, or its release is under way.
            if self.request.has_policy() && !std::mem::replace(&mut self.has_asked_again, true) {
                let leases = self.leases();
                let answered = leases.releaser.answered(&self.attempt.target);
                self.waiting.at_most(self.leases().timing.command_timeout, answered).await;
                self.waiting.pause(10..50).await;
                return Ok(Next::TryAgain);
            }
            self.waiting.failed(&error, &self.attempt.seat);
            return Err(self.request.spec.collision(error).await);
        }
        let last = self.last.take();
        // The store works, and its last answer is why: the wait only left this request too little time.
        match &last {
            Some(LastAnswer::Refused(refusal)) if self.waiting.out_of_time() => {
                return Err(self.request.timed_out(refusal.holder_remaining()));
            }
            Some(LastAnswer::TooFew(acked)) if self.waiting.out_of_time() => {
                return Err(self.request.not_replicated(*acked));
            }
            _ => {}
        }
        if error.kind().is_transient() {
            self.give_up_several(error.kind() != StoreErrorKind::Unavailable);
        }
        let is_over = self.waiting.failed(&error, &self.attempt.seat);
        // A request that had too little time says nothing about the store.
        let error = match last {
            Some(LastAnswer::Failed(earlier)) if self.waiting.was_cut_short() => earlier,
            _ => error,
        };
        if is_over {
            // Never "busy" or "timed out": whether the lock was free is not known.
            return Err(LockError::Store(error));
        }
        self.last = Some(LastAnswer::Failed(error));
        self.waiting.pause(10..50).await;
        Ok(Next::TryAgain)
    }
}
