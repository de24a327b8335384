//! A place in a local queue.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::Gates;
use super::waiter::{Left, Turn, Waiter};
use crate::store::Target;
use crate::timer::attended;

/// A place in the queue: resolves to the turn. Dropping it leaves the queue at once.
///
/// A waiter [looks](Self::look) every [`SIGN_OF_LIFE`](crate::liveness::SIGN_OF_LIFE).
pub(crate) struct Ticket<H> {
    pub(super) gates: Arc<Gates<H>>,
    pub(super) target: Arc<Target>,
    pub(super) waiter: Arc<Waiter<H>>,
    /// True once it has resolved: nothing is left behind.
    is_over: bool,
}

impl<H> Ticket<H> {
    pub(super) fn new(gates: Arc<Gates<H>>, target: Arc<Target>, waiter: Arc<Waiter<H>>) -> Self {
        Self { gates, target, waiter, is_over: false }
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

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let turn = self.waiter.poll(cx);
        match turn {
            Poll::Ready(_) => self.is_over = true,
            // It is polled again to look.
            Poll::Pending => attended(),
        }
        turn
    }
}

impl<H> Drop for Ticket<H> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // A turn that had come goes to the next waiter, as a dropped gate guard or payload (invariant 2).
        if let Left::Queue = self.waiter.leave() {
            let mut shard = self.gates.shard(&self.target);
            let gate = shard.gates.get_mut(&*self.target);
            if gate.is_some_and(|gate| gate.queue.remove(&self.waiter.number).is_some()) {
                self.gates.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
