//! What a task holds of a gate: the place inside, what is left of it, a place in line.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Gate, Gates, MAX_TOKEN_BLOCK, SeatState, Turn, Waiter};
use crate::error::StoreError;
use crate::options::Lease;
use crate::store::Target;

/// The place inside a gate. Dropping it lets the next in line in.
pub(crate) struct Seat<H> {
    /// Empty once the seat has been passed on, or if there is no gate around it.
    pub(super) inside: Option<(Arc<Gates<H>>, Arc<Target>)>,
    /// True for one of several contenders side by side.
    pub(super) beside: bool,
}

impl<H> Seat<H> {
    /// A seat at no gate: what it is good for concerns nobody else.
    pub(crate) fn apart() -> Self {
        Self { inside: None, beside: false }
    }

    /// Leaves, and keeps the way to [`leave`](Vacated::leave) once more when the hold ends.
    pub(crate) fn vacate(mut self) -> Option<Vacated<H>> {
        // Whoever lines up in the store needs no head start.
        let inside = self.inside.clone().filter(|_| !self.beside);
        self.pass(None);
        inside.map(|(gates, target)| Vacated { gates, target })
    }

    /// Ends the line behind a hold that can be shared: everybody in it is told to share it.
    pub(crate) fn share(&self) {
        let Some(line) = self.with(|gate| std::mem::take(&mut gate.line)) else { return };
        if let Some((gates, _)) = &self.inside {
            gates.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        }
        for (_, waiter) in line {
            let _ = waiter.turn.send(Turn::Shared);
        }
    }

    /// How many fencing tokens to reserve: what the line can use (S-23).
    ///
    /// The line's length alone says too little when the same tasks come back at once, so a gate
    /// whose last holds were handed on more often gets twice that.
    pub(crate) fn tokens_wanted(&self) -> u32 {
        self.with(|gate| {
            let line = u32::try_from(gate.line.len()).unwrap_or(MAX_TOKEN_BLOCK);
            if line == 0 {
                return 1;
            }
            line.max(gate.appetite.saturating_mul(2)).saturating_add(1).min(MAX_TOKEN_BLOCK)
        })
        .unwrap_or(1)
    }

    /// Since when the store has been failing, also for those who had the seat before.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.with(|gate| gate.failing.as_ref().map(|(since, _)| *since)).flatten()
    }

    /// Notes that the store has answered.
    pub(crate) fn answered(&self) {
        self.with(|gate| gate.failing = None);
    }

    /// Notes that the store has failed, and ends the wait of everybody in line who has put up with
    /// that for `patience`: each has its own, not one after the other (S-33).
    pub(crate) fn failed(&self, error: &StoreError, patience: Duration) {
        let now = Instant::now();
        let overdue = self.with(|gate| {
            let since = gate.failing.take().map_or(now, |(since, _)| since);
            gate.failing = Some((since, error.clone()));
            let overdue =
                |_: &u64, waiter: &mut Waiter<H>| now >= waiter.since.max(since) + patience;
            gate.line.extract_if(.., overdue).map(|(_, waiter)| waiter).collect::<Vec<_>>()
        });
        let (Some(overdue), Some((gates, _))) = (overdue, &self.inside) else { return };
        gates.waiting.fetch_sub(overdue.len(), Ordering::Relaxed);
        for waiter in overdue {
            let _ = waiter.turn.send(Turn::Failed(error.clone()));
        }
    }

    /// Notes how many hand-offs a hold came to.
    pub(crate) fn note_handoffs(&self, handoffs: u32) {
        self.with(|gate| gate.appetite = handoffs);
    }

    /// Until when other processes may go first; asked once.
    pub(crate) fn take_others_first(&self) -> Option<Instant> {
        self.with(|gate| gate.others_first.take()).flatten().filter(|until| *until > Instant::now())
    }

    /// Tells newcomers that the hold is being given back.
    pub(crate) fn leaving(&self) {
        self.with(|gate| gate.seat = SeatState::Leaving);
    }

    /// Gives the seat to the first in line who wants just this lease, with what `make` makes of it.
    ///
    /// # Errors
    ///
    /// The seat, if nobody is in line or the first wants another lease.
    pub(crate) fn hand_off(self, lease: Lease, make: impl FnOnce(Self) -> H) -> Result<(), Self> {
        let Some(waiter) = self.with(|gate| gate.pop_if(lease)).flatten() else {
            return Err(self);
        };
        if let Some((gates, _)) = &self.inside {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // If the waiter has just gone, the payload is dropped here and finds the next one
        // (invariant 2), as a guard does.
        let _ = waiter.turn.send(Turn::Handed(make(self)));
        Ok(())
    }

    /// Leaves. `others_first` gives other processes that long before this one contends again.
    pub(crate) fn leave(mut self, others_first: Option<Duration>) {
        self.pass(others_first.map(|head_start| Instant::now() + head_start));
    }

    fn pass(&mut self, others_first: Option<Instant>) {
        let Some((gates, target)) = self.inside.take() else { return };
        if self.beside {
            return gates.leave_beside(&target);
        }
        let next = {
            let mut shard = gates.shard(&target);
            let Some(gate) = shard.gates.get_mut(&*target) else { return };
            gate.others_first = others_first;
            let next = gate.line.pop_first();
            gate.seat = if next.is_some() { SeatState::Taken } else { SeatState::Free };
            if next.is_none() && others_first.is_none() {
                shard.gates.remove(&*target);
            }
            next
        };
        if let Some((_, waiter)) = next {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
            let seat = Self { inside: Some((gates, target)), beside: false };
            // Refused by a waiter who has just gone: dropping the seat lets the next one in.
            let _ = waiter.turn.send(Turn::Contend(seat));
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Gate<H>) -> T) -> Option<T> {
        let (gates, target) = self.inside.as_ref().filter(|_| !self.beside)?;
        gates.shard(target).gates.get_mut(&**target).map(f)
    }
}

impl<H> Drop for Seat<H> {
    fn drop(&mut self) {
        self.pass(None);
    }
}

impl<H> fmt::Debug for Seat<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

/// What is left of a seat whose holder does not keep the next in line waiting.
pub(crate) struct Vacated<H> {
    gates: Arc<Gates<H>>,
    target: Arc<Target>,
}

impl<H> Vacated<H> {
    /// Gives other processes that long before anybody of this one contends again.
    pub(crate) fn leave(self, others_first: Duration) {
        self.gates.others_first(&self.target, Instant::now() + others_first);
    }
}

/// A place in line: resolves to the turn, or to `None` when the client shuts down. Dropping it
/// leaves the line at once.
pub(crate) struct Ticket<H> {
    pub(super) gates: Arc<Gates<H>>,
    pub(super) target: Arc<Target>,
    /// Empty once the turn has come.
    pub(super) number: Option<u64>,
    pub(super) turn: oneshot::Receiver<Turn<H>>,
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
