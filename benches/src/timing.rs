//! How long a run takes.

use std::time::Duration;

/// How long to measure. The contenders take turns, because the speed of a machine changes from minute to
/// minute: only neighbouring turns can be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Timing {
    /// Turns of each contender.
    pub(crate) rounds: usize,
    /// The length of a turn.
    pub(crate) turn: Duration,
}

impl Timing {
    pub(crate) const FULL: Self = Self { rounds: 5, turn: Duration::from_secs(2) };
    pub(crate) const QUICK: Self = Self { rounds: 3, turn: Duration::from_millis(500) };

    /// More and shorter turns, for single round trips: the scheduler moves the server to another processor now and then,
    /// which doubles or halves their time.
    pub(crate) fn finer(self) -> Self {
        const FINER: usize = 5;
        Self { rounds: self.rounds * FINER, turn: self.turn / FINER as u32 }
    }
}
