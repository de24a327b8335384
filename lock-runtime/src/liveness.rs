//! Signs of life: how to distinguish a future that is not polled from one that waits.
//!
//! A future in a queue proves every [`SIGN_OF_LIFE`] that it is polled, by a timer of its own. After
//! [`ASLEEP_AFTER`] without a sign, the futures that wait for it pass it over, and it queues again when it is
//! polled. The waiting futures measure, so it does not matter which task or runtime the other one has.
// S-34.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// How often a future proves that it is polled.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// How long a future stays in its place without being polled.
pub(crate) const ASLEEP_AFTER: Duration = Duration::from_secs(1);

/// True if a future that was last polled at `polled_at` is passed over.
pub(crate) fn is_asleep(polled_at: Instant, now: Instant) -> bool {
    now >= polled_at + ASLEEP_AFTER
}

/// Drives `future`, and calls `sign_of_life` at `first` and then every `every`, while `future` waits. Resolves to `None` once that
/// returns false: the future was passed over.
pub(crate) async fn drive<F: Future>(
    first: Instant,
    every: Duration,
    sign_of_life: impl Fn(Instant) -> bool,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    let mut next = first;
    loop {
        if let Ok(output) = timeout_at(next, future.as_mut()).await {
            return Some(output);
        }
        let now = Instant::now();
        if !sign_of_life(now) {
            return None;
        }
        next = now + every;
    }
}
