//! Reads the bodies of requests that wait for the lock.
//!
//! An HTTP/1.1 server reads its socket only while the request's body is polled, so only then does it notice
//! that the client has left. While a request waits, the layer polls its body and keeps what arrives, up to a
//! limit. The handler gets what was kept, and then the rest.
//!
//! 1. The handler's request has the same body type as the layer's request. [`RequestBodies`] knows for each
//!    type how to make such a body from a [`ReadAheadBody`]. Bodies of other types are not read.
//! 2. Each request has a limit. A request that has reached it reads on slowly, from a pool that all requests of
//!    the layer share: until everything that the client has sent is read, a client that has left looks like
//!    a slow one.
//! 3. A body from which nothing was read is handed on as it is.

use std::any::Any;
use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io, mem};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::http::frames::{data_bytes, size_hint};

/// How many bytes of a body are read ahead, by default.
pub(crate) const READ_AHEAD: usize = 64 * 1024;

/// Frames with fewer bytes are copied out of the server's buffer.
const SMALL: usize = 4 * 1024;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A request's body whose first part was read while the request waited for the lock.
///
/// It yields what the body yields, in the same order: data, trailers and errors. The closure that you give to
/// [`HttpLockLayerBuilder::request_body`](crate::http::HttpLockLayerBuilder::request_body) converts it into the
/// service's own body type.
pub struct ReadAheadBody<B: Body> {
    frames: VecDeque<Frame<B::Data>>,
    /// The error that came after the frames.
    error: Option<BoxError>,
    rest: B,
    /// True if nothing comes after the frames.
    ended: bool,
    /// The frames' share of the pool, until the last frame is handed on.
    share: Option<PoolShare>,
}

/// No field is pinned in place.
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
        let kept = self.frames.iter().map(data_bytes).sum();
        size_hint(kept, self.error.is_some(), (!self.ended).then(|| self.rest.size_hint()))
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

/// Boxes the error, without the wrapper of axum's body, which would otherwise wrap it twice.
fn boxed(error: impl Into<BoxError>) -> BoxError {
    let error = error.into();
    #[cfg(feature = "axum")]
    let error = match error.downcast::<::axum::Error>() {
        Ok(error) => error.into_inner(),
        Err(error) => error,
    };
    error
}

/// True if the error's chain shows that the client left before its body was complete.
///
/// `TimedOut` does not show it: layers that limit the time of a body report it too, while the client is still
/// there.
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
        // The `source` of an `io::Error` skips the error inside it.
        next = error.get_ref().map(|inner| inner as _);
    }
    false
}

/// Copies a small frame out of the server's read buffer, of which it is a slice: otherwise one byte would keep
/// the whole buffer in memory, which the limit does not count. Data of other types is left as it is.
fn detach<D: 'static>(data: &mut D) {
    if let Some(data) = (data as &mut dyn Any).downcast_mut::<Bytes>()
        && data.len() < SMALL
    {
        *data = Bytes::copy_from_slice(data);
    }
}

/// How often a waiting request that has reached its limit reads on.
pub(crate) const READ_ON_EVERY: Duration = Duration::from_millis(200);

/// How many bytes it reads then. The end of a connection comes behind everything that the client has sent, so
/// this must read a departed client's bytes soon, and cost little for an upload that goes on.
const READ_ON: usize = 1024 * 1024;

/// How many bytes one request reads out of the pool at most: more than are in flight when a client leaves.
const MAX_READ_ON: usize = 16 * 1024 * 1024;

/// How many bytes the requests of a layer read out of the pool together, by default.
pub(crate) const READ_AHEAD_POOL: usize = 64 * 1024 * 1024;

/// The bytes that the waiting requests of a layer may read beyond their own limits.
#[derive(Debug)]
pub(crate) struct ReadAheadPool(AtomicUsize);

impl ReadAheadPool {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }
}

/// A request's share of the pool, returned when its handler has read those bytes.
#[derive(Debug)]
pub(crate) struct PoolShare {
    pool: Arc<ReadAheadPool>,
    bytes: usize,
}

impl PoolShare {
    pub(crate) fn new(pool: &Arc<ReadAheadPool>) -> Self {
        Self { pool: Arc::clone(pool), bytes: 0 }
    }

    /// Takes more bytes out of the pool and returns how many it got, possibly none.
    pub(crate) fn take_more(&mut self) -> usize {
        let wanted = READ_ON.min(MAX_READ_ON - self.bytes);
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
    /// True if it has read as much as it may, and the body goes on.
    fn is_full(&self) -> bool;

    /// Raises the limit by `bytes`.
    fn allow(&mut self, bytes: usize);

    /// Reads what is there; ready with the error that shows that the client has left.
    fn poll_departure(&mut self, body: &mut B, cx: &mut Context<'_>) -> Poll<BoxError>;

    /// Returns the body as the client sent it, made of what was read and of the rest.
    fn put_back(self: Box<Self>, rest: B, share: Option<PoolShare>) -> B;
}

type Rebuild<B> = dyn Fn(ReadAheadBody<B>) -> B + Send + Sync;

struct Reader<B: Body> {
    frames: VecDeque<Frame<B::Data>>,
    error: Option<BoxError>,
    ended: bool,
    /// How many more bytes it may read.
    left: usize,
    rebuild: Arc<Rebuild<B>>,
}

impl<B> ReadAhead<B> for Reader<B>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + 'static,
{
    fn is_full(&self) -> bool {
        self.left == 0 && !self.ended && self.error.is_none()
    }

    fn allow(&mut self, bytes: usize) {
        self.left += bytes;
    }

    fn poll_departure(&mut self, body: &mut B, cx: &mut Context<'_>) -> Poll<BoxError> {
        while self.left > 0 && !self.ended && self.error.is_none() {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(mut frame)) => {
                    if let Some(data) = frame.data_mut() {
                        detach(data);
                    }
                    let bytes = usize::try_from(data_bytes(&frame)).unwrap_or(usize::MAX);
                    // The frame itself counts as well: a body may come byte by byte.
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

    fn put_back(self: Box<Self>, rest: B, share: Option<PoolShare>) -> B {
        if self.frames.is_empty() && self.error.is_none() && !self.ended {
            return rest;
        }
        let Self { frames, error, ended, rebuild, .. } = *self;
        rebuild(ReadAheadBody { frames, error, rest, ended, share })
    }
}

/// A body type that the layer can read ahead.
pub(crate) struct ReadableBody<B> {
    is_complete: fn(&B) -> bool,
    start: Box<dyn Fn(usize) -> Box<dyn ReadAhead<B>> + Send + Sync>,
}

impl<B> ReadableBody<B> {
    /// True if there is nothing to read.
    pub(crate) fn is_complete(&self, body: &B) -> bool {
        (self.is_complete)(body)
    }

    /// Returns a reader for one body, which reads `limit` bytes at most, and the rest of the last frame.
    pub(crate) fn start(&self, limit: usize) -> Box<dyn ReadAhead<B>> {
        (self.start)(limit)
    }
}

/// The body types that a layer can read ahead.
#[derive(Clone)]
pub(crate) struct RequestBodies(Vec<Arc<dyn Any + Send + Sync>>);

impl RequestBodies {
    /// The types that this crate knows.
    pub(crate) fn known() -> Self {
        #[cfg_attr(not(feature = "axum"), expect(unused_mut, reason = "it knows none"))]
        let mut bodies = Self(Vec::new());
        #[cfg(feature = "axum")]
        bodies.add(::axum::body::Body::new::<ReadAheadBody<::axum::body::Body>>);
        bodies
    }

    pub(crate) fn add<B>(&mut self, rebuild: impl Fn(ReadAheadBody<B>) -> B + Send + Sync + 'static)
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + 'static,
    {
        let rebuild: Arc<Rebuild<B>> = Arc::new(rebuild);
        let start = move |limit| -> Box<dyn ReadAhead<B>> {
            let (frames, rebuild) = (VecDeque::new(), Arc::clone(&rebuild));
            Box::new(Reader { frames, error: None, ended: false, left: limit, rebuild })
        };
        let body = ReadableBody { is_complete: B::is_end_stream, start: Box::new(start) };
        self.0.push(Arc::new(body));
    }

    /// Returns how to read bodies of type `B`, if it was added; the last addition counts.
    pub(crate) fn of<B: 'static>(&self) -> Option<&ReadableBody<B>> {
        self.0.iter().rev().find_map(|known| known.downcast_ref())
    }
}
