//! Dropping a future at each of its await points.
//!
//! A future that is dropped is always dropped while it is pending, so "poll it k times, then drop
//! it" for k = 0, 1, 2, … visits every point at which cancellation can strike.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::timeout;

/// How long [`drop_at_every_await`] gives one future to be woken as often as it takes.
const ROUND_BOUND: Duration = Duration::from_secs(30);

/// More polls than any future under test needs: past this, it wakes itself in a loop.
const MAX_POLLS: usize = 10_000;

/// What became of a future that was given a number of polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled<T> {
    /// It completed within its polls.
    Completed(T),
    /// It was still pending after the last of them, and has been dropped.
    Dropped,
}

/// Polls `fut` at most `polls` times, then drops it.
///
/// Each further poll waits until the future has been woken, as an executor would; the drop follows
/// the last poll at once. With `polls == 0` the future is dropped unpolled.
pub async fn poll_then_drop<F: Future>(fut: F, polls: usize) -> Polled<F::Output> {
    if polls == 0 {
        return Polled::Dropped;
    }
    let mut fut = pin!(fut);
    let mut left = polls;
    let alarm = Arc::new(Alarm::rung());
    let waker = Waker::from(alarm.clone());
    poll_fn(move |cx| {
        alarm.pass_on_to(cx.waker());
        // A poll that the future did not ask for (a sibling in a `select!` was woken) must not count.
        if !alarm.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        left -= 1;
        match fut.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Poll::Ready(Polled::Completed(output)),
            Poll::Pending if left == 0 => Poll::Ready(Polled::Dropped),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops one future after another, each one poll later than the one before, until one completes.
///
/// `check` runs after each drop, with the number of polls that future had got. Returns the number
/// of polls after which a future completed, and its output.
///
/// Panics when a future is not woken for 30 s, or is polled thousands of times without completing: then
/// this would never end.
pub async fn drop_at_every_await<F: Future>(
    mut make_fut: impl FnMut() -> F,
    mut check: impl AsyncFnMut(usize),
) -> (usize, F::Output) {
    for polls in 0..MAX_POLLS {
        let Ok(polled) = timeout(ROUND_BOUND, poll_then_drop(make_fut(), polls)).await else {
            panic!("the future was not woken for its poll {polls} within {ROUND_BOUND:?}");
        };
        match polled {
            Polled::Completed(output) => return (polls, output),
            Polled::Dropped => check(polls).await,
        }
    }
    panic!("the future did not complete within {MAX_POLLS} polls");
}

/// Remembers that the future was woken, and wakes the task that polls it.
struct Alarm {
    rung: AtomicBool,
    outer: Mutex<Waker>,
}

impl Alarm {
    /// An alarm that allows the first poll, which no wake precedes.
    fn rung() -> Self {
        Self { rung: AtomicBool::new(true), outer: Mutex::new(Waker::noop().clone()) }
    }

    fn pass_on_to(&self, waker: &Waker) {
        self.outer.lock().unwrap_or_else(PoisonError::into_inner).clone_from(waker);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.outer.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::Mutex as AsyncMutex;
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    async fn three_awaits(reached: &Cell<usize>) -> &'static str {
        for step in 1..=3 {
            sleep(Duration::from_secs(1)).await;
            reached.set(step);
        }
        "done"
    }

    #[tokio::test(start_paused = true)]
    async fn every_await_is_dropped_once_and_checked() {
        let lock = AsyncMutex::new(());
        let reached = Cell::new(0);
        let mut seen = Vec::new();
        let (polls, output) = drop_at_every_await(
            || async {
                let _held = lock.lock().await;
                three_awaits(&reached).await
            },
            async |polls| {
                assert!(lock.try_lock().is_ok(), "dropped after {polls} polls, it still holds");
                seen.push(polls);
            },
        )
        .await;
        assert_eq!((polls, output), (4, "done"));
        assert_eq!(seen, [0, 1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "dropped after 2 polls, it leaks")]
    async fn a_leak_at_one_await_is_found() {
        let leaked = Cell::new(false);
        drop_at_every_await(
            || async {
                yield_now().await;
                leaked.set(true);
                yield_now().await;
                leaked.set(false);
            },
            async |polls| assert!(!leaked.get(), "dropped after {polls} polls, it leaks"),
        )
        .await;
    }
}
