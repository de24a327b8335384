//! When to come back: the `Retry-After` of a busy answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest advice. A holder may let go long before its lease ends.
const LONGEST: Duration = Duration::from_secs(60);

/// How long this layer's locks are held, as a running mean.
///
/// With a watchdog the holder's remaining lease says nothing: it is always about the whole lease.
#[derive(Debug, Default)]
pub(crate) struct HoldTimes {
    /// Nanoseconds; zero before the first.
    mean: AtomicU64,
}

impl HoldTimes {
    pub(crate) fn record(&self, held: Duration) {
        let held = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX).max(1);
        let step = |mean: u64| match mean {
            0 => held,
            // An eighth of the way: a dozen requests change the picture, one does not.
            _ => mean - mean / 8 + held / 8,
        };
        // Two at once may lose one of the two: it is a mean.
        self.mean.store(step(self.mean.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Zero while nothing is known.
    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean.load(Ordering::Relaxed))
    }
}

/// Whole seconds, at least one, with up to a quarter added at random so that those who were sent
/// away do not come back together.
pub(crate) fn retry_after(expected: Duration) -> u64 {
    let spread = expected.min(LONGEST).mul_f64(1.0 + 0.25 * fastrand::f64());
    let rounded_up = spread.as_secs() + u64::from(spread.subsec_nanos() > 0);
    rounded_up.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_slowly() {
        let times = HoldTimes::default();
        assert_eq!(times.mean(), Duration::ZERO);
        times.record(Duration::from_secs(8));
        assert_eq!(times.mean(), Duration::from_secs(8));
        times.record(Duration::from_secs(16));
        assert_eq!(times.mean(), Duration::from_secs(9));
        (0..100).for_each(|_| times.record(Duration::from_millis(10)));
        assert!(times.mean() < Duration::from_millis(11), "{:?}", times.mean());
    }

    #[test]
    fn advice_is_whole_seconds_spread_out() {
        let advice = |expected| (0..200).map(move |_| retry_after(expected)).collect::<Vec<_>>();
        assert!(advice(Duration::ZERO).iter().all(|secs| *secs == 1));
        assert!(advice(Duration::from_millis(800)).iter().all(|secs| *secs == 1));
        let spread = advice(Duration::from_secs(20));
        assert!(spread.iter().all(|secs| (20..=25).contains(secs)), "{spread:?}");
        assert!(spread.iter().any(|secs| *secs != spread[0]), "{spread:?}");
        assert!(advice(Duration::MAX).iter().all(|secs| (60..=75).contains(secs)));
    }
}
