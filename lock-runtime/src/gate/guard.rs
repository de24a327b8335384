//! The right to be inside a gate, or the rest of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::waiter::{Kept, Turn, Waiter};
use super::{Gate, GateState, Gates, OthersFirst, Queued, StoreAnswer, TokensUsed};
use crate::error::StoreError;
use crate::options::Lease;
use crate::store::{OwnerId, Target};

/// Identifies a gate guard to its gate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GuardId {
    /// Registered with no gate.
    Apart,
    Queued(u64),
    Unqueued(u64),
}

/// The right to be inside a gate. Dropping it admits the next waiter, if it is valid (invariant 5).
pub(crate) struct GateGuard<H> {
    /// Empty once the gate guard has been passed on, or if there is no gate around it.
    pub(super) inside: Option<(Arc<Gates<H>>, Arc<Target>)>,
    pub(super) number: u64,
    /// The place of its contender in the queue, or the one it would have had.
    place: u64,
    /// True for an unqueued contender.
    pub(super) is_unqueued: bool,
    /// True once others are admitted although the hold goes on.
    pub(super) outside: bool,
}

impl<H> GateGuard<H> {
    pub(super) fn new(gates: Arc<Gates<H>>, target: Arc<Target>, number: u64, place: u64) -> Self {
        Self { inside: Some((gates, target)), number, place, is_unqueued: false, outside: false }
    }

    /// The guard of an unqueued contender.
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

    /// The gate, and the number of this guard there, for [`admit_behind`](Gates::admit_behind).
    pub(crate) fn gates_and_number(&self) -> Option<(Arc<Gates<H>>, u64)> {
        let (gates, _) = self.inside.as_ref()?;
        Some((Arc::clone(gates), self.number))
    }

    /// Where its contender queues again if it is passed over.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// True if others were admitted since, because its contender was not polled.
    // S-34.
    pub(crate) fn is_passed_over(&self) -> bool {
        match self.is_unqueued {
            true => self.has_lost_place(),
            false => self.inside.is_some() && !self.outside && self.with(|_| ()).is_none(),
        }
    }

    /// Records the owner id with which its contender asks the store. If the contender is then passed over, what
    /// it was granted is released.
    // S-34.
    pub(crate) fn asks_as(&self, owner: &OwnerId) {
        self.with(|gate| gate.asking = owner.number());
    }

    /// Records that the store has granted the lock to this guard's task. False if the grant was given up meanwhile,
    /// because its contender was not polled: the hold then belongs to no task.
    pub(crate) fn granted(&self) -> bool {
        if self.is_unqueued {
            self.note_turn(true);
            return self.secure_place();
        }
        let listeners = self.with(|gate| {
            // What this owner has is a task's hold from here on, which ends as its options say. A waiter that passes over its
            // release must not end it sooner, before `at_least`.
            gate.asking = None;
            gate.note_answer(true)
        });
        let is_valid = listeners.is_some() || self.inside.is_none() || self.outside;
        send(listeners, &Ok(()));
        is_valid
    }

    /// Ends the wait of those that queued before `then`: they can share the hold, which is kept for them.
    pub(crate) fn share_before(&self, then: Instant, kept: &Kept) {
        self.end_waits(|waiter| waiter.since < then, || Turn::Shared(kept.clone()));
    }

    /// Removes these waiters from the queue and gives each the turn.
    fn end_waits(&self, which: impl Fn(&Waiter<H>) -> bool, turn: impl Fn() -> Turn<H>) {
        let chosen = |queued: &mut Queued<H>| which(&queued.waiter);
        let taken = self
            .with(|gate| gate.queue.extract_if(.., |_, queued| chosen(queued)).collect::<Vec<_>>());
        let (Some(taken), Some((gates, _))) = (taken, &self.inside) else { return };
        gates.waiting.fetch_sub(taken.len(), Ordering::Relaxed);
        for (_, queued) in taken {
            queued.waiter.give(turn());
        }
    }

    /// How many fencing tokens to reserve: as many as the queue can use. Readers with which a writer takes turns wait in
    /// another queue; `readers_wait` counts them as one.
    // S-23.
    pub(crate) fn tokens_wanted(&self, readers_wait: bool) -> u32 {
        self.with(|gate| gate.tokens.wanted(gate.queue.len().max(usize::from(readers_wait))))
            .unwrap_or(1)
    }

    /// True if others wait in the queue.
    pub(crate) fn has_queue(&self) -> bool {
        self.with(|gate| !gate.queue.is_empty()).unwrap_or(false)
    }

    /// Since when the store has been failing, for earlier contenders too.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.with(|gate| gate.failing().map(|(since, _)| *since)).flatten()
    }

    /// Records that the store has answered, without granting the lock to this guard's task. True if a release had woken
    /// the task to ask.
    pub(crate) fn refused(&self) -> bool {
        if self.is_unqueued {
            return self.note_turn(false);
        }
        send(self.with(|gate| gate.note_answer(false)), &Ok(()));
        false
    }

    /// Records the holder's lease as the store reported it, for the waiters in the queue.
    pub(crate) fn note_holder(&self, remaining: Option<Duration>) {
        let ends = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        self.with(|gate| gate.told().holder_ends = ends);
    }

    /// What is left of the holder's lease by the store's last answer to an earlier contender, if the store has not
    /// failed since.
    pub(crate) fn holder_remaining(&self) -> Option<Duration> {
        let ends = |gate: &mut Gate<H>| {
            gate.told.as_ref().filter(|told| told.failing.is_none())?.holder_ends
        };
        let ends = self.with(ends).flatten()?;
        Some(ends.saturating_duration_since(Instant::now()))
    }

    /// Reports the store's failure to callers that do not wait.
    pub(crate) fn report_failure(&self, error: &StoreError) {
        let listeners = self.with(|gate| gate.told().answers.take_listeners());
        send(listeners, &Err(error.clone()));
    }

    /// Resolves when a caller that does not wait needs the store asked; at once if one already does. For an unqueued
    /// contender, when its turn has probably come.
    pub(crate) fn asked_for(&self) -> Option<oneshot::Receiver<()>> {
        if self.is_unqueued {
            return self.sleeps_unqueued();
        }
        self.with(|gate| gate.told().answers.sleep())
    }

    /// Records that the store has failed a request sent at `asked_at`, and ends the wait of every waiter in the
    /// queue that has tolerated failures for `patience`: the patience of each runs at the same time, not one
    /// after the other.
    // S-33.
    pub(crate) fn failed(&self, error: &StoreError, asked_at: Instant, patience: Duration) {
        let now = Instant::now();
        let since = self.with(|gate| {
            let failing = &mut gate.told().failing;
            let since = failing.take().map_or(asked_at, |(since, _)| since);
            *failing = Some((since, error.clone()));
            since
        });
        let Some(since) = since else { return };
        let overdue = |waiter: &Waiter<H>| now >= waiter.since.max(since) + patience;
        self.end_waits(overdue, || Turn::Failed(error.clone()));
    }

    /// When the head start of other processes after the last release of this one ends.
    pub(crate) fn head_start_end(&self) -> Option<Instant> {
        self.with(|gate| gate.others_first()?.head_start_end()).flatten()
    }

    /// Records turns of other processes. True if some have had none since the last hold of this one.
    pub(crate) fn note_turns_of_others(&self, turns: u32) -> bool {
        let note = |gate: &mut Gate<H>| {
            let others = gate.elsewhere.as_mut()?.others_first.as_mut()?;
            Some(others.note_turns(turns))
        };
        self.with(note).flatten().unwrap_or(false)
    }

    /// Tells newcomers that the hold is being released.
    pub(crate) fn leaving(&self) {
        self.with(|gate| {
            let held = gate.is_held();
            let since = (!gate.queue.is_empty()).then(Instant::now);
            gate.gate_guard = GateState::Leaving { held, since };
        });
    }

    /// Takes the first waiter out of the queue, if it wants exactly this lease and no more replicas. It has to be handed
    /// this guard.
    pub(crate) fn next_holder(&self, lease: Lease, replicas: u32) -> Option<NextHolder<H>> {
        let waiter = self.with(|gate| gate.pop_if(lease, replicas)).flatten()?;
        if let Some((gates, _)) = &self.inside {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        Some(NextHolder(waiter))
    }

    /// Leaves after the first attempt to release a hold that used these tokens. `others` is how many processes were
    /// notified, if the store has answered: they may go first.
    // S-14.
    pub(crate) fn leave(mut self, used: &TokensUsed, others: Option<u32>) {
        let others_first = others.filter(|others| *others > 0).map(OthersFirst::from_now);
        if self.outside {
            if let (Some((gates, target)), Some(_)) = (&self.inside, others_first)
                && target.is_shared()
            {
                // Several hold a semaphore at a time, so a release does not say whose turn it is.
                gates.let_others_first(target, OthersFirst::from_now(0));
            }
            return;
        }
        self.pass_after(|gate| {
            gate.tokens.settle(used);
            if gate.elsewhere.is_some() || others_first.is_some() {
                gate.elsewhere().others_first = others_first;
            }
            others.map(|_| gate.note_last_answer())
        });
    }

    /// Admits the next waiter at once. The returned guard can [leave](Self::leave) later.
    pub(crate) fn step_out(mut self) -> Self {
        let inside = self.inside.clone();
        self.pass();
        Self { inside, outside: true, ..Self::apart() }
    }

    fn pass(&mut self) {
        self.pass_after(|_| None);
    }

    /// Admits the next waiter, after a last change of the gate, and sends the store's answer to what that returns.
    fn pass_after(
        &mut self,
        change: impl FnOnce(&mut Gate<H>) -> Option<Vec<oneshot::Sender<StoreAnswer>>>,
    ) {
        let Some((gates, target)) = self.inside.take() else { return };
        if self.outside {
            return;
        }
        if self.is_unqueued {
            return gates.leave_unqueued(&target, self.number);
        }
        // Callers that wait for an answer ask themselves once the gate guard is free. They are dropped after
        // the unlock.
        let (next, answered, _told) = {
            let mut shard = gates.shard(&target);
            let shard = &mut *shard;
            let gate =
                shard.gates.get_mut(&*target).filter(|gate| gate.guard_number == self.number);
            let Some(gate) = gate else { return };
            let answered = change(gate);
            // With a number of its own: this guard may be another one of the same place.
            let next = gate.pop(false).map(|next| {
                shard.last_number += 1;
                gate.guard_number = shard.last_number;
                (next, shard.last_number)
            });
            // How the store failed this contender says nothing about a later one.
            let told = if next.is_none() { gate.told.take() } else { None };
            if next.is_none() {
                gate.gate_guard = GateState::Free;
                gate.guard_number = 0;
                let others_first = gate.others_first().filter(|it| !it.is_over(Instant::now()));
                // Unqueued contenders are counted there.
                if others_first.is_none() && gate.unqueued() == 0 {
                    shard.gates.remove(&*target);
                }
            }
            (next, answered, told)
        };
        if let Some((waiter, number)) = next {
            gates.waiting.fetch_sub(1, Ordering::Relaxed);
            let gate_guard = Self::new(gates, target, number, waiter.number);
            // Refused by a waiter that has just gone: dropping the gate guard admits the next one.
            waiter.give(Turn::Contend(gate_guard));
        }
        // Last: these wakers may panic, and the waiter has left the queue, so only this call can give it its turn.
        send(answered, &Ok(()));
    }

    fn with<T>(&self, f: impl FnOnce(&mut Gate<H>) -> T) -> Option<T> {
        let (gates, target) =
            self.inside.as_ref().filter(|_| !self.is_unqueued && !self.outside)?;
        let mut shard = gates.shard(target);
        let gate = shard.gates.get_mut(&**target).filter(|gate| gate.guard_number == self.number);
        gate.map(f)
    }
}

/// A waiter whose turn has come with a hold.
#[must_use = "it waits for the hold"]
pub(crate) struct NextHolder<H>(Arc<Waiter<H>>);

impl<H> NextHolder<H> {
    /// Hands it the hold, with the gate guard in it. If the waiter has just gone, the payload is dropped here and finds the
    /// next waiter (invariant 2), as a guard does.
    pub(crate) fn hand(self, payload: Arc<H>) {
        self.0.give(Turn::Handed(payload));
    }
}

impl<H> Gates<H> {
    /// Makes the gate guard of that number void, and admits the waiter behind it.
    pub(crate) fn admit_behind(self: Arc<Self>, target: &Arc<Target>, number: u64) {
        drop(GateGuard::new(self, Arc::clone(target), number, number));
    }
}

fn send(listeners: Option<Vec<oneshot::Sender<StoreAnswer>>>, answer: &StoreAnswer) {
    let Some(listeners) = listeners.filter(|listeners| !listeners.is_empty()) else { return };
    for listener in listeners {
        let _ = listener.send(answer.clone());
    }
}

impl<H> Drop for GateGuard<H> {
    fn drop(&mut self) {
        self.pass();
    }
}
