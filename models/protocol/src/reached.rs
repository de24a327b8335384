//! What a run of the explorer has seen, beside the properties of states.

use std::sync::atomic::{AtomicU16, Ordering};

/// Steps that were taken at least once. Kept apart from the states, which would be twice as many with each flag.
#[derive(Debug, Default)]
pub struct Reached(AtomicU16);

impl Reached {
    /// A grant of a free lock.
    pub const GRANT: u16 = 1;
    /// A repeated request of the holder was granted.
    pub const REPEATED_GRANT: u16 = 1 << 1;
    /// A client that had been refused was granted the lock.
    pub const GRANT_AFTER_WAIT: u16 = 1 << 2;
    /// A hold expired.
    pub const EXPIRY: u16 = 1 << 3;
    /// A grant arrived after its own deadline and was given back.
    pub const TOO_LATE: u16 = 1 << 4;
    /// A client found its hold lost by the deadline.
    pub const LOST_BY_DEADLINE: u16 = 1 << 5;
    /// A client learned from a renewal that it does not hold the lock.
    pub const LOST_BY_ANSWER: u16 = 1 << 6;
    /// A renewal moved a deadline.
    pub const RENEWED: u16 = 1 << 7;
    /// A waiter was woken by a release.
    pub const WOKEN: u16 = 1 << 8;
    /// A dead waiter was removed from the queue.
    pub const SWEEP: u16 = 1 << 9;

    /// The names, for a report.
    pub const NAMES: [(u16, &'static str); 10] = [
        (Self::GRANT, "a grant of a free lock"),
        (Self::REPEATED_GRANT, "a repeated grant"),
        (Self::GRANT_AFTER_WAIT, "a grant after a wait"),
        (Self::EXPIRY, "an expiry"),
        (Self::TOO_LATE, "a grant after its own deadline"),
        (Self::LOST_BY_DEADLINE, "a loss by the deadline"),
        (Self::LOST_BY_ANSWER, "a loss by an answer"),
        (Self::RENEWED, "a renewal"),
        (Self::WOKEN, "a waiter woken by a release"),
        (Self::SWEEP, "a dead waiter removed"),
    ];

    /// Notes a step.
    pub fn note(&self, step: u16) {
        if self.0.load(Ordering::Relaxed) & step == 0 {
            self.0.fetch_or(step, Ordering::Relaxed);
        }
    }

    /// The names of the steps that were never taken.
    pub fn missing(&self) -> Vec<&'static str> {
        let reached = self.0.load(Ordering::Relaxed);
        let missing = Self::NAMES.into_iter().filter(|(step, _)| reached & step == 0);
        missing.map(|(_, name)| name).collect()
    }
}
