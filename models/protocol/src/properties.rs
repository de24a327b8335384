//! What must hold in every state, and what must be reachable.

use stateright::Property;

use crate::Protocol;
use crate::client::{Client, Phase};
use crate::recovery;
use crate::state::{State, Wrong};
use crate::terms::{Kind, LONGEST_DELAY, Network, Owner, Tick};

/// Names of the properties.
pub mod names {
    /// No two clients may act at once.
    pub const ONE_HOLDER: &str = "one holder";
    /// Tokens grow.
    pub const TOKENS_GROW: &str = "tokens grow";
    /// Only the owner changes its hold.
    pub const ONLY_OWNER: &str = "only the owner renews and releases";
    /// A renewal creates nothing.
    pub const NO_CREATION: &str = "a renewal creates no lock";
    /// Every lock has an expiry.
    pub const EXPIRES: &str = "a lock has an expiry";
    /// No holder has an effect after a later holder had one.
    pub const IN_ORDER: &str = "effects are in the order of tokens";
    /// No live waiter of a fair lock is overtaken.
    pub const FIRST_IN: &str = "the first live waiter is granted a fair lock";
    /// A release wakes a waiter.
    pub const WOKEN: &str = "a release wakes a waiter";
    /// Waiters are granted the lock once nothing fails.
    pub const PROGRESS: &str = "waiters are granted the lock soon after the last fault";
    /// A client that is done with an owner id has nothing left on the server.
    pub const CLEAN: &str = "a client leaves nothing behind";
    /// Reachable if the server may lose its data.
    pub const TWO_HOLDERS: &str = "two holders after a loss of data";
    /// Reachable if a process may be paused after the check of its deadline.
    pub const LATE_EFFECT: &str = "a late effect, which a fence refuses";
}

impl Protocol {
    /// The properties of this run.
    pub fn expected(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(names::TOKENS_GROW, |_, state| {
                lacks(state, Wrong::TOKEN_FELL)
            }),
            Property::<Self>::always(names::ONLY_OWNER, |_, state| lacks(state, Wrong::STRANGER)),
            Property::<Self>::always(names::NO_CREATION, |_, state| lacks(state, Wrong::CREATED)),
            Property::<Self>::always(names::EXPIRES, |_, state| {
                state.server.hold.is_none_or(|hold| hold.ends.is_some())
            }),
            Property::<Self>::always(names::FIRST_IN, |_, state| lacks(state, Wrong::OVERTAKEN)),
            Property::<Self>::always(names::WOKEN, |protocol, state| {
                let is_fair = protocol.kind == Kind::Fair;
                lacks(state, Wrong::NOT_NOTIFIED) && (is_fair || no_sleeper_is_forgotten(state))
            }),
            Property::<Self>::always(names::PROGRESS, recovery::is_quick),
        ];
        properties.push(match self.faults.restarts {
            0 => Property::<Self>::always(names::ONE_HOLDER, |_, state| state.holders() <= 1),
            _ => Property::<Self>::sometimes(names::TWO_HOLDERS, |_, state| state.holders() > 1),
        });
        if self.faults.pauses > 0 {
            properties.push(Property::<Self>::sometimes(names::LATE_EFFECT, |_, state| {
                !lacks(state, Wrong::LATE_EFFECT)
            }));
        } else if self.faults.restarts == 0 {
            properties.push(Property::<Self>::always(names::IN_ORDER, |_, state| {
                lacks(state, Wrong::LATE_EFFECT)
            }));
        }
        if self.network == Network::Timely {
            properties.push(Property::<Self>::always(names::CLEAN, nothing_is_left));
        }
        properties
    }
}

fn lacks(state: &State, flag: Wrong) -> bool {
    !state.wrong.has(flag)
}

/// A waiter for a mutex that was refused and sleeps has been woken if the lock was released since.
// S-15. Of a fair lock's waiters only the first is woken.
fn no_sleeper_is_forgotten(state: &State) -> bool {
    let sleeps = |client: &Client| {
        matches!(client.phase, Phase::Waiting { is_known: true, .. }) && !client.is_woken
    };
    !(state.server.was_released && state.clients.iter().any(sleeps))
}

/// A live client that is done with an owner id has neither a hold nor a place under it, but for what ends by itself
/// within a delay: the releaser counts the lease from when the acquire was dropped, and the server may have received the
/// acquire later.
// S-17, S-20, S-21.
fn nothing_is_left(_: &Protocol, state: &State) -> bool {
    let hold = state.server.hold.map(|hold| (hold.owner, hold.ends.unwrap_or(Tick::MAX)));
    let places = state.server.queue.iter().map(|place| (place.owner, place.ends));
    let is_known = |owner: Owner| {
        let client = &state.clients[usize::from(owner.client)];
        client.phase == Phase::Crashed || client.knows(owner) || state.messages.has_request(owner)
    };
    let ends = |at: Tick| at <= state.now + LONGEST_DELAY;
    hold.into_iter().chain(places).all(|(owner, end)| ends(end) || is_known(owner))
}
