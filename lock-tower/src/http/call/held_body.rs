//! A body that is sent while the lock is held.
//!
//! 1. The inner body is polled under the guard, as the handler was, and dropped before it. The reaper
//!    alone cannot reach it: then it is not polled any more.
//! 2. What would let the client see the end (the last frame, or the end itself) is kept back until the
//!    release is over, so that its next request finds the lock free.
//! 3. A body that must not look complete ends with an error, and nothing that was kept back goes out.
//! 4. A server takes a frame of any size at once. Where the lock is to be held until the body has been sent,
//!    a large frame therefore goes out in pieces, each when the server has room for it.

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use lock_runtime::LockClient;
use lock_runtime::guard::Protected;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::held::{HoldHandle, Panic, Stopped};
use crate::http::answer::retry::HoldTimes;
use crate::http::call::body::LockBodyError;
use crate::http::call::peek::{Peeked, plus};
use crate::http::call::reaper::{GripCell, Reaper};
use crate::locked::{End, Releasing};

/// How much of a large frame goes out at once.
const PIECE: usize = 64 * 1024;

type Item<B> = Result<Frame<<B as Body>::Data>, LockBodyError<<B as Body>::Error>>;

pin_project! {
    pub(crate) struct HeldBody<B>
    where
        B: Body,
    {
        // Before the grip (S-13).
        #[pin]
        run: Protected<B>,
        // Taken out of it before.
        first: Kept<B>,
        // What is left of a frame that goes out in pieces.
        rest: Option<B::Data>,
        in_pieces: bool,
        // Not to go out before the release.
        last: Kept<B>,
        // What is left of the length that was announced.
        announced: Option<u64>,
        handle: Arc<GripCell>,
        end: End,
        #[pin]
        stage: Stage,
        #[pin]
        limit: Option<Sleep>,
        taken_at: Instant,
        times: Option<Arc<HoldTimes>>,
        reaper: Option<Reaper>,
        // What the inner body panicked with; goes on when the lock is released.
        panic: Option<Panic>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage {
        Sending,
        Releasing { #[pin] releasing: Releasing },
        Over,
    }
}

/// How to hold on while a body is sent.
pub(crate) struct Holding {
    pub(crate) handle: HoldHandle,
    pub(crate) end: End,
    pub(crate) taken_at: Instant,
    /// When a body that is not sent by then is cut off.
    pub(crate) until: Option<Instant>,
    /// What `Content-Length` says.
    pub(crate) announced: Option<u64>,
    /// Has the body end with the grace of its shutdown.
    pub(crate) client: LockClient,
    /// False if the body goes on without its lock then.
    pub(crate) cuts_off: bool,
    /// True if the lock is held until also a large frame has been sent.
    pub(crate) in_pieces: bool,
    /// Where to note how long it was held.
    pub(crate) times: Option<Arc<HoldTimes>>,
}

impl<B: Body> HeldBody<B> {
    pub(crate) fn new(peeked: Peeked<B>, holding: Holding) -> Self {
        let Holding { handle, end, taken_at, until, announced, client, cuts_off, in_pieces, times } =
            holding;
        let announced = peeked.size_hint().exact().or(announced);
        let (taken, body) = peeked.into_parts();
        let mut first = Kept::default();
        taken.for_each(|item| first.push(item.map_err(LockBodyError::Inner)));
        let handle = GripCell::new(handle);
        Self {
            run: Protected::new(body),
            first,
            rest: None,
            in_pieces,
            last: Kept::default(),
            announced,
            end,
            stage: Stage::Sending,
            limit: until.map(sleep_until),
            taken_at,
            times,
            reaper: Some(Reaper::start(&handle, until, client, cuts_off)),
            handle,
            panic: None,
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        matches!(self.stage, Stage::Over) && self.last.is_empty()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.remaining() as u64);
        let kept = self.first.bytes() + rest + self.last.bytes();
        match (&self.stage, self.run.get_ref()) {
            (Stage::Sending, Some(body)) => plus(body.size_hint(), kept),
            _ if self.last.has_error() => SizeHint::new(),
            _ => SizeHint::with_exact(kept),
        }
    }
}

impl<B: Body<Data: From<Bytes>> + Unpin> HeldBody<B> {
    pub(crate) fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Item<B>>> {
        loop {
            let mut this = self.as_mut().project();
            match this.stage.as_mut().project() {
                StageProjection::Over => return Poll::Ready(this.last.pop()),
                StageProjection::Releasing { releasing } => {
                    if let Err(lost) = ready!(releasing.poll(cx)) {
                        this.last.fail(LockBodyError::Lost(lost));
                    }
                    if let Some(panic) = this.panic.take() {
                        this.stage.set(Stage::Over);
                        resume_unwind(panic);
                    }
                    if let Some(times) = this.times {
                        times.record(this.taken_at.elapsed());
                    }
                    this.stage.set(Stage::Over);
                    continue;
                }
                StageProjection::Sending => {}
            }
            if let Some(limit) = this.limit.as_mut().as_pin_mut()
                && limit.poll(cx).is_ready()
            {
                self.as_mut().let_go(Some(LockBodyError::TooLong));
                continue;
            }
            match ready!(self.as_mut().poll_next(cx)) {
                Some(Ok(frame)) => {
                    if let Some(frame) = self.as_mut().keep_back_at_the_end(frame) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                None => self.as_mut().let_go(None),
                Some(Err(error)) => self.as_mut().let_go(Some(error)),
            }
        }
    }

    /// The next of the inner body, or the next piece.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        let this = self.project();
        if let Some(first) = this.first.pop() {
            return Poll::Ready(Some(first));
        }
        let (run, rest) = (this.run, &mut *this.rest);
        let poll = |body: Pin<&mut B>, cx: &mut Context<'_>| match rest.take() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => body.poll_frame(cx),
        };
        let sender = cx.waker().clone();
        let polled = this
            .handle
            .with(&sender, |handle| (handle.poll(run, cx, poll), handle.is_given_back()));
        let (polled, given_back) = match polled {
            Ok(polled) => polled,
            Err(cut) => return Poll::Ready(Some(Err(cut))),
        };
        if given_back {
            // Nobody waits for it any more.
            let mut limit = this.limit;
            limit.set(None);
            *this.reaper = None;
        }
        Poll::Ready(match ready!(polled) {
            Ok(Some(Ok(frame))) => Some(Ok(match *this.in_pieces {
                true => first_piece(frame, this.rest),
                false => frame,
            })),
            Ok(item) => item.map(|item| item.map_err(LockBodyError::Inner)),
            Err(Stopped::Lost(lost)) => {
                drop(this.handle.take());
                Some(Err(LockBodyError::Lost(lost)))
            }
            Err(Stopped::Panicked(panic)) => {
                *this.panic = Some(panic);
                Some(Err(LockBodyError::Panicked))
            }
        })
    }

    /// The frame, unless the client could take it for the end.
    fn keep_back_at_the_end(
        mut self: Pin<&mut Self>,
        frame: Frame<B::Data>,
    ) -> Option<Frame<B::Data>> {
        let this = self.as_mut().project();
        let bytes = frame.data_ref().map_or(0, |data| data.remaining() as u64);
        if let Some(announced) = this.announced {
            *announced = announced.saturating_sub(bytes);
        }
        let ended = this.run.get_ref().is_none_or(Body::is_end_stream);
        let nothing_left = this.first.is_empty() && this.rest.is_none();
        let is_last = frame.is_trailers() || (nothing_left && ended);
        if is_last {
            this.last.push(Ok(frame));
            self.let_go(None);
            return None;
        }
        if *this.announced != Some(0) {
            return Some(frame);
        }
        // All that was announced; the body itself may go on for a while.
        if bytes > 0 {
            this.last.push(Ok(frame));
        }
        None
    }

    /// Drops the inner body and then gives the lock back; with an error, that is all that is left.
    fn let_go(self: Pin<&mut Self>, error: Option<LockBodyError<B::Error>>) {
        let mut this = self.project();
        match error {
            Some(LockBodyError::TooLong | LockBodyError::ShutDown | LockBodyError::Panicked) => {
                this.run.cancel();
            }
            _ => this.run.clear(),
        }
        *this.reaper = None;
        this.limit.set(None);
        if let Some(error) = error {
            this.last.fail(error);
        }
        let Some(handle) = this.handle.take() else {
            return this.stage.set(Stage::Over);
        };
        if let Err(lost) = handle.check() {
            this.last.fail(LockBodyError::Lost(lost));
        }
        this.stage.set(Stage::Releasing { releasing: Releasing::new(handle, *this.end) });
    }
}

/// The first piece of a large frame, whose others are kept; any other frame as it is.
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

/// At most two frames, or frames and an error.
struct Kept<B: Body>([Option<Item<B>>; 2]);

impl<B: Body> Default for Kept<B> {
    fn default() -> Self {
        Self([None, None])
    }
}

impl<B: Body> Kept<B> {
    /// A third one would replace the second; there is none after trailers.
    fn push(&mut self, item: Item<B>) {
        let place = usize::from(self.0[0].is_some());
        self.0[place] = Some(item);
    }

    fn fail(&mut self, error: LockBodyError<B::Error>) {
        self.0 = [Some(Err(error)), None];
    }

    fn pop(&mut self) -> Option<Item<B>> {
        self.0.iter_mut().find_map(Option::take)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn has_error(&self) -> bool {
        self.0.iter().flatten().any(Result::is_err)
    }

    fn bytes(&self) -> u64 {
        let data = self.0.iter().flatten().flatten().filter_map(Frame::data_ref);
        data.map(|data| data.remaining() as u64).sum()
    }
}
