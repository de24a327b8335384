//! How long a link pauses before it connects again.
//!
//! A server that cannot be reached is asked for often: that costs it nothing, and callers wait for its return. A
//! server that accepts connections which then do not live, a replica that refuses every command or a proxy
//! without a server behind it, is asked ever more seldom: each connection costs it a handshake and the scripts.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause of either kind.
const FIRST: Duration = Duration::from_millis(10);

/// The longest pause while the server cannot be reached.
const LONGEST_UNREACHED: Duration = Duration::from_millis(250);

/// The longest pause while no connection lives: with the least jitter, still a second.
const LONGEST_SHORT_LIVED: Duration = Duration::from_millis(1_500);

/// How long a connection has to last to count as one that lives.
const LIVED: Duration = Duration::from_secs(2);

/// How often a failure to connect is worth a warning.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    unreached: u32,
    short_lived: u32,
    was_unreached: bool,
    connected: Option<Instant>,
    warned: Option<Instant>,
}

impl Backoff {
    /// Notes that there is a connection.
    pub(crate) fn connected(&mut self) {
        self.unreached = 0;
        self.connected = Some(Instant::now());
    }

    /// Notes that the connection has gone.
    pub(crate) fn gone(&mut self) {
        let Some(since) = self.connected.take() else { return };
        self.was_unreached = false;
        if since.elapsed() < LIVED {
            self.short_lived = self.short_lived.saturating_add(1);
        } else {
            *self = Self::default();
        }
    }

    /// Notes that an attempt failed: the server was not reached, or did not go through with it.
    pub(crate) fn failed(&mut self, was_unreached: bool) {
        self.was_unreached = was_unreached;
        let count = if was_unreached { &mut self.unreached } else { &mut self.short_lived };
        *count = count.saturating_add(1);
    }

    /// True if a connection to the same server by another link ends the pause.
    pub(crate) fn ends_when_reached(&self) -> bool {
        self.was_unreached
    }

    /// The next pause, at random so that a fleet does not connect in step.
    pub(crate) fn pause(&self) -> Duration {
        let (failures, longest) = match self.was_unreached {
            true => (self.unreached, LONGEST_UNREACHED),
            false => (self.short_lived, LONGEST_SHORT_LIVED),
        };
        let pause = FIRST.saturating_mul(1 << failures.min(16)).min(longest);
        pause.mul_f64(0.7 + 0.6 * fastrand::f64())
    }

    /// True if this failure is to be told as a warning: the first, and then now and then.
    pub(crate) fn warns(&mut self) -> bool {
        let warns = self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
        if warns {
            self.warned = Some(Instant::now());
        }
        warns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn after_ten_short_lives_there_is_a_second_between_two() {
        let mut backoff = Backoff::default();
        assert!(backoff.pause() < SECOND / 10);
        for failure in 0..10 {
            if failure % 2 == 0 {
                backoff.failed(false);
            } else {
                backoff.connected();
                backoff.gone();
            }
        }
        let pauses: Vec<_> = (0..200).map(|_| backoff.pause()).collect();
        assert!(pauses.iter().all(|pause| *pause >= SECOND), "{pauses:?}");
        let spread = pauses.iter().max().unwrap().saturating_sub(*pauses.iter().min().unwrap());
        assert!(spread > SECOND / 2, "{spread:?}");
        backoff.connected();
        tokio::time::advance(LIVED).await;
        backoff.gone();
        assert!(backoff.pause() < SECOND / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_is_asked_for_often() {
        let mut backoff = Backoff::default();
        for _ in 0..1_000 {
            backoff.failed(true);
            assert!(backoff.pause() < SECOND / 3 && backoff.ends_when_reached());
        }
        // It is back, and a restart at once is not held against it.
        backoff.connected();
        backoff.gone();
        assert!(backoff.pause() < SECOND / 10 && !backoff.ends_when_reached());
    }
}
