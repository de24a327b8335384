//! Pauses between attempts.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Pauses that double, with jitter so that a fleet does not retry in step. Each is between two thirds and four
/// thirds of its nominal length, which starts at `first` and stays at `longest`.
#[derive(Debug)]
pub(crate) struct Backoff {
    pauses: ExponentialBackoff,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        // The crate draws each pause between its delay and twice that.
        let delays = ExponentialBuilder::new()
            .with_min_delay(first * 2 / 3)
            .with_max_delay(longest * 2 / 3)
            .with_jitter()
            .without_max_times();
        Self { pauses: delays.build(), longest }
    }

    /// Returns the length of the next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        self.pauses.next().unwrap_or(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_their_bounds() {
        let ms = Duration::from_millis;
        for _ in 0..100 {
            let mut backoff = Backoff::between(ms(30), ms(300));
            for nominal in [30, 60, 120, 240, 300, 300] {
                let pause = backoff.pause();
                assert!(
                    pause >= ms(nominal * 2 / 3 - 1) && pause <= ms(nominal * 4 / 3 + 1),
                    "{pause:?} for {nominal} ms"
                );
            }
        }
    }
}
