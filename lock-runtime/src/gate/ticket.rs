//! A place in a local queue.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::Gates;
use super::waiter::{Turn, Waiter};
use crate::store::Target;
use crate::timer::attended;

/// A place in the queue: resolves to the turn. Dropping it leaves the queue at once.
///
/// A waiter [looks](Self::look) every [`SIGN_OF_LIFE`](crate::liveness::SIGN_OF_LIFE).
pub(crate) struct Ticket<H> {
    pub(super) gates: Arc<Gates<H>>,
    pub(super) target: Arc<Target>,
    pub(super) waiter: Arc<Waiter<H>>,
}

impl<H> Ticket<H> {
    pub(super) fn new(gates: Arc<Gates<H>>, target: Arc<Target>, waiter: Arc<Waiter<H>>) -> Self {
        Self { gates, target, waiter }
    }

    /// Its place in the queue.
    pub(crate) fn place(&self) -> u64 {
        self.waiter.number
    }

    /// When it joined the queue.
    pub(crate) fn since(&self) -> Instant {
        self.waiter.since
    }
}

impl<H> Future for Ticket<H> {
    type Output = Turn<H>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let turn = self.waiter.poll(cx);
        if turn.is_pending() {
            // It is polled again to look.
            attended();
        }
        turn
    }
}

impl<H> Drop for Ticket<H> {
    fn drop(&mut self) {
        // A turn that had come goes to the next waiter, as a dropped gate guard or payload (invariant 2).
        let turn = self.waiter.leave();
        if turn.is_none() {
            let mut shard = self.gates.shard(&self.target);
            let gate = shard.gates.get_mut(&*self.target);
            if gate.is_some_and(|gate| gate.queue.remove(&self.waiter.number).is_some()) {
                self.gates.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
