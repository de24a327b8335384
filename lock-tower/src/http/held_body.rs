//! [`HeldBody`], a body that is sent while the lock is held.
//!
//! 1. The inner body is polled under the guard, as the handler was, and dropped before the guard. If the
//!    reaper cuts the body off, it cannot drop the inner body, which is then not polled again.
//! 2. What would let the client see the end (the last frame, or the end itself) is kept back until the
//!    release ends, so that the client's next request finds the lock free.
//! 3. A body that must not look complete ends with an error, and what was kept back is not sent.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use lock_runtime::__layer_v1::Protected;
use pin_project_lite::pin_project;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::held::{Hold, Panic, Releasing, Stopped};
use crate::http::body_hold::{BodyHold, CutReason};
use crate::http::error::LockBodyError;
use crate::http::kept::{Kept, data_bytes, size_hint};
use crate::locked::LockSpec;

/// The inner body, with the frames that were taken out to find out whether it is complete in memory.
pub(crate) type Inner<B> = Kept<B, LockBodyError<<B as Body>::Error>>;

pub(crate) type Item<B> = Result<Frame<<B as Body>::Data>, LockBodyError<<B as Body>::Error>>;

pin_project! {
    /// A body that is sent while the lock is held.
    pub(crate) struct HeldBody<B>
    where
        B: Body,
    {
        // Before the hold (S-13).
        #[pin]
        body: Protected<Inner<B>>,
        // Kept back until the release ends.
        last: VecDeque<Item<B>>,
        // How many of the announced bytes are not sent yet.
        unsent: Option<u64>,
        hold: Arc<BodyHold>,
        // `None` while the body is sent.
        #[pin]
        releasing: Option<Releasing>,
        // Cuts the body off, unless the hold has ended; the task ends with the set.
        reaper: JoinSet<()>,
        // Of the inner body; resumed after the release.
        panic: Option<Panic>,
    }
}

impl<B: Body + Unpin> HeldBody<B> {
    pub(crate) fn new(
        inner: Inner<B>,
        hold: Hold,
        spec: &LockSpec,
        until: Option<Instant>,
        announced: Option<u64>,
    ) -> Self {
        let hold = BodyHold::new(hold);
        let mut reaper = JoinSet::new();
        let (client, enforced) = (spec.client.clone(), spec.enforced);
        let until = until.filter(|_| enforced);
        let cut_off = Arc::downgrade(&hold);
        reaper.spawn(async move {
            let reason = CutReason::wait(until, &client).await;
            if let Some(hold) = cut_off.upgrade() {
                hold.cut(reason, enforced);
            }
        });
        Self {
            unsent: inner.size_hint().exact().or(announced),
            body: Protected::new(inner),
            last: VecDeque::new(),
            hold,
            releasing: None,
            reaper,
            panic: None,
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.releasing.as_ref().is_some_and(Releasing::is_over) && self.last.is_empty()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let body = self.body.get_ref().filter(|_| self.releasing.is_none());
        size_hint(self.last.iter(), body.map_or(SizeHint::with_exact(0), Body::size_hint))
    }

    pub(crate) fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Item<B>>> {
        loop {
            let mut this = self.as_mut().project();
            if let Some(releasing) = this.releasing.as_mut().as_pin_mut() {
                if let Err(lost) = ready!(releasing.poll(cx)) {
                    *this.last = [Err(LockBodyError::Lost(lost))].into();
                }
                if let Some(panic) = this.panic.take() {
                    resume_unwind(panic);
                }
                return Poll::Ready(this.last.pop_front());
            }
            match ready!(self.as_mut().poll_next(cx)) {
                Some(Ok(frame)) => {
                    if let Some(frame) = self.as_mut().unless_last(frame) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                ended => self.as_mut().end(ended.and_then(Result::err)),
            }
        }
    }

    /// Polls the next frame of the inner body.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        let this = self.project();
        this.hold.sender.register(cx.waker());
        let mut state = this.hold.state.lock();
        let hold = match &mut *state {
            Ok(Some(hold)) => hold,
            Ok(None) => return Poll::Ready(None),
            Err(reason) => return Poll::Ready(Some(Err(reason.error()))),
        };
        let polled = hold.poll(this.body, cx, Inner::<B>::poll_frame);
        if hold.is_released() {
            // No other request waits for this body any more.
            this.reaper.abort_all();
        }
        Poll::Ready(match ready!(polled) {
            Ok(item) => item,
            Err(Stopped::Lost(lost)) => {
                *state = Ok(None);
                Some(Err(LockBodyError::Lost(lost)))
            }
            Err(Stopped::Panicked(panic)) => {
                *this.panic = Some(panic);
                Some(Err(LockBodyError::Panicked))
            }
        })
    }

    /// Returns the frame, or keeps it back if the client could take it for the end.
    fn unless_last(mut self: Pin<&mut Self>, frame: Frame<B::Data>) -> Option<Frame<B::Data>> {
        let this = self.as_mut().project();
        let bytes = data_bytes(&frame);
        if let Some(unsent) = this.unsent {
            *unsent = unsent.saturating_sub(bytes);
        }
        if frame.is_trailers() || this.body.get_ref().is_none_or(Body::is_end_stream) {
            this.last.push_back(Ok(frame));
            self.end(None);
            return None;
        }
        if *this.unsent != Some(0) {
            return Some(frame);
        }
        // The client has all announced bytes with this frame, although the inner body may not have ended yet.
        if bytes > 0 {
            this.last.push_back(Ok(frame));
        }
        None
    }

    /// Drops the inner body, then releases the lock. An error replaces what was kept back.
    fn end(self: Pin<&mut Self>, error: Option<LockBodyError<B::Error>>) {
        let mut this = self.project();
        match error {
            Some(LockBodyError::TooLong | LockBodyError::ShutDown | LockBodyError::Panicked) => {
                this.body.cancel();
            }
            _ => this.body.clear(),
        }
        this.reaper.abort_all();
        let hold = this.hold.state.lock().as_mut().ok().and_then(Option::take);
        let lost = hold.as_ref().and_then(|hold| hold.check().err());
        if let Some(error) = lost.map(LockBodyError::Lost).or(error) {
            *this.last = [Err(error)].into();
        }
        this.releasing.set(Some(hold.map_or_else(Releasing::over, Hold::release)));
    }
}
