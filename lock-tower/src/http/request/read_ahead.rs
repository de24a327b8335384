//! Request bodies that are read while their requests wait for the lock.
//!
//! A server of HTTP/1.1 reads its socket only while the body of the request is polled, so only then does
//! it notice that the client has left. While a request waits, the layer polls its body and keeps what
//! arrives, up to a limit; the handler gets what was kept, and then the rest.
//!
//! 1. The handler's request has the same body type as the layer's. How to make such a body of a
//!    [`ReadAheadBody`] is registered for each type ([`RequestBodies`]), because only the type's owner
//!    knows; a body of another type is not read.
//! 2. What one request may read has a limit. One that has reached it reads on slowly, out of what all requests
//!    of the layer share: a client that has left looks like one that is slow until all that it has sent is read.
//! 3. A body of which nothing was read is handed on as it is. Nothing is allocated before that.

use std::any::Any;
use std::collections::VecDeque;
use std::error::Error;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io, mem};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};

use crate::http::call::peek::plus;

/// How much of a body is read ahead, in bytes, unless told otherwise.
pub(crate) const READ_AHEAD: usize = 64 * 1024;

/// Frames below this are kept in memory of their own.
const SMALL: usize = 4 * 1024;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A request's body, of which the layer has read the first part while the request waited for its lock.
///
/// It yields what the body yields, in the same order: data, trailers and errors. For
/// [`HttpLockLayerBuilder::request_body`](crate::http::HttpLockLayerBuilder::request_body), which makes the
/// service's own body type of it.
pub struct ReadAheadBody<B: Body> {
    frames: VecDeque<Frame<B::Data>>,
    /// What came after the frames.
    error: Option<BoxError>,
    rest: B,
    /// True if nothing comes after the frames.
    ended: bool,
    /// What the frames have of the pool, until the last of them is handed on.
    share: Option<PoolShare>,
}

/// Nothing in it is pinned where it is.
impl<B: Body + Unpin> Unpin for ReadAheadBody<B> {}

impl<B> Body for ReadAheadBody<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.get_mut();
        if let Some(frame) = this.frames.pop_front() {
            if this.frames.is_empty() {
                this.share = None;
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = this.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if this.ended {
            return Poll::Ready(None);
        }
        let item = ready!(Pin::new(&mut this.rest).poll_frame(cx));
        Poll::Ready(item.map(|item| item.map_err(boxed)))
    }

    fn is_end_stream(&self) -> bool {
        let nothing_kept = self.frames.is_empty() && self.error.is_none();
        nothing_kept && (self.ended || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.frames.iter().filter_map(Frame::data_ref);
        let kept = kept.map(|data| data.remaining() as u64).sum();
        match self.ended {
            // A body that fails has no length.
            _ if self.error.is_some() => plus(SizeHint::new(), kept),
            true => SizeHint::with_exact(kept),
            false => plus(self.rest.size_hint(), kept),
        }
    }
}

impl<B: Body> fmt::Debug for ReadAheadBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAheadBody")
            .field("frames", &self.frames.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// The error in a box, without the wrapper that axum's body would put around it once more.
fn boxed(error: impl Into<BoxError>) -> BoxError {
    let error = error.into();
    #[cfg(feature = "axum")]
    let error = match error.downcast::<::axum::Error>() {
        Ok(error) => error.into_inner(),
        Err(error) => error,
    };
    error
}

/// True if the client has left before its body was complete, by what the server says in the error's chain.
///
/// `TimedOut` is not among them: layers that limit the time of a body use it as well, and such a client is
/// still there.
fn is_departure(error: &BoxError) -> bool {
    use io::ErrorKind as Kind;

    let mut next: Option<&(dyn Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        next = error.source();
        let Some(error) = error.downcast_ref::<io::Error>() else { continue };
        if let Kind::UnexpectedEof
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::BrokenPipe
        | Kind::NotConnected = error.kind()
        {
            return true;
        }
        // Its `source` leaves out the error in it.
        next = error.get_ref().map(|inner| inner as _);
    }
    false
}

/// Copies a small frame out of the buffer that it is a part of, so that what is counted is what is kept: a
/// server's frames are slices of what it read at once, and one byte would keep all of that. Data of another
/// type counts as what it says.
fn detach<D: 'static>(data: &mut D) {
    if let Some(data) = (data as &mut dyn Any).downcast_mut::<Bytes>()
        && data.len() < SMALL
    {
        *data = Bytes::copy_from_slice(data);
    }
}

/// How often a waiting request reads on when it has read what is its own, and how much then. An upload that
/// goes on costs little, and what a departed client has sent is read soon: its end is behind all of it.
pub(crate) const READ_ON_EVERY: Duration = Duration::from_millis(200);
const READ_ON: usize = 1024 * 1024;

/// The most that one request reads beyond what is its own: more than is on its way when a client leaves.
const MOST_READ_ON: usize = 16 * 1024 * 1024;

/// What the requests of a layer have read together beyond what is their own, unless told otherwise.
pub(crate) const READ_AHEAD_POOL: usize = 64 * 1024 * 1024;

/// The bytes that the waiting requests of a layer may read beyond what is their own.
#[derive(Debug)]
pub(crate) struct ReadAheadPool(AtomicUsize);

impl ReadAheadPool {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }
}

/// What one request has of it, until its handler has read that.
#[derive(Debug)]
pub(crate) struct PoolShare {
    pool: Arc<ReadAheadPool>,
    bytes: usize,
}

impl PoolShare {
    pub(crate) fn new(pool: &Arc<ReadAheadPool>) -> Self {
        Self { pool: Arc::clone(pool), bytes: 0 }
    }

    /// Takes some more, if there is any.
    pub(crate) fn more(&mut self) -> usize {
        let wanted = READ_ON.min(MOST_READ_ON - self.bytes);
        let take = |left: usize| Some(left.saturating_sub(wanted));
        let left = self.pool.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let taken = left.map_or(0, |left| left.min(wanted));
        self.bytes += taken;
        taken
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        self.pool.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Reads one body ahead.
pub(crate) trait ReadAhead<B>: Send {
    /// True if it has read all that it may, and the body goes on.
    fn is_full(&self) -> bool;

    /// Lets it read so many bytes more.
    fn allow(&mut self, bytes: usize);

    /// Reads what is there; ready with the error that says that the client has left.
    fn poll_departure(&mut self, body: &mut B, cx: &mut Context<'_>) -> Poll<BoxError>;

    /// The body as the client sent it, of what was read and of the rest.
    fn put_back(self: Box<Self>, rest: B, share: Option<PoolShare>) -> B;
}

/// How bodies of one type are read ahead.
pub(crate) trait ReadsAhead<B>: Send + Sync {
    /// True if there is nothing to read.
    fn is_complete(&self, body: &B) -> bool;

    /// Starts with a body; keeps so many bytes at most, and what exceeds them of the last frame.
    fn start(&self, limit: usize) -> Box<dyn ReadAhead<B>>;
}

struct Rebuild<B, F> {
    rebuild: Arc<F>,
    body: PhantomData<fn(B) -> B>,
}

impl<B, F> ReadsAhead<B> for Rebuild<B, F>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    F: Fn(ReadAheadBody<B>) -> B + Send + Sync + 'static,
{
    fn is_complete(&self, body: &B) -> bool {
        body.is_end_stream()
    }

    fn start(&self, limit: usize) -> Box<dyn ReadAhead<B>> {
        Box::new(Reader {
            frames: VecDeque::new(),
            error: None,
            ended: false,
            left: limit,
            rebuild: Arc::clone(&self.rebuild),
        })
    }
}

struct Reader<B: Body, F> {
    frames: VecDeque<Frame<B::Data>>,
    error: Option<BoxError>,
    ended: bool,
    /// How much more is read.
    left: usize,
    rebuild: Arc<F>,
}

impl<B, F> ReadAhead<B> for Reader<B, F>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    F: Fn(ReadAheadBody<B>) -> B + Send + Sync,
{
    fn poll_departure(&mut self, body: &mut B, cx: &mut Context<'_>) -> Poll<BoxError> {
        while self.left > 0 && !self.ended && self.error.is_none() {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(mut frame)) => {
                    if let Some(data) = frame.data_mut() {
                        detach(data);
                    }
                    let bytes = frame.data_ref().map_or(0, |data| data.remaining());
                    // The frame itself counts: a body may come byte by byte.
                    let cost = bytes.saturating_add(mem::size_of::<Frame<B::Data>>());
                    self.left = self.left.saturating_sub(cost);
                    self.frames.push_back(frame);
                }
                Some(Err(error)) => {
                    let error = boxed(error);
                    if is_departure(&error) {
                        return Poll::Ready(error);
                    }
                    self.error = Some(error);
                }
                None => self.ended = true,
            }
        }
        Poll::Pending
    }

    fn is_full(&self) -> bool {
        self.left == 0 && !self.ended && self.error.is_none()
    }

    fn allow(&mut self, bytes: usize) {
        self.left += bytes;
    }

    fn put_back(self: Box<Self>, rest: B, share: Option<PoolShare>) -> B {
        if self.frames.is_empty() && self.error.is_none() && !self.ended {
            return rest;
        }
        let Self { frames, error, ended, rebuild, .. } = *self;
        rebuild(ReadAheadBody { frames, error, rest, ended, share })
    }
}

/// The body types that a layer can read ahead.
#[derive(Clone)]
pub(crate) struct RequestBodies(Vec<Arc<dyn Any + Send + Sync>>);

struct Registered<B>(Box<dyn ReadsAhead<B>>);

impl RequestBodies {
    /// Those of which this crate knows.
    pub(crate) fn known() -> Self {
        #[cfg_attr(not(feature = "axum"), expect(unused_mut, reason = "it knows of none"))]
        let mut bodies = Self(Vec::new());
        #[cfg(feature = "axum")]
        bodies.add(::axum::body::Body::new::<ReadAheadBody<::axum::body::Body>>);
        bodies
    }

    pub(crate) fn add<B>(&mut self, rebuild: impl Fn(ReadAheadBody<B>) -> B + Send + Sync + 'static)
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let rebuild = Rebuild { rebuild: Arc::new(rebuild), body: PhantomData };
        self.0.push(Arc::new(Registered::<B>(Box::new(rebuild))));
    }

    /// How bodies of that type are read ahead, if it is known; the last word counts.
    pub(crate) fn of<B: 'static>(&self) -> Option<&dyn ReadsAhead<B>> {
        let found = self.0.iter().rev().find_map(|known| known.downcast_ref::<Registered<B>>());
        found.map(|registered| &*registered.0)
    }
}
