//! The mutex.

use lock_protocol_model::{Faults, Kind, Network, Protocol, Reached};

use crate::explore::{NONE, holds, run};

const FAIR_ALONE: &[u16] = &[Reached::SWEEP];
/// What takes longer than these runs last.
const NO_LOSS: &[u16] = &[
    Reached::SWEEP,
    Reached::EXPIRY,
    Reached::TOO_LATE,
    Reached::LOST_BY_DEADLINE,
    Reached::LOST_BY_ANSWER,
    Reached::RENEWED,
];

/// S-8, S-9, S-12, S-19, S-23: with a server whose clock is ahead.
#[test]
fn clocks_differ() {
    holds(run(Kind::Mutex, &[1, 1], 4, Faults { drift: 1, ..NONE }), FAIR_ALONE);
}

/// S-22: requests and answers arrive twice.
#[test]
fn messages_are_duplicated() {
    holds(run(Kind::Mutex, &[1, 1], 3, Faults { duplicates: 1, ..NONE }), FAIR_ALONE);
}

/// S-21: what is left of an earlier acquire of the same client.
#[test]
fn a_client_acquires_twice() {
    holds(run(Kind::Mutex, &[2, 1], 3, NONE), FAIR_ALONE);
}

#[test]
fn a_client_crashes() {
    holds(run(Kind::Mutex, &[1, 1], 4, Faults { crashes: 1, ..NONE }), FAIR_ALONE);
}

/// S-15: two waiters.
#[test]
fn three_clients() {
    holds(run(Kind::Mutex, &[1, 1, 1], 1, NONE), NO_LOSS);
}

/// S-23: two may hold the lock then, and tokens tell them apart.
#[test]
fn the_server_loses_its_data() {
    holds(run(Kind::Mutex, &[1, 1], 3, Faults { restarts: 1, ..NONE }), FAIR_ALONE);
}

/// S-13: the deadline is checked at each poll.
#[test]
fn effects_are_in_order() {
    let protocol = run(Kind::Mutex, &[1, 1], 3, NONE);
    holds(Protocol { effects: true, ..protocol }, FAIR_ALONE);
}

/// S-24: no check helps a process that is paused behind it.
#[test]
fn a_process_is_paused_behind_the_check() {
    holds(run(Kind::Mutex, &[1, 1], 3, Faults { pauses: 1, ..NONE }), FAIR_ALONE);
}

/// S-21: on a network that delivers in time or not at all.
#[test]
fn a_client_leaves_nothing() {
    let protocol = run(Kind::Mutex, &[1, 1], 4, NONE);
    let out_of_reach = &[Reached::SWEEP, Reached::TOO_LATE, Reached::LOST_BY_ANSWER];
    holds(Protocol { network: Network::Timely, ..protocol }, out_of_reach);
}
