//! Signs of life: how to distinguish a future that is not polled from one that waits.
//!
//! A future in a queue proves every [`SIGN_OF_LIFE`] that it is polled, by a timer of its own. After
//! [`ASLEEP_AFTER`] without a sign, the futures that wait for it pass it over, and it queues again when it is
//! polled. The waiting futures measure, so it does not matter which task or runtime the other one has.
// S-34.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::timer::{ATTENDED_EVERY, Timer, poll_attended};

/// How often a future proves that it is polled.
pub(crate) const SIGN_OF_LIFE: Duration = ATTENDED_EVERY;

/// How long a future stays in its place without being polled.
pub(crate) const ASLEEP_AFTER: Duration = Duration::from_secs(1);

/// True if a future that was last polled at `polled_at` is passed over.
pub(crate) fn is_asleep(polled_at: Instant, now: Instant) -> bool {
    now >= polled_at + ASLEEP_AFTER
}

/// Drives `future`, and calls `sign_of_life` at `first` and then every `every`, while `future` waits. Resolves to `None` once that
/// returns false: the future was passed over. While `future` is attended, it is polled again anyway, and the first call comes
/// then.
pub(crate) fn drive<F: Future, S: Fn(Instant) -> bool>(
    first: Instant,
    every: Duration,
    sign_of_life: S,
    future: F,
) -> Driven<F, S> {
    Driven { future, timer: None, first: Some(first), every, sign_of_life }
}

pin_project! {
    /// The future of [`drive`]. An async function would keep `future` twice, as its argument and pinned.
    pub(crate) struct Driven<F, S> {
        #[pin]
        future: F,
        timer: Option<Timer>,
        // Until the timer is made.
        first: Option<Instant>,
        every: Duration,
        sign_of_life: S,
    }
}

impl<F: Future, S: Fn(Instant) -> bool> Future for Driven<F, S> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let is_attended = match poll_attended(this.future, cx) {
            (Poll::Ready(output), _) => return Poll::Ready(Some(output)),
            (Poll::Pending, is_attended) => is_attended,
        };
        if let Some(first) = *this.first {
            if is_attended && *this.every >= ATTENDED_EVERY {
                // It is polled again by then.
                return Poll::Pending;
            }
            *this.first = None;
            *this.timer = Some(Timer::at(first, cx));
        }
        while let Some(timer) = this.timer
            && timer.poll(cx).is_ready()
        {
            let now = Instant::now();
            if !(this.sign_of_life)(now) {
                return Poll::Ready(None);
            }
            timer.reset(now + *this.every);
        }
        Poll::Pending
    }
}
