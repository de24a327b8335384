//! Signs of life: how to distinguish a future that is not polled from one that waits.
//!
//! A future in a queue proves every [`SIGN_OF_LIFE`] that it is polled, by a timer of its own. After
//! [`ASLEEP_AFTER`] without a sign, the futures that wait for it pass it over, and it queues again when it is
//! polled. The waiting futures measure, so it does not matter which task or runtime the other one has.
// S-34.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How often a future proves that it is polled.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// How long a future stays in its place without being polled.
pub(crate) const ASLEEP_AFTER: Duration = Duration::from_secs(1);

/// True if a future that was last polled at `polled_at` is passed over.
pub(crate) fn is_asleep(polled_at: Instant, now: Instant) -> bool {
    now >= polled_at + ASLEEP_AFTER
}

/// Drives `future`, and calls `sign_of_life` when the future first has to wait and then every `every`. Returns
/// `None` once that returns false: the future was passed over.
pub(crate) async fn drive<F: Future>(
    every: Duration,
    sign_of_life: impl Fn(Instant) -> bool,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer = pin!(None::<Sleep>);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        while timer.as_mut().as_pin_mut().is_none_or(|timer| timer.poll(cx).is_ready()) {
            let now = Instant::now();
            if !sign_of_life(now) {
                return Poll::Ready(None);
            }
            timer.set(Some(sleep_until(now + every)));
        }
        Poll::Pending
    })
    .await
}
