//! [`HeldLock`]: the lock of the call, as what runs under it sees it.
//!
//! The guard stays with the layer, which has to release it however the call ends. For the time of each
//! poll, [`Grip::poll`] sets the thread's [`Current`] hold, and a [`HeldLock`] made of it has a slot by
//! which handler and layer talk. A layer that holds no lock for the call sets [`Current::Hidden`], so
//! that nothing in it takes an outer layer's hold for its own. A call that never asks costs nothing.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_runtime::guard::{LockWatch, Protected, Release};
use lock_runtime::{FencingToken, LockError, LockGuard, LockKey};
use parking_lot::{Mutex, MutexGuard};

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::Outside) };
}

/// The lock that a layer holds around the running handler.
///
/// Got from [`HeldLock::current`] or, with the feature `axum`, as an extractor. It does not keep the
/// lock: that ends with the call, or earlier by [`release`](Self::release), wherever this is kept.
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
///     // What takes long and needs no lock.
///     Ok::<_, LockError>(fence)
/// }));
/// assert!(service.oneshot(7).await?.get() > 0);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HeldLock(Arc<Slot>);

impl HeldLock {
    /// The lock of the innermost layer around the code that runs. An outer layer's lock never stands in
    /// for it: `None` if the innermost layer lets the request through without a lock, because it needs none
    /// or its policy is not enforced. `None` also without a layer, and in spawned tasks: get it before, and
    /// take it along.
    ///
    /// A service that wants the token of one layer of several asks for its [`key`](Self::key).
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::current_or_else(|| None)
    }

    /// As [`current`](Self::current); `elsewhere` is asked where no layer polls on this thread.
    pub(crate) fn current_or_else(elsewhere: impl FnOnce() -> Option<Self>) -> Option<Self> {
        let current = CURRENT.with_borrow_mut(|current| match current {
            Current::Outside => None,
            Current::Hidden => Some(None),
            Current::Held(hold) => Some(Some(hold.handle())),
        });
        current.unwrap_or_else(elsewhere)
    }

    /// The name of the lock, as [`LockGuard::key`]. It tells the locks of nested layers apart.
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

    /// The fencing token of the hold: as [`LockGuard::token`].
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.0.watch.token()
    }

    /// What is left of the lease if nothing renews it, less the margin of
    /// [`LockGuard::remaining`]; zero once lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.0.is_over() {
            true => Duration::ZERO,
            false => self.0.watch.remaining(),
        }
    }

    /// True once the call's hold was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match &*self.0.stage() {
            Stage::Over(result) => result.as_ref().is_err_and(LockError::is_lost),
            _ => self.0.watch.is_lost(),
        }
    }

    /// Waits until the hold is lost, and says how. For ever, if it is given back before.
    ///
    /// The handler itself is dropped at that moment; this is for tasks that it has spawned.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LockError {
        let lost = self.0.watch.lost().await;
        match &*self.0.stage() {
            Stage::Over(Ok(())) => {}
            _ => return lost,
        }
        std::future::pending().await
    }

    /// Gives the lock back before the call is over, and waits for the store's word. What the handler
    /// does from here on, nothing protects, and a lock that it takes under this name is no re-entry.
    /// A second time, the first one's outcome.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// Dropped half way, the layer goes on with the release.
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

/// Where a handler and its layer meet.
struct Slot {
    watch: LockWatch,
    stage: Mutex<Stage>,
}

enum Stage {
    /// Nobody wants it back. The layer's task, once it has looked.
    Held(Option<Waker>),
    /// Who asked waits for the answer.
    Asked(Vec<Waker>),
    Over(Result<(), LockError>),
}

impl Slot {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock()
    }

    fn is_over(&self) -> bool {
        matches!(*self.stage(), Stage::Over(_))
    }

    fn poll_release(&self, cx: &Context<'_>) -> Poll<Result<(), LockError>> {
        let mut stage = self.stage();
        let layer = match &mut *stage {
            Stage::Over(result) => return Poll::Ready(result.clone()),
            Stage::Asked(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    wakers.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            Stage::Held(layer) => layer.take(),
        };
        *stage = Stage::Asked(vec![cx.waker().clone()]);
        drop(stage);
        if let Some(layer) = layer {
            layer.wake();
        }
        Poll::Pending
    }

    /// The layer's look: true if the lock is wanted back; else it is woken when it is.
    fn is_asked(&self, cx: &Context<'_>) -> bool {
        match &mut *self.stage() {
            Stage::Held(layer) => {
                layer.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
                false
            }
            Stage::Asked(_) => true,
            Stage::Over(_) => false,
        }
    }

    fn end(&self, result: Result<(), LockError>) {
        let mut stage = self.stage();
        if let Stage::Over(_) = *stage {
            return;
        }
        let before = std::mem::replace(&mut *stage, Stage::Over(result));
        drop(stage);
        if let Stage::Asked(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// What the thread says of the lock of the code that it polls.
enum Current {
    /// No layer polls on this thread.
    Outside,
    /// The innermost layer holds no lock for this call.
    Hidden,
    Held(CurrentHold),
}

/// A hold as the code under it sees it.
struct CurrentHold {
    watch: LockWatch,
    slot: Option<Arc<Slot>>,
}

impl CurrentHold {
    fn handle(&mut self) -> HeldLock {
        let slot = self.slot.get_or_insert_with(|| {
            Arc::new(Slot { watch: self.watch.clone(), stage: Mutex::new(Stage::Held(None)) })
        });
        HeldLock(Arc::clone(slot))
    }
}

impl Drop for CurrentHold {
    /// A task that still waits for the release learns that the layer goes on with it.
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.end(self.watch.check());
        }
    }
}

/// Sets the thread's current hold; left, or dropped while unwinding, the one before is current again.
struct EnterGuard {
    outer: Current,
}

impl EnterGuard {
    fn new(current: Current) -> Self {
        Self { outer: CURRENT.replace(current) }
    }

    /// Gives back what was entered with.
    fn leave(mut self) -> Current {
        let outer = std::mem::replace(&mut self.outer, Current::Outside);
        let entered = CURRENT.replace(outer);
        std::mem::forget(self);
        entered
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        let entered = CURRENT.replace(std::mem::replace(&mut self.outer, Current::Outside));
        // Not before `CURRENT` is free again: this may wake a task.
        drop(entered);
    }
}

/// Runs what a layer lets through without a lock: an outer layer's hold is not its own.
pub(crate) fn without_lock<T>(run: impl FnOnce() -> T) -> T {
    let _entered = EnterGuard::new(Current::Hidden);
    run()
}

/// What code panicked with.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Why what ran under a guard has no result.
pub(crate) enum Stopped {
    Lost(LockError),
    /// To be resumed when the lock is released, so that the layer that makes an answer of it finds the lock free.
    Panicked(Panic),
}

/// The guard of one call, in the hand of its layer.
pub(crate) struct HoldHandle {
    guard: Option<LockGuard>,
    early: Option<Release>,
    // Dropped last: it says that the guard is gone.
    current: Option<CurrentHold>,
    reports_loss: bool,
}

impl HoldHandle {
    pub(crate) fn new(guard: LockGuard, reports_loss: bool) -> Self {
        let current = Some(CurrentHold { watch: guard.watch(), slot: None });
        Self { guard: Some(guard), early: None, current, reports_loss }
    }

    /// A handle that is not bound to the thread.
    #[cfg(feature = "http")]
    pub(crate) fn held(&mut self) -> Option<HeldLock> {
        self.current.as_mut().map(CurrentHold::handle)
    }

    /// Reports a loss that has not stopped what ran under the guard, because it was to finish.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        match (&self.guard, &self.current) {
            (Some(_), Some(current)) if self.reports_loss => current.watch.check(),
            _ => Ok(()),
        }
    }

    /// Logs what became of the hold.
    #[cfg(feature = "http")]
    pub(crate) fn log_warn(&self, what: &str) {
        if let Some(guard) = &self.guard {
            guard.watch().log_warn(None, what);
        }
    }

    /// Gives the guard back in the background; what runs goes on without it.
    #[cfg(feature = "http")]
    pub(crate) fn give_back(&mut self) {
        drop(self.guard.take());
    }

    /// True once the guard was given back early: what goes on does so without it.
    #[cfg(feature = "http")]
    pub(crate) fn is_given_back(&self) -> bool {
        self.guard.is_none()
    }

    /// Polls what runs under the guard; on its own where the guard was given back early.
    pub(crate) fn poll<B, T>(
        &mut self,
        mut run: Pin<&mut Protected<B>>,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut B>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Stopped>> {
        let current = self.current.take().map_or(Current::Hidden, Current::Held);
        let entered = EnterGuard::new(current);
        let guard = &self.guard;
        // What has panicked is not polled again, so nothing sees what it left half done.
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
        if polled.is_pending() {
            self.serve(cx);
        }
        polled
    }

    /// Does what the handler has asked for.
    fn serve(&mut self, cx: &mut Context<'_>) {
        let Some(slot) = self.current.as_ref().and_then(|current| current.slot.as_ref()) else {
            return;
        };
        if slot.is_asked(cx)
            && let Some(guard) = self.guard.take()
        {
            self.early = Some(guard.release());
        }
        if let Some(release) = &mut self.early
            && let Poll::Ready(result) = Pin::new(release).poll(cx)
        {
            self.early = None;
            slot.end(result);
        }
    }

    /// Lets go: what is left to release, and what to tell when it is done. `None` if nothing is.
    pub(crate) fn let_go(mut self) -> Option<(Release, LetGo)> {
        let release = match self.guard.take() {
            Some(guard) => guard.release(),
            None => self.early.take()?,
        };
        Some((release, LetGo(self.current.take()?)))
    }
}

impl fmt::Debug for HoldHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldHandle").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// What is left of a grip once its guard is being released.
pub(crate) struct LetGo(CurrentHold);

impl LetGo {
    pub(crate) fn watch(&self) -> &LockWatch {
        &self.0.watch
    }

    pub(crate) fn end(&self, result: Result<(), LockError>) {
        if let Some(slot) = &self.0.slot {
            slot.end(result);
        }
    }
}
