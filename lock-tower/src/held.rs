//! [`HeldLock`]: the lock of the call, as what runs under it sees it.
//!
//! The guard stays with the layer, which has to let go of it whatever becomes of the call. A handler
//! asks: [`Grip::poll`] leaves word on the thread for the time of each poll, and a [`HeldLock`] made
//! of it has a slot by which the two talk. A call that never asks costs nothing.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_runtime::{FencingToken, LockError, LockGuard, LockWatch, Protected, Release};

thread_local! {
    static CURRENT: RefCell<Option<Word>> = const { RefCell::new(None) };
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
    /// The lock of the innermost layer around the code that runs. `None` without a layer, for a request
    /// that needed no lock or runs without because its policy is not enforced, and in spawned tasks: get
    /// it before, and take it along.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow_mut(|current| Some(current.as_mut()?.held()))
    }

    /// The fencing token of the hold: as [`LockGuard::token`].
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.0.watch.token()
    }

    /// What is left of the lease if nothing renews it; zero once lost or released.
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
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
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

/// What is left on the thread while something runs under a lock.
struct Word {
    watch: LockWatch,
    slot: Option<Arc<Slot>>,
}

impl Word {
    fn held(&mut self) -> HeldLock {
        let slot = self.slot.get_or_insert_with(|| {
            Arc::new(Slot { watch: self.watch.clone(), stage: Mutex::new(Stage::Held(None)) })
        });
        HeldLock(Arc::clone(slot))
    }
}

impl Drop for Word {
    /// Whoever still waits for the release learns that it is under way without him.
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.end(self.watch.check());
        }
    }
}

/// Puts a word on the thread; taken back, or dropped while unwinding, the one before is there again.
struct Spoken(Option<Word>);

impl Spoken {
    fn new(word: Option<Word>) -> Self {
        Self(CURRENT.replace(word))
    }

    fn take_back(mut self) -> Option<Word> {
        let outer = self.0.take();
        let word = CURRENT.replace(outer);
        std::mem::forget(self);
        word
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        let word = CURRENT.replace(self.0.take());
        drop(word);
    }
}

/// The guard of one call, in the hand of its layer.
pub(crate) struct Grip {
    guard: Option<LockGuard>,
    early: Option<Release>,
    // Dropped last: it says that the guard is gone.
    word: Option<Word>,
    reports_loss: bool,
}

impl Grip {
    pub(crate) fn new(guard: LockGuard, reports_loss: bool) -> Self {
        let word = Some(Word { watch: guard.watch(), slot: None });
        Self { guard: Some(guard), early: None, word, reports_loss }
    }

    /// A handle that is not bound to the thread.
    #[cfg(feature = "http")]
    pub(crate) fn held(&mut self) -> Option<HeldLock> {
        self.word.as_mut().map(Word::held)
    }

    /// Reports a loss that has not stopped what ran under the guard, because it was to finish.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        match (&self.guard, &self.word) {
            (Some(_), Some(word)) if self.reports_loss => word.watch.check(),
            _ => Ok(()),
        }
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
    ) -> Poll<Result<T, LockError>> {
        let spoken = Spoken::new(self.word.take());
        let polled = match &self.guard {
            Some(guard) => run.poll_with(guard, cx, poll),
            None => match run.as_mut().get_pin_mut() {
                Some(body) => poll(body, cx).map(Ok),
                None => Poll::Pending,
            },
        };
        self.word = spoken.take_back();
        if polled.is_pending() {
            self.serve(cx);
        }
        polled
    }

    /// Does what the handler has asked for.
    fn serve(&mut self, cx: &mut Context<'_>) {
        let Some(slot) = self.word.as_ref().and_then(|word| word.slot.as_ref()) else { return };
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
        Some((release, LetGo(self.word.take()?)))
    }
}

impl fmt::Debug for Grip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grip").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// What is left of a grip once its guard is being released.
pub(crate) struct LetGo(Word);

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
