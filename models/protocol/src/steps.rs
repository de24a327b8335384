//! The steps, and which of them each client can take.

use crate::Protocol;
use crate::client::{Client, Held, Phase};
use crate::state::State;
use crate::terms::{Bug, ClientId, MOST_RENEWALS, Network, TIMEOUT};

/// A step. Those with a client are that client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Begins an acquire (`acquire/first.rs`).
    Begin(ClientId),
    /// A waiter asks again with the same owner: it was woken, or its nap is over (`acquire/contend`).
    // S-15, S-22.
    AskAgain(ClientId),
    /// A request had no answer in time: its outcome is unknown (`acquire/contend/refused.rs`).
    TimeOut(ClientId),
    /// The future of the acquire is dropped, or its wait is over (`acquire/attempt.rs`).
    // S-17, S-21.
    GiveUp(ClientId),
    /// The watchdog renews the hold (`lease/watchdog.rs`).
    // S-9, S-10.
    Renew(ClientId),
    /// The body is polled once: the deadline is checked, then the resource is changed (`guard/run.rs`).
    // S-13.
    Work(ClientId),
    /// The deadline is checked, and the process may be paused before the resource is changed.
    BeginStep(ClientId),
    /// The paused process goes on and changes the resource.
    EndStep(ClientId),
    /// The holder finds its deadline passed (`lease/mod.rs`, `check`).
    // S-12.
    Lose(ClientId),
    /// The guard is dropped (`owned_hold`).
    Release(ClientId),
    /// The releaser sends a release, or repeats it (`lease/releaser.rs`).
    SendRelease(ClientId, usize),
    /// The releaser abandons a release whose lease is over (`lease/releaser.rs`).
    Abandon(ClientId, usize),
    /// The client ends without a trace.
    Crash(ClientId),
    /// A message arrives.
    Deliver(usize),
    /// A message arrives, and will arrive once more.
    Duplicate(usize),
    /// A tick passes.
    Tick,
    /// The server's clock gets ahead of the clients' by a tick.
    RunAhead,
    /// The server restarts without its data, which takes a tick.
    Restart,
}

impl Protocol {
    /// The steps that this client can take.
    pub(crate) fn steps_of(
        &self,
        state: &State,
        id: ClientId,
        client: &Client,
        steps: &mut Vec<Step>,
    ) {
        let now = state.now;
        match client.phase {
            Phase::Crashed => return,
            Phase::Idle => {
                let may_begin = client.begun < self.acquires[usize::from(id)]
                    && client.may_begin(self.kind)
                    && !self.has_same_before(state, id);
                if may_begin {
                    steps.push(Step::Begin(id));
                }
            }
            Phase::Asking { sent_at, .. } => {
                if now >= sent_at + TIMEOUT {
                    steps.push(Step::TimeOut(id));
                }
                steps.push(Step::GiveUp(id));
            }
            Phase::Waiting { asked_at, .. } => {
                if client.is_woken || now > asked_at {
                    steps.push(Step::AskAgain(id));
                }
                steps.push(Step::GiveUp(id));
            }
            Phase::Holding(held) => self.steps_of_holder(state, id, held, steps),
        }
        for (index, job) in client.jobs.iter().enumerate() {
            // A message that is never lost needs no repetition.
            let is_lossy = self.network == Network::Timely;
            if job.is_due(now) && (is_lossy || job.sent_at.is_none()) {
                steps.push(Step::SendRelease(id, index));
            }
            if now >= job.until {
                steps.push(Step::Abandon(id, index));
            }
        }
        let may_leave_something = client.owner().is_some() || !client.jobs.is_empty();
        if state.left.crashes > 0 && may_leave_something {
            steps.push(Step::Crash(id));
        }
    }

    /// True if the client has done nothing and another one like it comes before: which of them begins is the same.
    fn has_same_before(&self, state: &State, id: ClientId) -> bool {
        let id = usize::from(id);
        let is_new = |client: &Client| client.begun == 0;
        let is_same = |other: &usize| self.acquires[*other] == self.acquires[id];
        is_new(&state.clients[id])
            && (0..id).filter(is_same).any(|other| is_new(&state.clients[other]))
    }

    fn steps_of_holder(&self, state: &State, id: ClientId, held: Held, steps: &mut Vec<Step>) {
        let is_valid = state.now < held.deadline;
        let under_way = state.messages.renewals_of(held.owner);
        if is_valid && state.now > held.renewed_at && under_way < MOST_RENEWALS {
            steps.push(Step::Renew(id));
        }
        if held.is_in_step {
            steps.push(Step::EndStep(id));
            return;
        }
        let has_effect = self.effects && state.seen != held.token;
        if has_effect && (is_valid || self.has(Bug::NoCheckAtPoll)) {
            steps.push(Step::Work(id));
        }
        if has_effect && is_valid && state.left.pauses > 0 {
            steps.push(Step::BeginStep(id));
        }
        steps.push(if is_valid { Step::Release(id) } else { Step::Lose(id) });
    }
}
