//! How long a link pauses before it connects again.
//!
//! While no connection can be made, the pauses are short: an attempt costs the server nothing, and callers wait for
//! its return. A server may also accept connections that then do not last: a replica that refuses every command, a
//! proxy without a server behind it, or a server that is too busy to answer. Each such connection costs a handshake and the scripts, so those pauses grow.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;

/// The first pause of either kind.
const FIRST: Duration = Duration::from_millis(10);

/// The longest pause while no connection can be made.
const LONGEST_UNREACHED: Duration = Duration::from_millis(250);

/// The longest pause while no connection lasts; a second at least with its jitter.
const LONGEST_SHORT_LIVED: Duration = Duration::from_millis(1_500);

/// A connection that lasted for this long resets the pauses.
const LASTING: Duration = Duration::from_secs(2);

/// How often a failure to connect is logged as a warning.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The pauses of one link.
#[derive(Debug)]
pub(super) struct ReconnectPause {
    unreached: Backoff,
    short_lived: Backoff,
    was_unreached: bool,
    connected: Option<Instant>,
    warned: Option<Instant>,
    /// When the first attempt failed since there was a connection.
    away: Option<Instant>,
}

impl ReconnectPause {
    pub(super) fn new() -> Self {
        Self {
            unreached: Backoff::between(FIRST, LONGEST_UNREACHED),
            short_lived: Backoff::between(FIRST, LONGEST_SHORT_LIVED),
            was_unreached: false,
            connected: None,
            warned: None,
            away: None,
        }
    }

    /// Records that there is a connection.
    pub(super) fn connected(&mut self) {
        self.unreached = Backoff::between(FIRST, LONGEST_UNREACHED);
        self.connected = Some(Instant::now());
    }

    /// Records that the connection has ended.
    pub(super) fn disconnected(&mut self) {
        let Some(since) = self.connected.take() else { return };
        self.was_unreached = false;
        if since.elapsed() >= LASTING {
            *self = Self::new();
        }
    }

    /// Records that an attempt failed: no connection was made, or the server did not complete the handshake.
    pub(super) fn failed(&mut self, was_unreached: bool) {
        self.was_unreached = was_unreached;
        self.away.get_or_insert_with(Instant::now);
    }

    /// True if another link's connecting to the server ends the pause.
    pub(super) fn ends_when_reached(&self) -> bool {
        self.was_unreached
    }

    /// The length of the next pause.
    pub(super) fn next(&mut self) -> Duration {
        if self.was_unreached { self.unreached.pause() } else { self.short_lived.pause() }
    }

    /// Returns since when warnings say that there is no connection, once after they began.
    pub(super) fn take_warned(&mut self) -> Option<Instant> {
        self.away.take().filter(|_| self.warned.is_some())
    }

    /// True if this failure is to be logged as a warning: the first one, and then one each minute.
    pub(super) fn warns(&mut self) -> bool {
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
        let mut pause = ReconnectPause::new();
        assert!(pause.next() < SECOND / 10);
        for failure in 0..10 {
            if failure % 2 == 0 {
                pause.failed(false);
            } else {
                pause.connected();
                pause.disconnected();
            }
            pause.next();
        }
        let pauses: Vec<_> = (0..200).map(|_| pause.next()).collect();
        assert!(pauses.iter().all(|pause| *pause >= SECOND), "{pauses:?}");
        let spread = pauses.iter().max().unwrap().saturating_sub(*pauses.iter().min().unwrap());
        assert!(spread > SECOND / 2, "{spread:?}");
        pause.connected();
        tokio::time::advance(LASTING).await;
        pause.disconnected();
        assert!(pause.next() < SECOND / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_is_asked_for_often() {
        let mut pause = ReconnectPause::new();
        for _ in 0..1_000 {
            pause.failed(true);
            assert!(pause.next() < SECOND / 3 && pause.ends_when_reached());
        }
        // It is back, and a restart at once does not make the pauses longer.
        pause.connected();
        pause.disconnected();
        assert!(pause.next() < SECOND / 10 && !pause.ends_when_reached());
    }
}
