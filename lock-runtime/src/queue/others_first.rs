//! The head start that a process gives to others after a hold that they waited for.
//!
//! A release and the next acquire on one connection would always beat other processes, and processes that ask
//! quickly when a lock comes free would always beat slower ones. So a process that releases a lock records how
//! many others were notified. Until as many turns of others were reported to it, it gives them a head start
//! each time the lock comes free.
// S-14. All of it is a matter of turns: a record that is wrong, or forgotten with its key, costs some processes turns or
// milliseconds, and no process the lock.

use std::time::Duration;

use tokio::time::Instant;

/// How long other processes may go first: long enough for one to wake up and to ask, short enough to go
/// unnoticed when none of them really waits.
const HEAD_START: Duration = Duration::from_millis(1);

/// How long at most other processes that have had no turn yet are given a head start. Some of them may
/// subscribe without waiting, and the key is kept for as long.
const LATELY: Duration = Duration::from_secs(60);

/// The length of one head start, with jitter.
pub(crate) fn head_start() -> Duration {
    HEAD_START.mul_f64(1.0 + fastrand::f64())
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OthersFirst {
    /// When the head start after the release ends.
    until: Instant,
    /// How many turns of other processes are outstanding.
    turns: u32,
}

impl OthersFirst {
    /// A head start from now on, and one at each release until others have had `turns` turns.
    pub(super) fn from_now(turns: u32) -> Self {
        Self { until: Instant::now() + head_start(), turns }
    }

    /// When the head start after the release ends, unless it has ended.
    pub(super) fn head_start_end(self) -> Option<Instant> {
        (self.until > Instant::now()).then_some(self.until)
    }

    /// Records turns of others. True if more are outstanding.
    pub(super) fn note_turns(&mut self, turns: u32) -> bool {
        self.turns = self.turns.saturating_sub(turns);
        self.turns > 0 && !self.is_over(Instant::now())
    }

    /// True if no head start is left.
    pub(super) fn is_over(self, now: Instant) -> bool {
        now > self.until + if self.turns > 0 { LATELY } else { Duration::ZERO }
    }
}
