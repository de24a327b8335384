//! What happens from a state on when nothing fails any more: a check of progress.
//!
//! Stateright's `eventually` misses paths that end in a cycle, and says nothing about when. So a property of each state
//! runs one continuation by hand: what is on its way is lost, and from then on each live client takes its next step at
//! once, holders release, and messages arrive.

use crate::Protocol;
use crate::client::Phase;
use crate::state::State;
use crate::steps::Step;
use crate::terms::{ClientId, Faults, LEASE, MARGIN};

/// Ticks in which every waiter is granted the lock: the lease of a holder that crashed, or the waiter lease of those
/// that did, and a tick until the next waiter asks. The clocks may differ by the margin.
const BOUND: u8 = LEASE + MARGIN + 1;

/// True if every client that is in an acquire is granted the lock within the bound.
pub fn is_quick(protocol: &Protocol, state: &State) -> bool {
    let mut state = state.clone();
    state.messages.clear();
    state.left = Faults::default();
    let clients = (0..).zip(&state.clients);
    let mut waiting: Vec<ClientId> =
        clients.filter(|(_, client)| client.is_acquiring()).map(|(id, _)| id).collect();
    for _ in 0..=BOUND {
        go_on(protocol, &mut state, &mut waiting);
        if waiting.is_empty() {
            return true;
        }
        protocol.take(&mut state, Step::Tick);
    }
    false
}

/// Takes steps until only time can change anything.
fn go_on(protocol: &Protocol, state: &mut State, waiting: &mut Vec<ClientId>) {
    loop {
        let mut has_moved = false;
        for id in (0..).take(state.clients.len()) {
            while let Some(step) = next_step(state, id) {
                protocol.take(state, step);
                has_moved = true;
                while !state.messages.is_empty() {
                    protocol.take(state, Step::Deliver(0));
                }
                waiting.retain(|id| state.client(*id).held().is_none());
            }
        }
        if !has_moved {
            return;
        }
    }
}

/// What this client does next.
fn next_step(state: &State, id: ClientId) -> Option<Step> {
    let client = &state.clients[usize::from(id)];
    if let Some(index) = client.jobs.iter().position(|job| job.is_due(state.now)) {
        return Some(Step::SendRelease(id, index));
    }
    match client.phase {
        Phase::Asking { sent_at, .. } if sent_at < state.now => Some(Step::TimeOut(id)),
        Phase::Waiting { asked_at, .. } if client.is_woken || asked_at < state.now => {
            Some(Step::AskAgain(id))
        }
        Phase::Holding(held) if held.is_in_step => Some(Step::EndStep(id)),
        Phase::Holding(held) if state.now < held.deadline => Some(Step::Release(id)),
        Phase::Holding(_) => Some(Step::Lose(id)),
        _ => None,
    }
}
