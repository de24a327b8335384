//! The body of an annotated function, in the one form that expansions pass: a closure. It is called with what the body
//! may know of its lock, and ignores what the body does not name. In an async function it returns the body's
//! future, in a plain one the body's value.
//!
//! The rest are values of the [call's spec](super::spec::CallSpec): whether the body names its guard, and whether it has a
//! fallback.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::state::Start;
use crate::guard::{LockGuard, Started};

/// What a body is started with. `G` is a reference to the guard, in a form that the body can keep.
#[derive(Debug)]
pub enum StartContext<G> {
    /// Its lock, which the body can access.
    Guard(G),
    /// Its lock, which the body does not name; or no lock, because the call needs none or is not enforced.
    NoGuard,
    /// Another holder has the lock: the fallback runs. Only for a body that has one.
    Busy,
}

impl<G: Deref<Target = LockGuard>> StartContext<G> {
    /// True if another holder has the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }

    /// Returns the guard; `None` for a call that needs no lock or only records what would have blocked it.
    pub fn guard(&self) -> Option<&LockGuard> {
        match self {
            Self::Guard(guard) => Some(guard),
            Self::NoGuard | Self::Busy => None,
        }
    }

    /// Returns the guard of a body that never runs without one: it names its guard, and has no `when`.
    ///
    /// # Panics
    ///
    /// If there is no guard.
    pub fn held(&self) -> &LockGuard {
        let Some(guard) = self.guard() else { unreachable!("a call without `when` is enforced") };
        guard
    }
}

/// A closure that makes the body of an async function. A trait and not a bound on `FnOnce`, so that the type of the body
/// follows from the type of the closure. As a second type parameter it would be compared again, without its lifetimes,
/// when the compiler checks whether a future is `Send`, and that check would fail.
pub trait Make {
    /// The body.
    type Body: Future<Output = Self::Output>;
    /// What the body returns.
    type Output;
    /// Makes the body.
    fn make(self, context: StartContext<Arc<LockGuard>>) -> Self::Body;
}

impl<C: FnOnce(StartContext<Arc<LockGuard>>) -> F, F: Future> Make for C {
    type Body = F;
    type Output = F::Output;

    fn make(self, context: StartContext<Arc<LockGuard>>) -> F {
        self(context)
    }
}

pin_project! {
    /// The body of a call.
    #[project = BodyProjection]
    pub(super) enum Body<C: Make> {
        Waiting { make: Option<C> },
        Running { #[pin] body: C::Body },
        /// The body was dropped. Its value, until the call returns it; `None` if it did not end by itself.
        Over { value: Option<C::Output> },
    }
}

impl<C: Make> Body<C> {
    /// Returns the body's value, once.
    pub(super) fn value(self: Pin<&mut Self>) -> Option<C::Output> {
        match self.project() {
            BodyProjection::Over { value } => value.take(),
            _ => None,
        }
    }
}

impl<C: Make> Start for Body<C> {
    fn start(mut self: Pin<&mut Self>, context: StartContext<Arc<LockGuard>>) {
        if let BodyProjection::Waiting { make } = self.as_mut().project()
            && let Some(make) = make.take()
        {
            self.set(Self::Running { body: make.make(context) });
        }
    }
}

impl<C: Make> Started for Body<C> {
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
