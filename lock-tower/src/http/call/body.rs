//! [`LockBody`], the body of a response, and [`HeldBody`], a body that is sent while the lock is held.
//!
//! 1. The inner body is polled under the guard, as the handler was, and dropped before the guard. If the
//!    reaper cuts the body off, it cannot drop the inner body, which is then not polled again.
//! 2. What would let the client see the end (the last frame, or the end itself) is kept back until the
//!    release ends, so that the client's next request finds the lock free.
//! 3. A body that must not look complete ends with an error, and what was kept back is not sent.
//! 4. A server takes a frame of any size at once. If the lock is held until the body has been sent, a large
//!    frame is sent in pieces, each when the server has room for it.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::Response;
use http_body::{Body, Frame, SizeHint};
use lock_runtime::LockClient;
use lock_runtime::guard::Protected;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::held::{Panic, Stopped, without_lock};
use crate::http::answer::refusal::HoldTimes;
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

/// The largest piece of a large frame that is sent at once.
const PIECE: usize = 64 * 1024;

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
        // The rest of a frame that is sent in pieces.
        rest: Option<B::Data>,
        // Kept back until the release ends.
        last: Kept<B>,
        // How many of the announced bytes are not sent yet.
        unsent: Option<u64>,
        cell: Arc<HoldCell>,
        release: ReleaseSpec,
        in_pieces: bool,
        acquired_at: Instant,
        times: Option<Arc<HoldTimes>>,
        #[pin]
        stage: BodyStage,
        #[pin]
        limit: Option<Sleep>,
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
    pub(crate) acquired_at: Instant,
    /// When the body is cut off.
    pub(crate) until: Option<Instant>,
    /// The `Content-Length` of the response.
    pub(crate) announced: Option<u64>,
    /// The client whose shutdown cuts the body off.
    pub(crate) client: LockClient,
    /// False if the body goes on without its lock instead of being cut off.
    pub(crate) enforced: bool,
    /// True if the lock is held until large frames have been sent too.
    pub(crate) in_pieces: bool,
    /// Records how long the lock was held.
    pub(crate) times: Option<Arc<HoldTimes>>,
}

impl<B: Body> HeldBody<B> {
    fn new(peeked: Peeked<B>, body_hold: BodyHold) -> Self {
        let BodyHold { hold, acquired_at, until, announced, client, enforced, in_pieces, times } =
            body_hold;
        let unsent = peeked.size_hint().exact().or(announced);
        let (taken, body) = peeked.into_parts();
        let cell = HoldCell::new(hold.handle);
        Self {
            body: Protected::new(body),
            first: taken.map_err(LockBodyError::Inner),
            rest: None,
            last: Frames::new(),
            unsent,
            release: hold.spec,
            in_pieces,
            acquired_at,
            times,
            stage: BodyStage::Sending,
            limit: until.map(sleep_until),
            reaper: Some(Reaper::start(&cell, until, client, enforced)),
            cell,
            panic: None,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.stage, BodyStage::Over) && self.last.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.remaining() as u64);
        let kept = self.first.bytes() + rest + self.last.bytes();
        match (&self.stage, self.body.get_ref()) {
            (BodyStage::Sending, Some(body)) => size_hint(kept, false, Some(body.size_hint())),
            _ => size_hint(kept, self.last.has_error(), None),
        }
    }
}

impl<B: Body<Data: From<Bytes>> + Unpin> HeldBody<B> {
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
                    if let Some(times) = this.times {
                        times.record(this.acquired_at.elapsed());
                    }
                    continue;
                }
                BodyStageProjection::Sending => {}
            }
            if let Some(limit) = this.limit.as_mut().as_pin_mut()
                && limit.poll(cx).is_ready()
            {
                self.as_mut().end(Some(LockBodyError::TooLong));
                continue;
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

    /// Polls the next frame of the inner body, or the next piece.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        let mut this = self.project();
        if let Some(first) = this.first.pop() {
            return Poll::Ready(Some(first));
        }
        let (body, rest) = (this.body, &mut *this.rest);
        let poll = |body: Pin<&mut B>, cx: &mut Context<'_>| match rest.take() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => body.poll_frame(cx),
        };
        let sender = cx.waker().clone();
        let polled =
            this.cell.with(&sender, |handle| (handle.poll(body, cx, poll), handle.is_released()));
        let (polled, released) = match polled {
            Ok(polled) => polled,
            Err(cut) => return Poll::Ready(Some(Err(cut))),
        };
        if released {
            // No other request waits for this body any more.
            this.limit.set(None);
            *this.reaper = None;
        }
        Poll::Ready(match ready!(polled) {
            Ok(Some(Ok(frame))) if *this.in_pieces => Some(Ok(first_piece(frame, this.rest))),
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
        let nothing_left = this.first.is_empty() && this.rest.is_none();
        if frame.is_trailers() || (nothing_left && ended) {
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
        this.limit.set(None);
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

/// Returns the first piece of a large frame and keeps the rest; returns any other frame as it is.
fn first_piece<D: Buf + From<Bytes>>(frame: Frame<D>, rest: &mut Option<D>) -> Frame<D> {
    match frame.into_data() {
        Ok(mut data) if data.remaining() > PIECE => {
            let piece = data.copy_to_bytes(PIECE);
            *rest = Some(data);
            Frame::data(piece.into())
        }
        Ok(data) => Frame::data(data),
        Err(frame) => frame,
    }
}
