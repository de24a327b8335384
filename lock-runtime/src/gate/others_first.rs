//! What a process leaves to others after a hold that they waited for (S-14).
//!
//! A release and the next acquire on one connection would always beat the others. And a process that
//! is quick to ask when a lock comes free would beat slower ones for good, also when there are several
//! quick ones, each with its turn. So who releases counts who else heard of it, and lets others go
//! first at each later release, until it has heard of as many turns.

use std::time::Duration;

use tokio::time::Instant;

/// How long other processes get to go first: long enough for one to be woken and to ask, short enough
/// not to be felt when none of them really waits.
const HEAD_START: Duration = Duration::from_millis(1);

/// For how long a hold counts as the last turn of this process at most, however many others have not
/// had theirs: who listens need not wait, and a gate is kept for as long.
const LATELY: Duration = Duration::from_secs(60);

/// A head start, not the same for everybody.
pub(crate) fn head_start() -> Duration {
    HEAD_START.mul_f64(1.0 + fastrand::f64())
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct OthersFirst {
    /// Until when they may go first after the release.
    until: Instant,
    /// How many others have not had their turn since.
    turns: u32,
}

impl OthersFirst {
    /// As many others heard of a release just now, and `turns` of them get theirs before us.
    pub(super) fn from_now(turns: u32) -> Self {
        Self { until: Instant::now() + head_start(), turns }
    }

    /// Until when others may go first after our own release, unless that has passed.
    pub(super) fn head_start(self) -> Option<Instant> {
        (self.until > Instant::now()).then_some(self.until)
    }

    /// Notes that others had so many turns. True if there are some who had none yet.
    pub(super) fn had(&mut self, turns: u32) -> bool {
        self.turns = self.turns.saturating_sub(turns);
        self.turns > 0 && !self.is_over(Instant::now())
    }

    pub(super) fn is_over(self, now: Instant) -> bool {
        now > self.until + if self.turns > 0 { LATELY } else { Duration::ZERO }
    }
}
