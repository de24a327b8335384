//! The [`Clock`] that measures lease deadlines, and its [`Tick`]s. Programs need it only to test.
//!
//! A lease is measured on a clock that keeps counting while the machine sleeps, because the server's does.
//! `std::time::Instant` is `CLOCK_MONOTONIC` on Linux and stops in suspend, so deadlines use `CLOCK_BOOTTIME`
//! there. Timers still come from tokio, whose clock stops; therefore a timer only *suggests* a check, and this
//! clock decides.
// S-11.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A point on a [`Clock`], comparable only with points of the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// From nanoseconds since the clock's origin.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this point moved later, at most to the end of time.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// Returns this point moved earlier, at most to the clock's origin.
    pub(crate) fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }

    /// Returns how far this point lies after `earlier`; zero if it does not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Returns a duration in nanoseconds, at most 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The clock that measures deadlines. A cheap handle: clones are the same clock.
///
/// # Examples
///
/// A test moves the clock to show that a hold does not survive a suspended machine:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::clock::Clock;
/// use lock_runtime::{Lease, LockClient, LockOptions};
/// use std::time::Duration;
///
/// let clock = Clock::boot_time();
/// let client = LockClient::builder().clock(clock.clone()).in_memory()?;
/// let guard = client.mutex("job").lock().await?;
/// clock.advance(Duration::from_secs(3600));
/// assert!(guard.is_lost());
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Clock(Arc<Reading>);

#[derive(Debug)]
struct Reading {
    source: Source,
    /// Added to every reading: simulated time asleep.
    skipped: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// Counts time asleep.
    BootTime,
    /// Follows tokio's clock, the paused one of tests included.
    Tokio(Instant),
}

impl Clock {
    /// Returns the machine's clock, time asleep included. Stores outside this process need it.
    ///
    /// On operating systems without such a clock for safe code (all but Linux), time asleep is not counted, and
    /// fencing tokens are the protection.
    #[must_use]
    pub fn boot_time() -> Self {
        Self::from(Source::BootTime)
    }

    /// Returns tokio's clock. Right for a store that lives in this process and expires by the same clock.
    #[must_use]
    pub fn tokio() -> Self {
        Self::from(Source::Tokio(Instant::now()))
    }

    fn from(source: Source) -> Self {
        Self(Arc::new(Reading { source, skipped: AtomicU64::new(0) }))
    }

    /// Moves this clock forward, as a machine that slept would find it.
    pub fn advance(&self, by: Duration) {
        self.0.skipped.fetch_add(nanos(by), Ordering::SeqCst);
    }

    /// Returns the time now.
    #[must_use]
    pub fn now(&self) -> Tick {
        let read = match self.0.source {
            Source::BootTime => boot_time_nanos(),
            Source::Tokio(origin) => nanos(origin.elapsed()),
        };
        Tick(read.saturating_add(self.0.skipped.load(Ordering::Relaxed)))
    }

    /// Returns when a timer should check again to see `at` on this clock: exact unless time is skipped.
    pub(crate) fn timer_for(&self, at: Tick) -> Instant {
        let far = Duration::from_secs(60 * 60 * 24 * 30);
        Instant::now() + at.since(self.now()).min(far)
    }
}

#[cfg(target_os = "linux")]
fn boot_time_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::disallowed_types)] // The best clock that safe code can read here.
fn boot_time_nanos() -> u64 {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    nanos(ORIGIN.elapsed())
}
