//! [`LockBody`], the body of a response, and [`HeldBody`], a body that is sent while the lock is held.
//!
//! 1. The inner body is polled under the guard, as the handler was, and dropped before the guard. If the
//!    reaper cuts the body off, it cannot drop the inner body, which is then not polled again.
//! 2. What would let the client see the end (the last frame, or the end itself) is kept back until the
//!    release ends, so that the client's next request finds the lock free.
//! 3. A body that must not look complete ends with an error, and what was kept back is not sent.

use std::collections::VecDeque;
use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use lock_runtime::__layer_v1::Protected;
use lock_runtime::LockClient;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::held::{Hold, Panic, Releasing, Stopped, without_lock};
use crate::http::error::LockBodyError;
use crate::http::kept::{Kept, data_bytes, size_hint};
use crate::locked::LockSpec;

/// The body of a locked service's response: the inner service's body, with or without the lock that is held
/// until it ends, or the layer's own answer.
///
/// The inner body is not boxed, except a body that holds the lock while it is sent.
pub struct LockBody<B: Body> {
    kind: Kind<B>,
}

/// The inner body, with the frames that were taken out to find out whether it is complete in memory.
type Inner<B> = Kept<B, LockBodyError<<B as Body>::Error>>;

type Item<B> = Result<Frame<<B as Body>::Data>, LockBodyError<<B as Body>::Error>>;

enum Kind<B: Body> {
    Free(Inner<B>),
    Held(Pin<Box<HeldBody<B>>>),
    /// The layer's own.
    Answer(Option<Bytes>),
}

/// No field is pinned in place.
impl<B: Body> Unpin for LockBody<B> {}

impl<B: Body> LockBody<B> {
    /// A body that holds no lock.
    pub(crate) fn free(body: B) -> Self {
        Self { kind: Kind::Free(Kept::new(body, LockBodyError::Inner)) }
    }

    /// The layer's own answer.
    pub(crate) fn answer(response: Response<Bytes>) -> Response<Self> {
        response.map(|bytes| Self { kind: Kind::Answer(Some(bytes).filter(|it| !it.is_empty())) })
    }
}

impl<B: Body + Unpin> LockBody<B> {
    /// The same body, which holds the lock while it is sent.
    /// `until` is when it is cut off, `announced` the `Content-Length` of the response.
    pub(crate) fn held(
        self,
        hold: Hold,
        spec: &LockSpec,
        until: Option<Instant>,
        announced: Option<u64>,
    ) -> Self {
        match self.kind {
            Kind::Free(inner) => Self {
                kind: Kind::Held(Box::pin(HeldBody::new(inner, hold, spec, until, announced))),
            },
            Kind::Held(_) | Kind::Answer(_) => self,
        }
    }

    /// True if the rest of a body that holds no lock is in memory, as [`Kept::peek`] finds out.
    pub(crate) fn peek(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.kind {
            Kind::Free(inner) => inner.peek(cx),
            Kind::Held(_) | Kind::Answer(_) => false,
        }
    }

    /// True if nothing is left of a body that holds no lock.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Free(inner) if inner.is_end_stream())
    }
}

impl<B> Body for LockBody<B>
where
    B: Body<Data: From<Bytes>> + Unpin,
{
    type Data = B::Data;
    type Error = LockBodyError<B::Error>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        match &mut self.get_mut().kind {
            // An outer layer may poll this inside its hold, which is not this body's.
            Kind::Free(inner) => without_lock(|| Pin::new(inner).poll_frame(cx)),
            Kind::Held(body) => body.as_mut().poll_frame(cx),
            Kind::Answer(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Free(inner) => inner.is_end_stream(),
            Kind::Held(body) => body.is_end_stream(),
            Kind::Answer(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Free(inner) => inner.size_hint(),
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

pin_project! {
    /// A body that is sent while the lock is held.
    struct HeldBody<B>
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
    fn new(
        inner: Inner<B>,
        hold: Hold,
        spec: &LockSpec,
        until: Option<Instant>,
        announced: Option<u64>,
    ) -> Self {
        let hold =
            Arc::new(BodyHold { state: Mutex::new(Ok(Some(hold))), sender: AtomicWaker::new() });
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

    fn is_end_stream(&self) -> bool {
        self.releasing.as_ref().is_some_and(Releasing::is_over) && self.last.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.get_ref().filter(|_| self.releasing.is_none());
        size_hint(self.last.iter(), body.map_or(SizeHint::with_exact(0), Body::size_hint))
    }

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
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

/// The hold of a body, which the reaper may take away from it: the server does not poll the body of a client that does not
/// read.
struct BodyHold {
    /// `None` once the body has ended.
    state: Mutex<Result<Option<Hold>, CutReason>>,
    /// Wakes the task that sends the body.
    sender: AtomicWaker,
}

impl BodyHold {
    /// Takes the hold from the body and wakes its sender; if the lock is not `enforced`, only releases the
    /// lock. Waits for a poll of the body that is under way; later polls find no hold.
    fn cut(&self, reason: CutReason, enforced: bool) {
        let mut state = self.state.lock();
        let Ok(Some(hold)) = &mut *state else { return };
        if !enforced || hold.is_released() {
            return hold.release_in_background(None);
        }
        // The release starts before the client can see the end of the body.
        hold.release_in_background(Some(reason.message()));
        let hold = std::mem::replace(&mut *state, Err(reason));
        drop(state);
        drop(hold);
        self.sender.wake();
    }
}

/// Why a body is cut off.
#[derive(Debug, Clone, Copy)]
enum CutReason {
    TooLong,
    ShutDown,
}

impl CutReason {
    /// Waits until the body has to end.
    async fn wait(until: Option<Instant>, client: &LockClient) -> Self {
        let shut_down = client.grace_over().map(|()| Self::ShutDown);
        match until {
            Some(until) => timeout_at(until, shut_down).await.unwrap_or(Self::TooLong),
            None => shut_down.await,
        }
    }

    fn error<E>(self) -> LockBodyError<E> {
        match self {
            Self::TooLong => LockBodyError::TooLong,
            Self::ShutDown => LockBodyError::ShutDown,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::TooLong => {
                "a response is cut off: it was not sent within the time for which it may hold its lock \
                 (`max_body_hold` or `max_hold`), because its client reads slowly or its handler writes slowly"
            }
            Self::ShutDown => {
                "a response is cut off: its lock client was shut down and the grace is over"
            }
        }
    }
}
