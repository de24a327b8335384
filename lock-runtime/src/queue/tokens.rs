//! How many fencing tokens a hold reserves.
//!
//! A hold needs a token for each task that it is handed to, and reserves them when it is acquired. Tokens must not run ahead
//! of the server's clock, which alone says where they go on after a loss of data. So a key has credit: each microsecond of
//! a hold earns a token, and each token that a hold reserves costs one, used or not.
// S-14, S-23.

use std::time::Duration;

use crate::clock::{Clock, Tick};

/// The most tokens that a hold reserves, and so its most hand-offs.
const BLOCK: u32 = 256;

/// The same, if no other process heard the last release: about as many as the default `handoff_window` has microseconds.
/// Also the most credit, and so how far the tokens of one process can be ahead of the clock.
// A crowd with short critical sections uses up `BLOCK` in a tenth of the window, and then waits for two round trips. Where
// another process listens, the limit stays at `BLOCK`, so that it waits no longer; one that begins to listen waits for one
// window at most.
const BLOCK_ALONE: u32 = 4096;

/// What a hold made of its tokens.
pub(crate) struct TokensUsed {
    pub(crate) handoffs: u32,
    pub(crate) reserved: u32,
    /// When the request was sent that acquired the hold, if it reserved more than the token that every hold needs. Other
    /// holds earn no credit, and need not read the clock.
    pub(crate) since: Option<(Clock, Tick)>,
    /// True if the store confirmed that no other process heard the release.
    pub(crate) alone: bool,
}

pub(super) struct Tokens {
    /// How many the next hold will use, to judge by the last one. Above [`BLOCK`] only if no other process heard that one's
    /// release.
    expected: u32,
    credit: u32,
}

impl Tokens {
    pub(super) const fn new() -> Self {
        Self { expected: 0, credit: BLOCK }
    }

    /// How many to reserve with so many tasks in the queue.
    ///
    /// The queue's length alone says too little when the same tasks come back at once, so what the last hold used
    /// counts, too.
    pub(super) fn wanted(&mut self, waiters: usize) -> u32 {
        if waiters == 0 {
            return 1;
        }
        let most = if self.expected > BLOCK { BLOCK_ALONE } else { BLOCK };
        let expected = self.expected.saturating_add(1).min(most);
        let waiters = u32::try_from(waiters).unwrap_or(BLOCK).saturating_add(1).min(BLOCK);
        // A large block is reserved once for each hold: requests that get none would use up the tokens.
        self.expected = self.expected.min(BLOCK);
        // One to spare, whatever the credit: only then does the hold earn some.
        waiters.max(expected).min(self.credit.max(2))
    }

    /// Settles a hold after the answer to its release.
    pub(super) fn settle(&mut self, used: &TokensUsed) {
        let most = if used.alone { BLOCK_ALONE } else { BLOCK };
        self.expected = used.handoffs.saturating_mul(2).min(most);
        if let Some((clock, since)) = &used.since {
            self.earn(used.reserved, clock.now().since(*since));
        }
    }

    fn earn(&mut self, reserved: u32, lasted: Duration) {
        let earned = u32::try_from(lasted.as_micros()).unwrap_or(BLOCK_ALONE);
        let left = self.credit.saturating_sub(reserved);
        self.credit = left.saturating_add(earned).min(BLOCK_ALONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(handoffs: u32, reserved: u32, alone: bool) -> TokensUsed {
        TokensUsed { handoffs, reserved, since: None, alone }
    }

    #[test]
    fn a_hold_may_use_twice_what_the_last_one_did() {
        let mut tokens = Tokens { expected: 0, credit: BLOCK_ALONE };
        assert_eq!([0, 1, 7, 1000].map(|waiters| tokens.wanted(waiters)), [1, 2, 8, BLOCK]);
        for (handoffs, alone, wanted) in
            [(100, true, 201), (1000, true, 2001), (9000, true, BLOCK_ALONE), (1000, false, BLOCK)]
        {
            tokens.settle(&used(handoffs, handoffs + 1, alone));
            assert_eq!(tokens.wanted(1), wanted);
            assert!(tokens.wanted(1) <= BLOCK, "a large block was asked for twice");
        }
    }

    /// However the holds go, tokens are at most one block ahead of the time that they took.
    #[test]
    fn credit_bounds_what_is_reserved() {
        for lasted in [2, 50, 110, 5000] {
            let mut tokens = Tokens::new();
            let (mut reserved, mut time) = (0, 0);
            for hold in 0..10_000 {
                let wanted = tokens.wanted(300);
                reserved += wanted;
                assert!(reserved <= time + BLOCK_ALONE + 2, "{reserved} after {time} µs");
                time += lasted;
                // None of them used, or all.
                tokens.settle(&used(wanted * (hold % 2), wanted, true));
                tokens.earn(wanted, Duration::from_micros(lasted.into()));
            }
            assert!(reserved > time / 2 || lasted > BLOCK_ALONE, "{reserved} after {time} µs");
        }
    }
}
