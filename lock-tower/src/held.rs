//! [`HeldLock`]: the lock of a call, as the handler sees it.
//!
//! The layer keeps the guard, because it has to release the lock however the call ends. During each poll of
//! the call, [`HoldHandle::poll`] sets the thread's [`Current`] hold. A [`HeldLock`] that the handler takes
//! from there shares a [`SharedHold`] with the layer, through which the handler asks for an early release. A
//! layer that holds no lock for the call sets [`Current::Hidden`], so that the handler cannot take an outer
//! layer's hold for its own. A handler that never asks for its lock causes no allocation.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_runtime::__layer_v1::Protected;
use lock_runtime::error::LossCause;
use lock_runtime::guard::{LockWatch, Release};
use lock_runtime::{FencingToken, LockError, LockGuard, LockKey};
use parking_lot::Mutex;
use tokio::task;

thread_local! {
    /// The hold, and the task that has entered it: other tasks that a handler happens to poll, of a `LocalSet`, are outside.
    static CURRENT: RefCell<(Current, Option<task::Id>)> = const { RefCell::new((Current::Outside, None)) };
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
        CURRENT.with_borrow_mut(|(current, task)| match current {
            Current::Held(hold) if *task == task::try_id() => Some(hold.handle()),
            _ => None,
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
        match self.0.is_over() {
            true => Duration::ZERO,
            false => self.0.watch.remaining(),
        }
    }

    /// True once the call's hold is lost or released.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.is_over() || self.0.watch.is_lost()
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
        match &*self.0.stage.lock() {
            // The store answered the release that it had known no such hold.
            HoldStage::Over(Err(error)) if error.is_lost() => error.clone(),
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
        poll_fn(|cx| self.0.poll_release(cx)).await
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
    stage: Mutex<HoldStage>,
}

enum HoldStage {
    /// Held, and no release was asked for. With the waker of the layer's task, once the layer has looked.
    Held(Option<Waker>),
    /// The handler asked for the release. With the wakers of the tasks that wait for it.
    ReleaseAsked(Vec<Waker>),
    Over(Result<(), LockError>),
}

impl SharedHold {
    /// Stores the outcome of a release whose answer is not waited for: whether the guard had its lock to the end.
    fn finish_unconfirmed(&self) {
        self.finish(match self.watch.check() {
            Err(LockError::Lost { cause: LossCause::Released, .. }) => Ok(()),
            ended => ended,
        });
    }

    fn is_over(&self) -> bool {
        matches!(*self.stage.lock(), HoldStage::Over(_))
    }

    /// The handler's side: asks for the release, and waits for it.
    fn poll_release(&self, cx: &Context<'_>) -> Poll<Result<(), LockError>> {
        let mut stage = self.stage.lock();
        let layer = match &mut *stage {
            HoldStage::Over(result) => return Poll::Ready(result.clone()),
            HoldStage::ReleaseAsked(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    wakers.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            HoldStage::Held(layer) => layer.take(),
        };
        *stage = HoldStage::ReleaseAsked(vec![cx.waker().clone()]);
        drop(stage);
        if let Some(layer) = layer {
            layer.wake();
        }
        Poll::Pending
    }

    /// True if the handler asked for the release; otherwise wakes the layer when it does.
    fn is_release_asked(&self, cx: &Context<'_>) -> bool {
        match &mut *self.stage.lock() {
            HoldStage::Held(layer) => {
                layer.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
                false
            }
            HoldStage::ReleaseAsked(_) => true,
            HoldStage::Over(_) => false,
        }
    }

    /// Stores the outcome and wakes the tasks that wait for it. A second outcome is ignored.
    fn finish(&self, result: Result<(), LockError>) {
        let mut stage = self.stage.lock();
        if let HoldStage::Over(_) = *stage {
            return;
        }
        let before = std::mem::replace(&mut *stage, HoldStage::Over(result));
        drop(stage);
        if let HoldStage::ReleaseAsked(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// The lock of the code that this thread polls.
enum Current {
    /// No layer polls on this thread.
    Outside,
    /// The innermost layer holds no lock for this call.
    Hidden,
    Held(CurrentHold),
}

/// A hold as the code under it sees it.
pub(crate) struct CurrentHold {
    pub(crate) watch: LockWatch,
    /// `None` until the handler asks for its [`HeldLock`].
    shared: Option<Arc<SharedHold>>,
}

impl CurrentHold {
    fn handle(&mut self) -> HeldLock {
        let shared = self.shared.get_or_insert_with(|| {
            let stage = Mutex::new(HoldStage::Held(None));
            Arc::new(SharedHold { watch: self.watch.clone(), stage })
        });
        HeldLock(Arc::clone(shared))
    }

    /// Reports the outcome of the release to the tasks that wait for it.
    pub(crate) fn finish(&self, result: Result<(), LockError>) {
        if let Some(shared) = &self.shared {
            shared.finish(result);
        }
    }
}

impl Drop for CurrentHold {
    /// Ends the wait of a task for a release that goes on in the background.
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.finish_unconfirmed();
        }
    }
}

/// Sets the thread's current hold; restores the previous one when it is left, or dropped by a panic.
struct EnterGuard {
    outer: (Current, Option<task::Id>),
}

impl EnterGuard {
    fn new(current: Current) -> Self {
        Self { outer: CURRENT.replace((current, task::try_id())) }
    }

    /// Restores the previous hold and returns the one that was set.
    fn leave(mut self) -> Current {
        let entered = self.restore();
        std::mem::forget(self);
        entered
    }

    fn restore(&mut self) -> Current {
        CURRENT.replace(std::mem::replace(&mut self.outer, (Current::Outside, None))).0
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        let entered = self.restore();
        // Not before `CURRENT` is free again: this may wake a task.
        drop(entered);
    }
}

/// Runs code for which the layer holds no lock, and hides an outer layer's hold from it.
pub(crate) fn without_lock<T>(run: impl FnOnce() -> T) -> T {
    let _entered = EnterGuard::new(Current::Hidden);
    run()
}

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Why the code under a guard has no result.
pub(crate) enum Stopped {
    Lost(LockError),
    /// To be resumed after the release, so that an outer layer that turns the panic into an answer finds the
    /// lock free.
    Panicked(Panic),
}

/// The layer's handle of the guard of one call.
pub(crate) struct HoldHandle {
    /// `None` once the lock is released early.
    guard: Option<LockGuard>,
    early_release: Option<Release>,
    // Dropped last: its drop reports that the guard is gone.
    current: Option<CurrentHold>,
    reports_loss: bool,
}

impl HoldHandle {
    pub(crate) fn new(guard: LockGuard, reports_loss: bool) -> Self {
        let current = Some(CurrentHold { watch: guard.watch(), shared: None });
        Self { guard: Some(guard), early_release: None, current, reports_loss }
    }

    /// Returns a loss that did not stop the call, because the call was to finish (`OnLost::Finish`).
    pub(crate) fn check(&self) -> Result<(), LockError> {
        match (&self.guard, &self.current) {
            (Some(_), Some(current)) if self.reports_loss => current.watch.check(),
            _ => Ok(()),
        }
    }

    #[cfg(feature = "http")]
    pub(crate) fn log_warn(&self, what: &str) {
        if let Some(guard) = &self.guard {
            guard.watch().log_warn(None, what);
        }
    }

    /// Releases the lock in the background; the call goes on without it.
    #[cfg(feature = "http")]
    pub(crate) fn release_in_background(&mut self) {
        drop(self.guard.take());
    }

    /// True once the lock is released early; the call goes on without it.
    #[cfg(feature = "http")]
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
        let current = self.current.take().map_or(Current::Hidden, Current::Held);
        let entered = EnterGuard::new(current);
        let guard = &self.guard;
        // Unwind safe: after a panic the body is not polled again.
        let caught = catch_unwind(AssertUnwindSafe(|| match guard {
            Some(guard) => run.poll_with(guard, cx, poll),
            None => match run.as_mut().get_pin_mut() {
                Some(body) => poll(body, cx).map(Ok),
                None => Poll::Pending,
            },
        }));
        self.current = match entered.leave() {
            Current::Held(current) => Some(current),
            Current::Outside | Current::Hidden => None,
        };
        let polled = match caught {
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
        if shared.is_release_asked(cx) && self.early_release.is_none() {
            match self.guard.take() {
                Some(guard) => self.early_release = Some(guard.release()),
                // The lock was released in the background, which reports no outcome.
                None => shared.finish_unconfirmed(),
            }
        }
        if let Some(release) = &mut self.early_release
            && let Poll::Ready(result) = Pin::new(release).poll(cx)
        {
            self.early_release = None;
            shared.finish(result);
        }
    }

    /// Starts the release, or returns the early one if it is still under way. `None` if there is nothing to
    /// release.
    pub(crate) fn release(mut self) -> Option<(Release, CurrentHold)> {
        let release = match self.guard.take() {
            Some(guard) => guard.release(),
            None => self.early_release.take()?,
        };
        Some((release, self.current.take()?))
    }
}
