//! The gate's side of [liveness](crate::liveness): passing over contenders and waiters that are not polled.
//!
//! A waiter checks the gate with its own sign of life. It passes over a waiter whose turn has come and a contender, if
//! they were not polled for [`ASLEEP_AFTER`], and a release that takes longer than that, however often it is polled.
//!
//! A turn that was not used is taken back. A gate guard that is in use becomes void and the next waiter gets a
//! new one: the store keeps holders apart, so two contenders of one process cost one request and nothing else.
// S-34.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::waiter::{TakenBack, Waiter};
use super::{Gate, GateState, Gates, Given, GuardId, Ticket, Turn};
#[cfg(doc)]
use crate::liveness::ASLEEP_AFTER;
use crate::liveness::is_asleep;
use crate::store::{HoldNumber, Target};

impl<H> Gates<H> {
    /// Records a sign of life of the contender with that gate guard. False if it was passed over.
    pub(crate) fn is_contending(&self, target: &Target, guard: GuardId, now: Instant) -> bool {
        match guard {
            GuardId::Apart => true,
            GuardId::Unqueued(number) => self.contends_unqueued(target, number, now),
            GuardId::Queued(number) => self.contends(target, number, now),
        }
    }

    /// Records a contender's sign of life. False if its gate guard is not valid any more.
    fn contends(&self, target: &Target, gate_guard: u64, now: Instant) -> bool {
        let mut shard = self.shard(target);
        let gate = shard.gates.get_mut(target).filter(|gate| gate.guard_number == gate_guard);
        let Some(gate) = gate else { return false };
        if !matches!(gate.gate_guard, GateState::Leaving { .. }) {
            gate.gate_guard = GateState::Contending { polled_at: now };
        }
        true
    }
}

impl<H> Ticket<H> {
    /// Records a waiter's sign of life, and checks the tasks before it. Returns the owner with which a
    /// contender that it passed over may have been granted the lock.
    #[must_use = "release the hold that this owner may have been granted"]
    pub(crate) fn look(&self) -> Option<HoldNumber> {
        let Self { gates, target, waiter, .. } = self;
        let now = Instant::now();
        // Dropped after the unlock (invariant 4).
        let mut taken_from = None;
        let passed_over = {
            let mut shard = gates.shard(target);
            let comes_back = waiter.comes_back();
            if comes_back && gates.closed.load(Ordering::SeqCst) {
                drop(shard);
                waiter.give(Turn::Closed);
                return None;
            }
            let number = shard.next_number();
            if comes_back && shard.gates.get(&**target).is_none_or(Gate::is_free) {
                shard.create_guard(target, number);
                drop(shard);
                waiter.give(Turn::Contend(gates.gate_guard(target, number, waiter.number)));
                return None;
            }
            let gate = shard.gates.get_mut(&**target)?;
            if comes_back {
                gates.enqueue(gate, waiter, now);
            } else if let Some(queued) = gate.queue.get_mut(&waiter.number) {
                queued.polled_at = now;
            } else {
                // Its turn is on the way.
                return None;
            }
            let passed_over = match gate.pass_over(now, &mut taken_from)? {
                PassedOver::Waiter(turn) => (turn, None),
                PassedOver::GateGuard => {
                    let asked = gate.asking.take();
                    gate.take(number);
                    (Turn::Contend(gates.gate_guard(target, number, number)), asked)
                }
            };
            let asleep = gate.pass_over_queue(now);
            gates.waiting.fetch_sub(asleep, Ordering::Relaxed);
            passed_over
        };
        let (turn, asked) = passed_over;
        // Admits the next waiter, or first releases the hold that comes with the turn (invariant 2).
        drop(turn);
        asked
    }
}

/// The task that was passed over.
enum PassedOver<H> {
    Waiter(Turn<H>),
    GateGuard,
}

impl<H> Gate<H> {
    /// Takes the turn or the gate guard from a task that is not polled. `taken_from` is the waiter whose turn it was.
    fn pass_over(
        &mut self,
        now: Instant,
        taken_from: &mut Option<Arc<Waiter<H>>>,
    ) -> Option<PassedOver<H>> {
        match &mut self.gate_guard {
            GateState::Given(Given { to, held, polled_at }) if is_asleep(*polled_at, now) => {
                let taken = if *held { GateState::Holding } else { GateState::Taken };
                *taken_from = to.upgrade();
                match taken_from.as_ref().map_or(TakenBack::Over, |waiter| waiter.take_back()) {
                    TakenBack::Turn(turn) => return Some(PassedOver::Waiter(turn)),
                    TakenBack::NotYet => {}
                    TakenBack::Over => self.gate_guard = taken,
                }
                None
            }
            GateState::Contending { polled_at } if is_asleep(*polled_at, now) => {
                Some(PassedOver::GateGuard)
            }
            GateState::Leaving { since, .. } => {
                is_asleep(*since.get_or_insert(now), now).then_some(PassedOver::GateGuard)
            }
            _ => None,
        }
    }

    /// Removes from the queue the waiters that are not polled and whose turn would come next, and returns their
    /// number. The waiter that checks is polled.
    fn pass_over_queue(&mut self, now: Instant) -> usize {
        let mut count = 0;
        while let Some(first) = self.queue.first_entry()
            && is_asleep(first.get().polled_at, now)
        {
            first.remove().waiter.pass_over();
            count += 1;
        }
        count
    }
}
