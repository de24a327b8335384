//! A place in a local line.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::{Gates, Seat};
use crate::error::StoreError;
use crate::store::Target;

/// What a waiter gets when it comes to the front.
pub(crate) enum Turn<H> {
    /// The right to contend in the store.
    Contend(Seat<H>),
    /// A hold, with everything that belongs to it.
    Handed(H),
    /// The end of the wait: the store has been failing for as long as is put up with.
    Failed(StoreError),
    /// The end of this line: what it waits for can be shared now.
    Shared,
}

/// A place in line: resolves to the turn, or to `None` when the client shuts down. Dropping it
/// leaves the line at once.
pub(crate) struct Ticket<H> {
    gates: Arc<Gates<H>>,
    target: Arc<Target>,
    /// Empty once the turn has come.
    number: Option<u64>,
    turn: oneshot::Receiver<Turn<H>>,
}

impl<H> Ticket<H> {
    pub(super) fn new(
        gates: Arc<Gates<H>>,
        target: Arc<Target>,
        number: u64,
        turn: oneshot::Receiver<Turn<H>>,
    ) -> Self {
        Self { gates, target, number: Some(number), turn }
    }
}

impl<H> Future for Ticket<H> {
    type Output = Option<Turn<H>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let turn = ready!(Pin::new(&mut self.turn).poll(cx));
        self.number = None;
        Poll::Ready(turn.ok())
    }
}

impl<H> Drop for Ticket<H> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let left = {
            let mut shard = self.gates.shard(&self.target);
            shard.gates.get_mut(&*self.target).and_then(|gate| gate.line.remove(&number))
        };
        if left.is_some() {
            self.gates.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // Otherwise the turn is on its way and comes back with `self.turn` (invariant 2).
    }
}
