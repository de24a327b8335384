//! A running annotated function: it acquires the lock, runs the body, and releases the lock.
//!
//! A program may have hundreds of these: the code that needs no type of the function is in [`CallState`], which
//! is compiled once. For each function there is only the code that touches its body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::body::{Body, StartContext};
use super::returns::{ErrorReturn, SkipReturn};
use super::spec::CallSpec;
use super::state::{CallState, CanSay, Start};
use crate::error::LockError;
use crate::guard::Started;
use crate::opaque::opaque_debug;
use crate::options::Wait;

/// Runs `body` under the lock; any failure of the lock is returned as an error, unless the body has a fallback
/// for a busy lock.
pub fn locked<B: Body>(spec: CallSpec, body: B) -> Locked<B>
where
    B::Output: ErrorReturn,
{
    let returns = Returns { failed: B::Output::failed, skipped: None };
    Locked::new(spec, body, B::WAIT, returns, true)
}

/// Runs `body` under the lock, or skips it if another holder has the lock. Does not wait by default.
///
/// # Panics
///
/// If there is no client and the return type has no value for that: the body would never run.
#[track_caller]
pub fn locked_or_skip<B: Body>(spec: CallSpec, body: B) -> Locked<B>
where
    B::Output: SkipReturn,
{
    let spec = if B::Output::HAS_ERRORS { spec } else { spec.require_client() };
    let returns = Returns { failed: B::Output::failed, skipped: Some(B::Output::skipped) };
    Locked::new(spec, body, Some(Wait::Never), returns, B::Output::HAS_ERRORS)
}

/// How failures become the return type. A field and not a bound on the future: a failing bound would be
/// reported for the call and once more for its `.await`.
pub(super) struct Returns<T> {
    pub(super) failed: fn(LockError) -> T,
    pub(super) skipped: Option<fn() -> T>,
}

impl<T> Returns<T> {
    pub(super) fn error(&self, error: LockError) -> T {
        match self.skipped {
            Some(skipped) if error.is_busy() => skipped(),
            _ => (self.failed)(error),
        }
    }
}

pin_project! {
    /// A running locked function: see [`locked`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<B: Body> {
        // Before the call state, which has the guard: fields are dropped in this order, and the body goes first
        // (S-13).
        #[pin]
        slot: Slot<B>,
        #[pin]
        state: CallState,
        returns: Returns<B::Output>,
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

impl<B: Body> Locked<B> {
    fn new(
        spec: CallSpec,
        body: B,
        unless_said: Option<Wait>,
        returns: Returns<B::Output>,
        has_errors: bool,
    ) -> Self {
        let can_say = CanSay { errors: has_errors, skipped: returns.skipped.is_some() };
        let state = CallState::new(spec, unless_said, B::NEEDS_GUARD, can_say);
        Self { slot: Slot { body, value: None }, state, returns }
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

impl<B: Body> Future for Locked<B> {
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

opaque_debug!(<B: Body> Locked<B>);
