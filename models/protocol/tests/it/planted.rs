//! Each planted bug makes a property fail, so the properties are not empty.

use lock_protocol_model::properties::names;
use lock_protocol_model::{Bug, Faults, Kind, Network, Protocol};

use crate::explore::{NONE, fails, run};

fn mutex(faults: Faults) -> Protocol {
    run(Kind::Mutex, &[1, 1], 5, faults)
}

fn fair(faults: Faults) -> Protocol {
    run(Kind::Fair, &[1, 1], 5, faults)
}

fn timely(protocol: Protocol) -> Protocol {
    Protocol { network: Network::Timely, ..protocol }
}

/// S-8, S-9.
#[test]
fn deadlines() {
    fails(mutex(NONE), Bug::DeadlineFromReply, names::ONE_HOLDER);
    fails(mutex(NONE), Bug::RenewalUnconfirmed, names::ONE_HOLDER);
    fails(mutex(Faults { drift: 1, ..NONE }), Bug::NoMargin, names::ONE_HOLDER);
}

/// S-12, S-13.
#[test]
fn polls() {
    let protocol = Protocol { effects: true, ..mutex(NONE) };
    fails(protocol, Bug::NoCheckAtPoll, names::IN_ORDER);
}

/// S-19.
#[test]
fn owners() {
    fails(mutex(NONE), Bug::ReleaseWithoutOwner, names::ONLY_OWNER);
    // A release of its first acquire deletes the other client's hold, and its second is granted.
    fails(run(Kind::Mutex, &[2, 1], 3, NONE), Bug::ReleaseWithoutOwner, names::ONE_HOLDER);
    fails(mutex(NONE), Bug::RenewalWithoutOwner, names::ONLY_OWNER);
    fails(mutex(NONE), Bug::RenewalCreates, names::NO_CREATION);
}

#[test]
fn expiries() {
    fails(mutex(NONE), Bug::NoExpiry, names::EXPIRES);
    fails(mutex(Faults { crashes: 1, ..NONE }), Bug::NoExpiry, names::PROGRESS);
}

/// S-23.
#[test]
fn tokens() {
    let restarts = Faults { restarts: 1, ..NONE };
    fails(mutex(restarts), Bug::TokenWithoutTime, names::TOKENS_GROW);
}

/// S-21.
#[test]
fn unknown_outcomes() {
    fails(timely(mutex(NONE)), Bug::UnknownNotReleased, names::CLEAN);
    fails(timely(mutex(NONE)), Bug::NoSecondRelease, names::CLEAN);
}

/// S-15, S-17.
#[test]
fn waiters() {
    fails(mutex(NONE), Bug::NoSecondTry, names::WOKEN);
    fails(fair(NONE), Bug::HeadNotNotified, names::WOKEN);
    fails(timely(fair(NONE)), Bug::KeepsPlace, names::CLEAN);
}

/// S-26.
#[test]
fn queues() {
    fails(fair(NONE), Bug::PassesQueue, names::FIRST_IN);
    fails(fair(Faults { crashes: 1, ..NONE }), Bug::NoSweep, names::PROGRESS);
}
