//! The place inside a gate, or what is left of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::waiter::{Turn, Waiter};
use super::{Gate, GateState, Gates, MAX_TOKEN_BLOCK, OthersFirst, Word};
use crate::error::StoreError;
use crate::options::Lease;
use crate::store::{OwnerId, Target};

/// Names a gate guard to its gate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GuardId {
    /// Registered with no gate.
    Apart,
    Queued(u64),
    Unqueued(u64),
}

/// The place inside a gate. Dropping it lets the next in line in, if it is valid (invariant 5).
pub(crate) struct GateGuard<H> {
    /// Empty once the gate guard has been passed on, or if there is no gate around it.
    pub(super) inside: Option<(Arc<Gates<H>>, Arc<Target>)>,
    pub(super) number: u64,
    /// Where its contender stood in line, or would have stood.
    place: u64,
    /// True for one of several contenders side by side.
    pub(super) is_unqueued: bool,
    /// True once others are let in although the hold goes on.
    pub(super) outside: bool,
}

impl<H> GateGuard<H> {
    pub(super) fn new(gates: Arc<Gates<H>>, target: Arc<Target>, number: u64, place: u64) -> Self {
        Self { inside: Some((gates, target)), number, place, is_unqueued: false, outside: false }
    }

    /// One of several side by side.
    pub(super) fn unqueued(gates: Arc<Gates<H>>, target: Arc<Target>, number: u64) -> Self {
        let inside = Some((gates, target));
        Self { inside, number, place: number, is_unqueued: true, outside: false }
    }

    /// A gate guard that is registered with no gate.
    pub(crate) fn apart() -> Self {
        Self { inside: None, number: 0, place: 0, is_unqueued: false, outside: false }
    }

    pub(crate) fn id(&self) -> GuardId {
        match (&self.inside, self.is_unqueued) {
            (None, _) => GuardId::Apart,
            (Some(_), true) => GuardId::Unqueued(self.number),
            (Some(_), false) => GuardId::Queued(self.number),
        }
    }

    /// Where its contender lines up again if it is passed over.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// True if others have gone on since, because its contender was not polled.
    // S-34.
    pub(crate) fn is_passed_over(&self) -> bool {
        match self.is_unqueued {
            true => self.has_lost_place(),
            false => self.inside.is_some() && !self.outside && self.with(|_| ()).is_none(),
        }
    }

    /// Notes as whom its contender asks the store. If that is then not polled and passed over, what it was
    /// granted is given back.
    // S-34.
    pub(crate) fn asks_as(&self, owner: &OwnerId) {
        self.with(|gate| gate.asking = Some(owner.clone()));
    }

    /// False if the grant was given up meanwhile, because its contender was not polled: the hold then
    /// belongs to no task.
    pub(crate) fn secures_grant(&self) -> bool {
        match self.is_unqueued {
            true => self.secure_place(),
            false => !self.is_passed_over(),
        }
    }

    /// Tells those who were in line before `then` that what they wait for has come, for all of them.
    pub(crate) fn share_before(&self, then: Instant) {
        self.end_line(|waiter| waiter.since < then, || Turn::Shared);
    }

    /// Takes these out of the line and tells each why.
    fn end_line(&self, which: impl Fn(&Waiter<H>) -> bool, turn: impl Fn() -> Turn<H>) {
        let taken = self
            .with(|gate| gate.line.extract_if(.., |_, one| which(&one.waiter)).collect::<Vec<_>>());
        let (Some(taken), Some((gates, _))) = (taken, &self.inside) else { return };
        gates.waiting.fetch_sub(taken.len(), Ordering::Relaxed);
        for (_, in_line) in taken {
            in_line.waiter.give(turn());
        }
    }

    /// How many fencing tokens to reserve: what the line can use.
    ///
    /// The line's length alone says too little when the same tasks come back at once, so a gate
    /// whose last holds were handed on more often gets twice that.
    // S-23.
    pub(crate) fn tokens_wanted(&self) -> u32 {
        self.with(|gate| {
            let line = u32::try_from(gate.line.len()).unwrap_or(MAX_TOKEN_BLOCK);
            if line == 0 {
                return 1;
            }
            line.max(gate.recent_handoffs.saturating_mul(2)).saturating_add(1).min(MAX_TOKEN_BLOCK)
        })
        .unwrap_or(1)
    }

    /// Since when the store has been failing, also for earlier contenders.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.with(|gate| gate.failing.as_ref().map(|(since, _)| *since)).flatten()
    }

    /// Notes that the store has answered, and that its answer `grants` the lock to this gate guard's task.
    pub(crate) fn answered(&self, grants: bool) {
        let listeners = self.with(|gate| {
            gate.failing = None;
            gate.holder_ends = None;
            if grants {
                gate.gate_guard = GateState::Holding;
            }
            gate.words.heard()
        });
        tell(listeners, &Ok(()));
    }

    /// Notes what the store has said of the holder's lease, for those in line.
    pub(crate) fn note_holder(&self, remaining: Option<Duration>) {
        let ends = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        self.with(|gate| gate.holder_ends = ends);
    }

    /// Tells callers that do not wait how the store has failed this gate guard's task.
    pub(crate) fn tell_failure(&self, error: &StoreError) {
        let listeners = self.with(|gate| gate.words.take_listeners());
        tell(listeners, &Err(error.clone()));
    }

    /// Resolves when a caller that does not wait wants the store asked; at once if one does already.
    pub(crate) fn asked_for(&self) -> Option<oneshot::Receiver<()>> {
        self.with(|gate| gate.words.sleep())
    }

    /// Notes that the store has failed what it was asked at `asked_at`, and ends the wait of everybody in line who has put up with
    /// that for `patience`: each has its own, not one after the other.
    // S-33.
    pub(crate) fn failed(&self, error: &StoreError, asked_at: Instant, patience: Duration) {
        let now = Instant::now();
        let since = self.with(|gate| {
            let since = gate.failing.take().map_or(asked_at, |(since, _)| since);
            gate.failing = Some((since, error.clone()));
            since
        });
        let Some(since) = since else { return };
        let overdue = |waiter: &Waiter<H>| now >= waiter.since.max(since) + patience;
        self.end_line(overdue, || Turn::Failed(error.clone()));
    }

    /// Notes how many hand-offs a hold came to.
    pub(crate) fn note_handoffs(&self, handoffs: u32) {
        self.with(|gate| gate.recent_handoffs = handoffs);
    }

    /// When the head start of other processes after the last release of this one ends.
    pub(crate) fn head_start_end(&self) -> Option<Instant> {
        self.with(|gate| gate.others_first?.head_start_end()).flatten()
    }

    /// Notes that other processes had so many turns. True if some have had none since the last hold of
    /// this one.
    pub(crate) fn note_turns_of_others(&self, turns: u32) -> bool {
        self.with(|gate| gate.others_first.as_mut().is_some_and(|others| others.note_turns(turns)))
            .unwrap_or(false)
    }

    /// Tells newcomers that the hold is being given back.
    pub(crate) fn leaving(&self) {
        self.with(|gate| {
            let held = gate.is_held();
            let since = (!gate.line.is_empty()).then(Instant::now);
            gate.gate_guard = GateState::Leaving { held, since };
        });
    }

    /// Hands over to the first waiter in line if it wants just this lease, with what `make` makes of it.
    ///
    /// # Errors
    ///
    /// The gate guard, if the line is empty or its first waiter wants another lease or more replicas.
    pub(crate) fn hand_off(
        self,
        lease: Lease,
        replicas: u32,
        make: impl FnOnce(Self) -> H,
    ) -> Result<(), Self> {
        let Some(waiter) = self.with(|gate| gate.pop_if(lease, replicas)).flatten() else {
            return Err(self);
        };
        if let Some((gates, _)) = &self.inside {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // If the waiter has just gone, the payload is dropped here and finds the next one
        // (invariant 2), as a guard does.
        waiter.give(Turn::Handed(make(self)));
        Ok(())
    }

    /// Leaves after a release that so many `others` heard of: they may go first.
    // S-14.
    pub(crate) fn leave(self, others: u32) {
        let others_first = (others > 0).then(|| OthersFirst::from_now(others));
        match (&self.inside, others_first) {
            (Some((gates, target)), Some(_)) if self.outside => {
                // Several hold a semaphore at a time, so a release does not say whose turn it is.
                gates.let_others_first(target, OthersFirst::from_now(0));
            }
            _ => drop(self.with(|gate| gate.others_first = others_first)),
        }
    }

    /// Lets the next in line in at once. What is left can [leave](Self::leave) later.
    pub(crate) fn step_out(mut self) -> Self {
        let inside = self.inside.clone();
        self.pass();
        Self { inside, outside: true, ..Self::apart() }
    }

    fn pass(&mut self) {
        let Some((gates, target)) = self.inside.take() else { return };
        if self.outside {
            return;
        }
        if self.is_unqueued {
            return gates.leave_beside(&target, self.number);
        }
        // Callers that listen for a word ask themselves once the gate guard is free. Dropped after the unlock.
        let (next, _listeners) = {
            let mut shard = gates.shard(&target);
            let gate = shard.gates.get_mut(&*target).filter(|gate| gate.seat_number == self.number);
            let Some(gate) = gate else { return };
            let next = gate.pop(false);
            let listeners = next.is_none().then(|| std::mem::take(&mut gate.words));
            if next.is_none() {
                gate.gate_guard = GateState::Free;
                gate.seat_number = 0;
                // How the store failed this contender says nothing to one that comes later.
                gate.failing = None;
                let others_first = gate.others_first.filter(|it| !it.is_over(Instant::now()));
                // Contenders side by side are counted there.
                if others_first.is_none() && gate.unqueued == 0 {
                    shard.gates.remove(&*target);
                }
            }
            (next, listeners)
        };
        if let Some(waiter) = next {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
            let gate_guard = Self::new(gates, target, self.number, waiter.number);
            // Refused by a waiter who has just gone: dropping the gate guard lets the next one in.
            waiter.give(Turn::Contend(gate_guard));
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Gate<H>) -> T) -> Option<T> {
        let (gates, target) =
            self.inside.as_ref().filter(|_| !self.is_unqueued && !self.outside)?;
        let mut shard = gates.shard(target);
        let gate = shard.gates.get_mut(&**target).filter(|gate| gate.seat_number == self.number);
        gate.map(f)
    }
}

fn tell(listeners: Option<Vec<oneshot::Sender<Word>>>, word: &Word) {
    for listener in listeners.into_iter().flatten() {
        let _ = listener.send(word.clone());
    }
}

impl<H> Drop for GateGuard<H> {
    fn drop(&mut self) {
        self.pass();
    }
}
