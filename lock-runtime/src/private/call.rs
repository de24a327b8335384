//! A running annotated function: it acquires the lock, runs the body, and releases the lock.
//!
//! A program may have hundreds of these: the code that needs no type of the function is in [`CallState`], which
//! is compiled once. For each function there is only the code that touches its body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::Body;
use super::returns::Returns;
use super::spec::CallSpec;
use super::state::CallState;
use crate::opaque::opaque_debug;

/// Runs `body` under the lock; any failure of the lock is returned as `returns` says, unless the body has a fallback
/// for a busy lock.
///
/// # Panics
///
/// If there is no client and the return type has no value for that: the body would never run.
#[track_caller]
pub fn locked<F, E>(spec: CallSpec, body: F, returns: Returns<F::Output, E>) -> Locked<F, E>
where
    F: Future,
{
    let state = CallState::new(spec, returns.can_say());
    Locked { body: Body::Running { body }, state, returns }
}

pin_project! {
    /// A running locked function: see [`locked`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<F: Future, E> {
        // Before the call state, which has the guard: fields are dropped in this order, and the body goes first
        // (S-13).
        #[pin]
        body: Body<F>,
        #[pin]
        state: CallState,
        returns: Returns<F::Output, E>,
    }
}

impl<F: Future, E> Future for Locked<F, E> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        if let Err(error) = ready!(this.state.poll(this.body.as_mut(), cx)) {
            return Poll::Ready(this.returns.error(error));
        }
        this.body.value().map_or(Poll::Pending, Poll::Ready)
    }
}

opaque_debug!(<F: Future, E> Locked<F, E>);
