//! The fair mutex.

use lock_protocol_model::{Faults, Kind, Network, Protocol, Reached};

use crate::explore::{NONE, holds, run};

/// S-26: a dead waiter delays the others for one waiter lease.
#[test]
fn a_client_crashes() {
    holds(run(Kind::Fair, &[1, 1], 4, Faults { crashes: 1, ..NONE }), &[]);
}

/// S-26: a queue of two, in order.
#[test]
fn three_clients() {
    let out_of_reach = &[
        Reached::SWEEP,
        Reached::EXPIRY,
        Reached::TOO_LATE,
        Reached::LOST_BY_DEADLINE,
        Reached::LOST_BY_ANSWER,
        Reached::RENEWED,
    ];
    holds(run(Kind::Fair, &[1, 1, 1], 1, NONE), out_of_reach);
}

#[test]
fn clocks_differ() {
    holds(run(Kind::Fair, &[1, 1], 3, Faults { drift: 1, ..NONE }), &[]);
}

/// S-23, S-26: the queue is lost, too.
#[test]
fn the_server_loses_its_data() {
    holds(run(Kind::Fair, &[1, 1], 3, Faults { restarts: 1, ..NONE }), &[]);
}

/// S-17, S-21: neither a hold nor a place.
#[test]
fn a_client_leaves_nothing() {
    let protocol = run(Kind::Fair, &[1, 1], 3, NONE);
    let out_of_reach = &[Reached::TOO_LATE, Reached::LOST_BY_ANSWER];
    holds(Protocol { network: Network::Timely, ..protocol }, out_of_reach);
}
