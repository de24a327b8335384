//! A running annotated function: it acquires the lock, runs the body, and releases the lock.
//!
//! A program may have hundreds of these: the code that needs no type of the function is in [`CallState`], which
//! is compiled once. For each function there is only the code that touches its body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::{Body, Make, StartContext};
use super::returns::Returns;
use super::spec::CallSpec;
use super::state::CallState;
use crate::guard::LockGuard;
use crate::opaque::opaque_debug;

/// Runs the body that `make` makes under the lock; any failure of the lock is returned as `returns` says, unless the body
/// has a fallback for a busy lock.
///
/// # Panics
///
/// If there is no client and the return type has no value for that: the body would never run.
#[track_caller]
pub fn locked<C, F, E>(spec: CallSpec, make: C, returns: Returns<F::Output, E>) -> Locked<C, E>
where
    C: FnOnce(StartContext<Arc<LockGuard>>) -> F,
    F: Future,
{
    let body = match spec.is_wanted() {
        true => Body::Waiting { make: Some(make) },
        false => Body::Running { body: make(StartContext::NoGuard) },
    };
    Locked { body, state: CallState::new(spec, returns.can_say()), returns }
}

pin_project! {
    /// A running locked function: see [`locked`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<C: Make, E> {
        // Before the call state, which has the guard: fields are dropped in this order, and the body goes first
        // (S-13).
        #[pin]
        body: Body<C>,
        #[pin]
        state: CallState,
        returns: Returns<C::Output, E>,
    }
}

impl<C: Make, E> Future for Locked<C, E> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let mut this = self.project();
        if let Err(error) = ready!(this.state.poll(this.body.as_mut(), cx)) {
            return Poll::Ready(this.returns.error(error));
        }
        this.body.value().map_or(Poll::Pending, Poll::Ready)
    }
}

opaque_debug!(<C: Make, E> Locked<C, E>);
