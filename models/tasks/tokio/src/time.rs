//! Time that moves only by [`advance`].

use std::cell::RefCell;
use std::ops::{Add, AddAssign, Sub};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
pub use std::time::Duration;

/// The time of a thread. All tasks of one run are on one thread.
#[derive(Default)]
struct Time {
    /// The number of the run.
    run: u64,
    now: Duration,
    sleeping: Vec<(Instant, Waker)>,
}

thread_local! {
    static TIME: RefCell<Time> = RefCell::default();
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// Returns the time now.
    #[must_use]
    pub fn now() -> Self {
        Self(TIME.with_borrow(|time| time.now))
    }

    /// Returns the time since then.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now() - *self
    }

    /// Returns a later time, or `None` if there is none.
    #[must_use]
    pub fn checked_add(&self, by: Duration) -> Option<Self> {
        self.0.checked_add(by).map(Self)
    }

    /// Returns the time since `earlier`, or zero.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        *self - earlier
    }

    /// Returns the time since `earlier`, or zero.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        *self - earlier
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0 + by)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        self.0 += by;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }
}

/// Moves the time of this thread, and wakes the sleeps that end.
pub fn advance(by: Duration) {
    let woken = TIME.with_borrow_mut(|time| {
        time.now += by;
        let now = Instant(time.now);
        let is_over = |(until, _): &mut (Instant, Waker)| *until <= now;
        time.sleeping.extract_if(.., is_over).collect::<Vec<_>>()
    });
    woken.into_iter().for_each(|(_, waker)| waker.wake());
}

/// Begins a new run.
pub fn reset() {
    TIME.with_borrow_mut(|time| *time = Time { run: time.run + 1, ..Time::default() });
}

/// The future of [`sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    until: Instant,
    run: u64,
}

impl Sleep {
    /// Returns its end.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.until
    }

    /// True if it wakes no task any more.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.run != this_run() || Instant::now() >= self.until
    }

    /// Moves its end.
    pub fn reset(mut self: Pin<&mut Self>, until: Instant) {
        *self = sleep_until(until);
    }
}

fn this_run() -> u64 {
    TIME.with_borrow(|time| time.run)
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        TIME.with_borrow_mut(|time| time.sleeping.push((self.until, cx.waker().clone())));
        Poll::Pending
    }
}

/// Waits until then.
pub fn sleep_until(until: Instant) -> Sleep {
    Sleep { until, run: this_run() }
}

/// Waits for so long.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// The error of [`timeout`].
#[derive(Debug)]
pub struct Elapsed;

/// Waits for the future until then.
///
/// # Errors
///
/// When it takes longer.
pub async fn timeout_at<F: Future>(until: Instant, future: F) -> Result<F::Output, Elapsed> {
    crate::select! {
        output = future => Ok(output),
        () = sleep_until(until) => Err(Elapsed),
    }
}

/// Waits for the future for so long.
///
/// # Errors
///
/// When it takes longer.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    timeout_at(Instant::now() + duration, future).await
}
