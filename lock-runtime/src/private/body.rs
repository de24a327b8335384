//! The body of an annotated function, in the one form that expansions pass: a future, or in a plain function a closure. A body
//! that names its guard or has a fallback reads from a [`View`] what became of the lock.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::guard::{LockGuard, Started};

/// What a body knows of its lock. The call and the body share it: the call fills it in before it runs the body, and takes the
/// guard out after the body was dropped. It stays empty if the call runs without a lock.
///
/// It is not an argument of the body: an async body would be a closure then, and the compiler would report a reference that
/// lives too short at the closure, and not in the user's code.
// S-13.
#[derive(Debug, Clone, Default)]
pub struct View(Arc<OnceLock<Seen>>);

/// What became of the lock.
#[derive(Debug)]
pub(super) enum Seen {
    Guard(LockGuard),
    Busy,
}

impl View {
    /// True if another holder has the lock, and the fallback runs.
    pub fn is_busy(&self) -> bool {
        matches!(self.0.get(), Some(Seen::Busy))
    }

    /// Returns the guard; `None` for a call that needs no lock or only records what would have blocked it.
    pub fn guard(&self) -> Option<&LockGuard> {
        match self.0.get() {
            Some(Seen::Guard(guard)) => Some(guard),
            Some(Seen::Busy) | None => None,
        }
    }

    /// Returns the guard of a body that never runs without one: the attribute names the guard, and has no `when`.
    ///
    /// # Panics
    ///
    /// If there is no guard.
    pub fn held(&self) -> &LockGuard {
        let Some(guard) = self.guard() else { unreachable!("the body runs under its lock") };
        guard
    }

    /// Fills the view in. Called once: a call acquires once.
    pub(super) fn show(&self, seen: Seen) {
        let _is_first = self.0.set(seen);
    }
}

/// The guard of a running body.
pub(super) enum RunGuard {
    /// The body does not see it. This saves the allocation of a view: `attribute, beyond by hand` in `benches/baseline.json`.
    Own(LockGuard),
    Seen(View),
}

impl RunGuard {
    pub(super) fn new(guard: LockGuard, view: Option<View>) -> Self {
        let Some(view) = view else { return Self::Own(guard) };
        view.show(Seen::Guard(guard));
        Self::Seen(view)
    }

    pub(super) fn get(&self) -> &LockGuard {
        match self {
            Self::Own(guard) => guard,
            Self::Seen(view) => view.held(),
        }
    }

    /// Returns the guard, for the release. The body was dropped before, and its view with it.
    pub(super) fn into_inner(self) -> Option<LockGuard> {
        match self {
            Self::Own(guard) => Some(guard),
            Self::Seen(View(seen)) => match Arc::into_inner(seen)?.into_inner()? {
                Seen::Guard(guard) => Some(guard),
                Seen::Busy => None,
            },
        }
    }
}

pin_project! {
    /// The body of an async function.
    #[project = BodyProjection]
    pub(super) enum Body<F: Future> {
        /// Before its first poll, too.
        Running { #[pin] body: F },
        /// The body was dropped. Its value, until the call returns it; `None` if the body did not end by itself.
        Over { value: Option<F::Output> },
    }
}

impl<F: Future> Body<F> {
    /// Returns the body's value, once.
    pub(super) fn value(self: Pin<&mut Self>) -> Option<F::Output> {
        match self.project() {
            BodyProjection::Running { .. } => None,
            BodyProjection::Over { value } => value.take(),
        }
    }
}

impl<F: Future> Started for Body<F> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let BodyProjection::Running { body } = self.as_mut().project() else {
            return Poll::Pending;
        };
        let value = ready!(body.poll(cx));
        self.set(Self::Over { value: Some(value) });
        Poll::Ready(())
    }

    fn end(mut self: Pin<&mut Self>) {
        self.set(Self::Over { value: None });
    }
}

/// Calls the body of a function that returns a future.
pub fn future<F: Future>(body: impl FnOnce() -> F) -> F {
    body()
}

/// Never called: it gives the compiler the type of a body.
pub fn never<T>() -> T {
    loop {
        std::thread::park();
    }
}
