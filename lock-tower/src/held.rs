//! [`HeldLock`]: the lock of a call, as the handler sees it, and [`Hold`], as its layer has it.
//!
//! The layer keeps the guard, because it has to release the lock however the call ends. During each poll of
//! the call, [`Hold::poll`] makes the hold the thread's current one. A [`HeldLock`] that the handler takes
//! from there shares a [`SharedHold`] with the layer, through which the handler asks for an early release. A
//! layer that holds no lock for the call hides an outer layer's hold, so that the handler cannot take that for its
//! own. A handler that never asks for its lock causes no allocation, as an extension in each request would.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use lock_runtime::__layer_v1::{self as runtime, Protected};
use lock_runtime::error::LossCause;
use lock_runtime::fence::{Fenced, Fences, NotExclusive};
#[cfg(feature = "redis")]
use lock_runtime::guard::RedisCommand;
use lock_runtime::guard::{LockWatch, Release};
use lock_runtime::{FencingToken, LockError, LockGuard, LockKey};
use pin_project_lite::pin_project;
use tokio::sync::SetOnce;
use tokio::task;
#[cfg(feature = "http")]
use tokio::time::Instant;
use tokio::time::{Timeout, timeout};

thread_local! {
    /// The hold of the innermost layer, if that holds a lock, and the task that has entered it: other tasks that a handler
    /// happens to poll, of a `LocalSet`, are outside.
    static CURRENT: RefCell<(Option<CurrentHold>, Option<task::Id>)> = const { RefCell::new((None, None)) };
}

/// The lock that a layer holds around the running handler.
///
/// Returned by [`HeldLock::current`] and, with the feature `axum-08`, by an extractor. It does not keep the lock
/// held: the hold ends with the call, or earlier by [`release`](Self::release), even if this value lives on.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, LockError, LockKey};
/// use lock_tower::{HeldLock, LockLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let layer = LockLayer::new(LockClient::in_memory(), |id: &u64| {
///     Ok(Some(LockKey::builder().text("account:").part(id).build()?))
/// });
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(|_: u64| async {
///     let held = HeldLock::current().expect("there is a lock layer around this service");
///     let fence = held.token(); // for the write: … WHERE fence <= $1
///     held.release().await?;
///     // Slow work that needs no lock.
///     Ok::<_, LockError>(fence)
/// }));
/// assert!(service.oneshot(7).await?.get() > 0);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HeldLock(Arc<SharedHold>);

impl HeldLock {
    /// Returns the lock of the innermost layer around the running code.
    ///
    /// It never returns an outer layer's lock instead: `None` if the innermost layer runs the request without
    /// a lock, because the request needs none or the policy is not enforced. `None` also without a layer, and
    /// in spawned tasks: call this before spawning, and move the value into the task.
    ///
    /// Below several layers, compare the [`key`](Self::key) to find out whose lock this is.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow_mut(|(current, task)| {
            let hold = current.as_mut().filter(|_| *task == task::try_id())?;
            let shared = hold.shared.get_or_insert_with(|| {
                let (asked, layer, outcome) = Default::default();
                Arc::new(SharedHold { watch: hold.watch.clone(), asked, layer, outcome })
            });
            Some(Self(Arc::clone(shared)))
        })
    }

    /// Returns the key of the lock, as [`LockGuard::key`] does. It distinguishes the locks of nested layers.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, LockKey};
    /// use lock_tower::{HeldLock, LockLayer};
    /// use tower::{Service, ServiceBuilder, service_fn};
    ///
    /// let locks = LockClient::in_memory();
    /// let tenant = LockLayer::new(locks.clone(), |_: &u64| LockKey::new("tenant:7").map(Some));
    /// let order = LockLayer::new(locks, |id: &u64| LockKey::new(&format!("order:{id}")).map(Some));
    /// let mut service = ServiceBuilder::new().layer(tenant).layer(order).service(service_fn(
    ///     |_: u64| async { Ok::<_, std::io::Error>(HeldLock::current().map(|held| held.key().clone())) },
    /// ));
    /// assert_eq!(service.call(42).await?, Some(LockKey::new("order:42")?));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.0.watch.key()
    }

    /// Returns the fencing token of the hold, as [`LockGuard::token`] does.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.0.watch.token()
    }

    /// Returns the rest of the lease, as [`LockGuard::remaining`] does, without renewals to come; zero once the hold
    /// is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.0.outcome.get() {
            Some(_) => Duration::ZERO,
            None => self.0.watch.remaining(),
        }
    }

    /// True once the call's hold is lost or released.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.outcome.get().is_some() || self.0.watch.is_lost()
    }

    /// Returns a Redis command that the server runs only if the hold of the call owns the lock at that moment, as
    /// [`LockGuard::redis`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockError;
    /// use lock_tower::HeldLock;
    ///
    /// async fn sell(held: HeldLock) -> Result<(), LockError> {
    ///     held.redis("HINCRBY").key("stock").arg("7").arg(-1).run().await?;
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(&self, command: impl Into<String>) -> RedisCommand {
        self.0.watch.redis(command)
    }

    /// Waits until the hold is lost or released, and returns which: the cause of an error after a release in time is
    /// [`LossCause::Released`](lock_runtime::error::LossCause::Released).
    ///
    /// For tasks that the handler has spawned: the handler itself is dropped when the hold is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LockError {
        let lost = self.0.watch.lost().await;
        match self.0.outcome.get() {
            // The store answered the release that it had known no such hold.
            Some(Err(error)) if error.is_lost() => error.clone(),
            _ => lost,
        }
    }

    /// Releases the lock before the call ends, and waits until the store confirms the release.
    ///
    /// The rest of the handler runs unprotected, and a lock that it acquires under this name is no re-entry.
    /// A second call returns the outcome of the first.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the layer goes on with the release.
    pub async fn release(&self) -> Result<(), LockError> {
        self.0.asked.store(true, Ordering::Release);
        self.0.layer.wake();
        self.0.outcome.wait().await.clone()
    }
}

impl Fenced for HeldLock {
    fn fences(&self) -> Result<Fences, NotExclusive> {
        self.0.watch.fences()
    }
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLock")
            .field("key", self.key())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// The state of a hold that the handler shares with its layer.
struct SharedHold {
    watch: LockWatch,
    /// True once the handler has asked for the release.
    asked: AtomicBool,
    /// Wakes the layer's task when the handler asks.
    layer: AtomicWaker,
    outcome: SetOnce<Result<(), LockError>>,
}

impl SharedHold {
    /// Stores the outcome of the release. A second outcome is ignored.
    fn finish(&self, outcome: Result<(), LockError>) {
        let _is_first = self.outcome.set(outcome);
    }

    /// Stores the outcome of a release whose answer is not waited for: whether the guard had its lock to the end.
    fn finish_unconfirmed(&self) {
        self.finish(match self.watch.check() {
            Err(LockError::Lost { cause: LossCause::Released, .. }) => Ok(()),
            ended => ended,
        });
    }
}

/// A hold as the code under it sees it.
struct CurrentHold {
    watch: LockWatch,
    /// `None` until the handler asks for its [`HeldLock`].
    shared: Option<Arc<SharedHold>>,
}

impl Drop for CurrentHold {
    /// Ends the wait of a task for a release that goes on in the background.
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.finish_unconfirmed();
        }
    }
}

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs code with `current` as the thread's hold, and returns that again.
fn enter<T>(
    current: Option<CurrentHold>,
    run: impl FnOnce() -> T,
) -> (Result<T, Panic>, Option<CurrentHold>) {
    let outer = CURRENT.replace((current, task::try_id()));
    // Unwind safe: after a panic the code is not run again.
    let result = catch_unwind(AssertUnwindSafe(run));
    (result, CURRENT.replace(outer).0)
}

/// Runs code for which the layer holds no lock, and hides an outer layer's hold from it.
pub(crate) fn without_lock<T>(run: impl FnOnce() -> T) -> T {
    enter(None, run).0.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Why the code under a guard has no result.
pub(crate) enum Stopped {
    Lost(LockError),
    /// To be resumed after the release, so that an outer layer that turns the panic into an answer finds the
    /// lock free.
    Panicked(Panic),
}

/// How a hold ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// How long the result waits for the release.
    pub(crate) release_timeout: Duration,
    /// True if a loss replaces the result of a call that ran on after it.
    pub(crate) reports_loss: bool,
    /// True if a loss that only the release finds replaces the result.
    pub(crate) reports_late_loss: bool,
}

/// The hold of one call, as the layer has it.
pub(crate) struct Hold {
    /// `None` once the lock is released early.
    guard: Option<LockGuard>,
    early_release: Option<Release>,
    terms: Terms,
    #[cfg(feature = "http")]
    pub(crate) acquired_at: Instant,
    /// Where its drop records how long it was held.
    #[cfg(feature = "http")]
    pub(crate) times: Option<Arc<HoldTimes>>,
    // Dropped last: its drop reports that the guard is gone.
    current: Option<CurrentHold>,
}

impl Hold {
    pub(crate) fn new(guard: LockGuard, terms: Terms) -> Self {
        let current = Some(CurrentHold { watch: guard.watch(), shared: None });
        Self {
            guard: Some(guard),
            early_release: None,
            terms,
            #[cfg(feature = "http")]
            acquired_at: Instant::now(),
            #[cfg(feature = "http")]
            times: None,
            current,
        }
    }

    /// Returns a loss that did not stop the call, because the call was to finish (`OnLost::Finish`).
    pub(crate) fn check(&self) -> Result<(), LockError> {
        match (&self.guard, &self.current) {
            (Some(_), Some(current)) if self.terms.reports_loss => current.watch.check(),
            _ => Ok(()),
        }
    }

    /// Releases the lock in the background, after `warning` was logged; the call goes on without it.
    #[cfg(feature = "http")]
    pub(crate) fn release_in_background(&mut self, warning: Option<&str>) {
        if let Some(guard) = self.guard.take()
            && let Some(warning) = warning
        {
            runtime::log_warn(&guard.watch(), None, warning);
        }
    }

    /// True once the lock is released early; the call goes on without it.
    pub(crate) fn is_released(&self) -> bool {
        self.guard.is_none()
    }

    /// Polls `run` under the guard, or without a guard after an early release.
    pub(crate) fn poll<B, T>(
        &mut self,
        mut run: Pin<&mut Protected<B>>,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut B>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Stopped>> {
        let guard = &self.guard;
        let (polled, current) = enter(self.current.take(), || match guard {
            Some(guard) => run.poll_with(guard, cx, poll),
            None => match run.as_mut().get_pin_mut() {
                Some(body) => poll(body, cx).map(Ok),
                None => Poll::Pending,
            },
        });
        self.current = current;
        let polled = match polled {
            Ok(polled) => polled.map_err(Stopped::Lost),
            Err(panic) => Poll::Ready(Err(Stopped::Panicked(panic))),
        };
        // Also after a frame: a body that always has its next frame never returns `Pending`.
        if !matches!(polled, Poll::Ready(Err(_))) {
            self.poll_early_release(cx);
        }
        polled
    }

    /// Starts the early release when the handler asks for it, and reports its outcome.
    fn poll_early_release(&mut self, cx: &mut Context<'_>) {
        let Some(shared) = self.current.as_ref().and_then(|current| current.shared.as_ref()) else {
            return;
        };
        shared.layer.register(cx.waker());
        if !shared.asked.load(Ordering::Acquire) || shared.outcome.get().is_some() {
            return;
        }
        let release = match (&mut self.early_release, self.guard.take()) {
            (Some(release), _) => release,
            (None, Some(guard)) => self.early_release.insert(guard.release()),
            // The lock was released in the background, which reports no outcome.
            (None, None) => return shared.finish_unconfirmed(),
        };
        if let Poll::Ready(outcome) = Pin::new(release).poll(cx) {
            self.early_release = None;
            shared.finish(outcome);
        }
    }

    /// Starts the release, or goes on with the early one if it is still under way.
    pub(crate) fn release(mut self) -> Releasing {
        let release = self.guard.take().map(LockGuard::release).or(self.early_release.take());
        let release = release.map(|release| timeout(self.terms.release_timeout, release));
        let current = self.current.take().filter(|_| release.is_some());
        Releasing { release, current, reports_loss: self.terms.reports_late_loss }
    }
}

#[cfg(feature = "http")]
impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(times) = &self.times {
            times.record(self.acquired_at.elapsed());
        }
    }
}

/// A running mean of how long the requests of a plan hold their locks.
#[cfg(feature = "http")]
#[derive(Debug, Default)]
pub(crate) struct HoldTimes {
    /// In nanoseconds; zero before the first hold.
    mean: AtomicU64,
}

#[cfg(feature = "http")]
impl HoldTimes {
    pub(crate) fn record(&self, held: Duration) {
        let held = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX).max(1);
        let mean = match self.mean.load(Ordering::Relaxed) {
            0 => held,
            // An eighth of the way, so that one request changes the mean little.
            mean => mean - mean / 8 + held / 8,
        };
        // Of two concurrent calls, one may be lost, which a mean tolerates; nothing else depends on the value.
        self.mean.store(mean, Ordering::Relaxed);
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean.load(Ordering::Relaxed))
    }
}

pin_project! {
    /// Waits until the store confirms a release, for a bounded time; after that the release goes on in the background.
    ///
    /// The output is an error if a loss replaces the call's result. A call that ended in time keeps its result even if
    /// its release fails, unless losses are reported.
    // S-13.
    pub(crate) struct Releasing {
        // `None` if there is nothing to release, or no more.
        #[pin]
        release: Option<Timeout<Release>>,
        current: Option<CurrentHold>,
        reports_loss: bool,
    }
}

#[cfg(feature = "http")]
impl Releasing {
    /// For a hold that is gone.
    pub(crate) fn over() -> Self {
        Self { release: None, current: None, reports_loss: false }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.release.is_none()
    }
}

impl Future for Releasing {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(release) = this.release.as_mut().as_pin_mut() else { return Poll::Ready(Ok(())) };
        let released = std::task::ready!(release.poll(cx));
        // Dropped now and not with this future, so that the releaser takes over an unconfirmed release.
        this.release.set(None);
        let Some(CurrentHold { watch, shared }) = &*this.current else {
            return Poll::Ready(Ok(()));
        };
        let Ok(released) = released else {
            runtime::log_debug(watch, "release not confirmed in time");
            *this.current = None;
            return Poll::Ready(Ok(()));
        };
        if let Some(shared) = shared {
            shared.finish(released.clone());
        }
        Poll::Ready(match released {
            Err(error @ LockError::Lost { .. }) if *this.reports_loss => Err(error),
            Err(error) => {
                let what = "the call ended, but its release failed";
                runtime::log_warn(watch, Some(&error), what);
                Ok(())
            }
            Ok(()) => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "http")]
    use super::*;

    #[cfg(feature = "http")]
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
}
