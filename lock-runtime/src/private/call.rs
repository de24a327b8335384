//! A running annotated function: it acquires the lock, runs the body, and releases the lock.
//!
//! A program may have hundreds of these: the code that needs no type of the function is in [`CallState`], which
//! is compiled once. For each function there is only the code that touches its body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::{Body, StartContext};
use super::returns::Returns;
use super::spec::CallSpec;
use super::state::{CallState, CanSay, Start};
use crate::guard::Started;
use crate::opaque::opaque_debug;
use crate::options::Wait;

/// Runs `body` under the lock; any failure of the lock is returned as `returns` says, unless the body has a fallback
/// for a busy lock.
///
/// # Panics
///
/// If there is no client and the return type has no value for that: the body would never run.
#[track_caller]
pub fn locked<B: Body, E>(spec: CallSpec, body: B, returns: Returns<B::Output, E>) -> Locked<B, E> {
    let spec = if returns.has_errors() { spec } else { spec.require_client() };
    // A call that another process makes in its place does not wait for that process.
    let unless_said = if returns.skips() { Some(Wait::None) } else { B::WAIT };
    let can_say = CanSay::of(&returns);
    let state = CallState::new(spec, unless_said, B::NEEDS_GUARD, can_say);
    Locked { slot: Slot { body, value: None }, state, returns }
}

pin_project! {
    /// A running locked function: see [`locked`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<B: Body, E> {
        // Before the call state, which has the guard: fields are dropped in this order, and the body goes first
        // (S-13).
        #[pin]
        slot: Slot<B>,
        #[pin]
        state: CallState,
        returns: Returns<B::Output, E>,
    }
}

pin_project! {
    /// A body, and its value once it has ended.
    struct Slot<B: Body> {
        #[pin]
        body: B,
        value: Option<B::Output>,
    }
}

impl<B: Body> Start for Slot<B> {
    fn start(self: Pin<&mut Self>, context: &mut StartContext) -> bool {
        self.project().body.start(context)
    }
}

impl<B: Body> Started for Slot<B> {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        *this.value = Some(ready!(this.body.poll(cx)));
        Poll::Ready(())
    }

    fn end(self: Pin<&mut Self>) {
        let this = self.project();
        this.body.end();
        *this.value = None;
    }
}

impl<B: Body, E> Future for Locked<B, E> {
    type Output = B::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        let this = self.project();
        let mut slot = this.slot;
        if let Err(error) = ready!(this.state.poll(slot.as_mut(), cx)) {
            return Poll::Ready(this.returns.error(error));
        }
        slot.project().value.take().map_or(Poll::Pending, Poll::Ready)
    }
}

opaque_debug!(<B: Body, E> Locked<B, E>);
