//! [`LockBody`], the body of a response, and [`HeldBody`], a body that is sent while the lock is held.
//!
//! 1. The inner body is polled under the guard, as the handler was, and dropped before the guard. If the
//!    reaper cuts the body off, it cannot drop the inner body, which is then not polled again.
//! 2. What would let the client see the end (the last frame, or the end itself) is kept back until the
//!    release ends, so that the client's next request finds the lock free.
//! 3. A body that must not look complete ends with an error, and what was kept back is not sent.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use lock_runtime::__layer_v1::Protected;
use lock_runtime::LockClient;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::held::{Panic, Stopped, without_lock};
use crate::http::call::reaper::{HoldCell, Reaper};
use crate::http::error::LockBodyError;
use crate::http::frames::{Frames, Peeked, data_bytes, size_hint};
use crate::locked::{CallHold, ReleaseSpec, Releasing};

/// The body of a locked service's response: the inner service's body, with or without the lock that is held
/// until it ends, or the layer's own answer.
///
/// The inner body is not boxed, except a body that holds the lock while it is sent.
pub struct LockBody<B: Body> {
    kind: Kind<B>,
}

enum Kind<B: Body> {
    Free(Peeked<B>),
    Held(Pin<Box<HeldBody<B>>>),
    Answer(Option<Bytes>),
}

/// No field is pinned in place.
impl<B: Body> Unpin for LockBody<B> {}

impl<B: Body> LockBody<B> {
    /// A body that holds no lock.
    pub(crate) fn free(body: B) -> Self {
        Self { kind: Kind::Free(Peeked::new(body)) }
    }

    /// The same body, which holds the lock while it is sent.
    pub(crate) fn held(self, hold: BodyHold) -> Self {
        match self.kind {
            Kind::Free(peeked) => Self { kind: Kind::Held(Box::pin(HeldBody::new(peeked, hold))) },
            Kind::Held(_) | Kind::Answer(_) => self,
        }
    }

    /// The layer's own answer.
    pub(crate) fn answer(response: Response<Bytes>) -> Response<Self> {
        response.map(|bytes| {
            let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
            Self { kind: Kind::Answer(bytes) }
        })
    }
}

impl<B: Body + Unpin> LockBody<B> {
    /// True if the rest of a body that holds no lock is in memory, as [`Peeked::peek`] finds out.
    pub(crate) fn peek(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.kind {
            Kind::Free(peeked) => peeked.peek(cx),
            Kind::Held(_) | Kind::Answer(_) => false,
        }
    }

    /// True if nothing is left of a body that holds no lock.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Free(peeked) if peeked.is_end_stream())
    }
}

impl<B> Body for LockBody<B>
where
    B: Body<Data: From<Bytes>> + Unpin,
{
    type Data = B::Data;
    type Error = LockBodyError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut self.get_mut().kind {
            // An outer layer may poll this inside its hold, which is not this body's.
            Kind::Free(peeked) => {
                without_lock(|| peeked.poll_frame(cx)).map_err(LockBodyError::Inner)
            }
            Kind::Held(body) => body.as_mut().poll_frame(cx),
            Kind::Answer(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Free(peeked) => peeked.is_end_stream(),
            Kind::Held(body) => body.is_end_stream(),
            Kind::Answer(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Free(peeked) => peeked.size_hint(),
            Kind::Held(body) => body.size_hint(),
            Kind::Answer(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

impl<B: Body + Default> Default for LockBody<B> {
    fn default() -> Self {
        Self::free(B::default())
    }
}

impl<B: Body> fmt::Debug for LockBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockBody").finish_non_exhaustive()
    }
}

type Item<B> = Result<Frame<<B as Body>::Data>, LockBodyError<<B as Body>::Error>>;

type Kept<B> = Frames<<B as Body>::Data, LockBodyError<<B as Body>::Error>>;

pin_project! {
    /// A body that is sent while the lock is held.
    struct HeldBody<B>
    where
        B: Body,
    {
        // Before the hold (S-13).
        #[pin]
        body: Protected<B>,
        // Taken out of the body before, not yet sent.
        first: Kept<B>,
        // Kept back until the release ends.
        last: Kept<B>,
        // How many of the announced bytes are not sent yet.
        unsent: Option<u64>,
        cell: Arc<HoldCell>,
        release: ReleaseSpec,
        #[pin]
        stage: BodyStage,
        // Cuts the body off, unless the hold has ended.
        reaper: Option<Reaper>,
        // Of the inner body; resumed after the release.
        panic: Option<Panic>,
    }
}

pin_project! {
    #[project = BodyStageProjection]
    enum BodyStage {
        Sending,
        Releasing { #[pin] releasing: Releasing },
        Over,
    }
}

/// How a body holds the lock while it is sent.
pub(crate) struct BodyHold {
    pub(crate) hold: CallHold,
    /// When the body is cut off.
    pub(crate) until: Option<Instant>,
    /// The `Content-Length` of the response.
    pub(crate) announced: Option<u64>,
    /// The client whose shutdown cuts the body off.
    pub(crate) client: LockClient,
    /// False if the body goes on without its lock instead of being cut off.
    pub(crate) enforced: bool,
}

impl<B: Body> HeldBody<B> {
    fn new(peeked: Peeked<B>, body_hold: BodyHold) -> Self {
        let BodyHold { hold, until, announced, client, enforced } = body_hold;
        let unsent = peeked.size_hint().exact().or(announced);
        let (taken, body) = peeked.into_parts();
        let cell = HoldCell::new(hold.handle);
        Self {
            body: Protected::new(body),
            first: taken.map_err(LockBodyError::Inner),
            last: Frames::new(),
            unsent,
            release: hold.spec,
            stage: BodyStage::Sending,
            reaper: Some(Reaper::start(&cell, until, client, enforced)),
            cell,
            panic: None,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.stage, BodyStage::Over) && self.last.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.first.bytes() + self.last.bytes();
        match (&self.stage, self.body.get_ref()) {
            (BodyStage::Sending, Some(body)) => size_hint(kept, false, Some(body.size_hint())),
            _ => size_hint(kept, self.last.has_error(), None),
        }
    }
}

impl<B: Body + Unpin> HeldBody<B> {
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        loop {
            let mut this = self.as_mut().project();
            match this.stage.as_mut().project() {
                BodyStageProjection::Over => return Poll::Ready(this.last.pop()),
                BodyStageProjection::Releasing { releasing } => {
                    if let Err(lost) = ready!(releasing.poll(cx)) {
                        this.last.fail(LockBodyError::Lost(lost));
                    }
                    this.stage.set(BodyStage::Over);
                    if let Some(panic) = this.panic.take() {
                        resume_unwind(panic);
                    }
                    continue;
                }
                BodyStageProjection::Sending => {}
            }
            match ready!(self.as_mut().poll_next(cx)) {
                Some(Ok(frame)) => {
                    if let Some(frame) = self.as_mut().unless_last(frame) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                None => self.as_mut().end(None),
                Some(Err(error)) => self.as_mut().end(Some(error)),
            }
        }
    }

    /// Polls the next frame of the inner body.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        let this = self.project();
        if let Some(first) = this.first.pop() {
            return Poll::Ready(Some(first));
        }
        let sender = cx.waker().clone();
        let polled = this.cell.with(&sender, |handle| {
            (handle.poll(this.body, cx, B::poll_frame), handle.is_released())
        });
        let (polled, released) = match polled {
            Ok(polled) => polled,
            Err(cut) => return Poll::Ready(Some(Err(cut))),
        };
        if released {
            // No other request waits for this body any more.
            *this.reaper = None;
        }
        Poll::Ready(match ready!(polled) {
            Ok(item) => item.map(|item| item.map_err(LockBodyError::Inner)),
            Err(Stopped::Lost(lost)) => {
                drop(this.cell.take());
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
        let ended = this.body.get_ref().is_none_or(Body::is_end_stream);
        if frame.is_trailers() || (this.first.is_empty() && ended) {
            this.last.push(Ok(frame));
            self.end(None);
            return None;
        }
        if *this.unsent != Some(0) {
            return Some(frame);
        }
        // The client has all announced bytes with this frame, although the inner body may not have ended yet.
        if bytes > 0 {
            this.last.push(Ok(frame));
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
        *this.reaper = None;
        if let Some(error) = error {
            this.last.fail(error);
        }
        let Some(handle) = this.cell.take() else {
            return this.stage.set(BodyStage::Over);
        };
        if let Err(lost) = handle.check() {
            this.last.fail(LockBodyError::Lost(lost));
        }
        let releasing = Releasing::new(handle, *this.release, None);
        this.stage.set(BodyStage::Releasing { releasing });
    }
}
