//! Waiting for a condition, with a bound.
//!
//! A test polls for what it expects instead of sleeping for as long as it hopes that will take.

#![allow(clippy::disallowed_types, reason = "to tell a paused clock from a real one")]

use std::future::poll_fn;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use std::time::Instant as RealInstant;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// The first pauses between two looks at a condition: short beside a round trip's hundreds of
/// microseconds plus scheduling, long enough to leave the processor to what is waited for.
const SHORTEST: Duration = Duration::from_millis(2);

/// Longer ones would make tests wait for nothing.
const LONGEST: Duration = Duration::from_millis(10);

/// What a look that begins at the bound may take: a machine that stood still until then has not looked yet at what is there.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The pause after the looks of that time, an eighth of it: who waits long looks rarely, which leaves
/// the processor to the tests that run beside it.
fn pause(waited: Duration) -> Duration {
    (waited / 8).clamp(SHORTEST, LONGEST)
}

/// How many times longer than its bound a wait for a condition may be on a busy machine.
const LONGER: f64 = 10.0;

/// How many tasks share a processor now; between 1 and `most`, and 1 on systems that do not tell.
pub fn slowness(most: f64) -> u32 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    (load / processors).clamp(1.0, most).ceil() as u32
}

/// A bound for what has to happen at once, longer on a busy machine: four times at the most, because it has to stay below the
/// time after which the same would come about by other means, such as the end of a lease.
pub fn patience(bound: Duration) -> Duration {
    bound * slowness(4.0)
}

/// Waits until `cond` is true.
///
/// On a busy machine the bound is longer. It also ends a look that itself hangs, as one at a stopped server does; one more look follows, which has a
/// second. Works under a paused clock, where the pauses advance it.
///
/// Panics when `cond` has not become true by then; the message names `what` and the caller.
#[track_caller]
pub fn eventually(
    bound: Duration,
    what: &str,
    mut cond: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let mut wait = BoundedWait::new(bound);
        loop {
            let look = pin!(cond());
            if wait.during(look).await {
                return;
            }
            if !wait.pause().await {
                let waited = wait.start.elapsed();
                panic!("{caller}: not within {bound:?}: {what} (gave up after {waited:?})");
            }
        }
    }
}

/// A wait for a condition. Most of it does not depend on the type of the condition, and is compiled once, not once for each of
/// hundreds of conditions.
struct BoundedWait {
    start: Instant,
    bound: Duration,
    /// When it started by a clock that no test pauses.
    real_start: RealInstant,
    /// Ends the look under way.
    end: Pin<Box<Sleep>>,
    is_last_look: bool,
}

impl BoundedWait {
    fn new(bound: Duration) -> Self {
        let (start, real_start) = (Instant::now(), RealInstant::now());
        let end = Box::pin(sleep_until(start + bound));
        Self { start, bound, real_start, end, is_last_look: false }
    }

    /// What a look sees; false if it has not ended in time.
    async fn during(&mut self, mut look: Pin<&mut impl Future<Output = bool>>) -> bool {
        poll_fn(|cx| match look.as_mut().poll(cx) {
            Poll::Ready(met) => Poll::Ready(met),
            Poll::Pending => self.poll_end(cx).map(|()| false),
        })
        .await
    }

    /// Ready at the end of the look. Not with the task's budget, which the look may use up in each poll.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut unconstrained(self.end.as_mut())).poll(cx)
    }

    /// Waits until it is time for the next look. False if the last one is over.
    async fn pause(&mut self) -> bool {
        if self.is_last_look {
            return false;
        }
        let next = Instant::now() + pause(self.start.elapsed());
        let end = self.end.deadline();
        sleep_until(next.min(end)).await;
        if Instant::now() >= end {
            // A paused clock does not depend on the machine.
            let is_real = self.real_start.elapsed() >= self.bound;
            let later = self.start + self.bound * slowness(LONGER);
            if is_real && Instant::now() < later {
                self.end.as_mut().reset(later);
                return true;
            }
            self.is_last_look = true;
            self.end.as_mut().reset(Instant::now() + LAST_LOOK);
        }
        true
    }
}

/// Waits until `cond` is true, blocking the thread: for tests without a runtime.
///
/// Panics when `cond` has not become true within `bound`; the message names `what`.
#[track_caller]
pub fn eventually_blocking(bound: Duration, what: &str, mut cond: impl FnMut() -> bool) {
    let start = Instant::now();
    while !cond() {
        let waited = start.elapsed();
        assert!(
            waited < bound || waited < bound * slowness(LONGER),
            "not within {bound:?}: {what} (gave up after {waited:?})"
        );
        std::thread::sleep(pause(waited));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_until_the_condition_holds() {
        let ready = Instant::now() + Duration::from_secs(5);
        eventually(Duration::from_secs(6), "five seconds", async || Instant::now() >= ready).await;
        assert!(Instant::now() < ready + 2 * LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_once_more_at_the_bound() {
        let bound = Duration::from_secs(1);
        let start = Instant::now();
        // The clock jumps over the bound during the first pause.
        let late = async || {
            let is_late = start.elapsed() > bound;
            tokio::time::advance(2 * bound).await;
            is_late
        };
        eventually(bound, "two seconds", late).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not within 1s: the moon (gave up after 1")]
    async fn names_what_was_missing_and_for_how_long() {
        eventually(Duration::from_secs(1), "the moon", async || false).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_bounded_too() {
        let start = Instant::now();
        let bound = Duration::from_secs(1);
        let hangs = eventually(bound, "an answer", async || std::future::pending().await);
        assert!(tokio::spawn(hangs).await.unwrap_err().is_panic());
        let most = bound + LAST_LOOK + LONGEST;
        assert!((bound..most).contains(&start.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not within 1s: a pause")]
    async fn a_look_that_is_always_busy_is_bounded_too() {
        let busy = async || {
            loop {
                tokio::task::consume_budget().await;
                // The paused clock stands still while a task can run.
                if !tokio::task::coop::has_budget_remaining() {
                    unconstrained(tokio::time::advance(Duration::from_millis(100))).await;
                }
            }
        };
        eventually(Duration::from_secs(1), "a pause", busy).await;
    }
}
