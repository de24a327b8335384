//! Reads the bodies of requests that wait for the lock.
//!
//! An HTTP/1.1 server reads its socket only while the request's body is polled, so only then does it notice
//! that the client has left. While a request waits, the layer polls its body and keeps what arrives, up to a
//! limit. The handler gets what was kept, and then the rest.
//!
//! 1. The handler's request has the same body type as the layer's request. [`RequestBodies`] knows for each
//!    type how to make such a body from a [`ReadAheadBody`]. Bodies of other types are not read.
//! 2. A request takes its limit out of a pool that all requests of the layer share, and gives back what it did not
//!    need once the body has ended. Without a share it waits unread.
//! 3. A body from which nothing was read is handed on as it is.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, mem};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::kept::{Kept, data_bytes};

/// How many bytes of a body are read ahead, by default.
pub(crate) const READ_AHEAD: usize = 64 * 1024;

/// How many bytes all waiting requests of a layer keep together.
pub(crate) const POOL: u32 = 16 * 1024 * 1024;

/// Frames with fewer bytes are copied out of the server's buffer.
const SMALL: usize = 4 * 1024;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

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

/// Boxes the error, without the wrapper of axum's body, which would otherwise wrap it twice.
fn boxed(error: impl Into<BoxError>) -> BoxError {
    let error = error.into();
    #[cfg(feature = "axum-08")]
    let error = match error.downcast::<::axum::Error>() {
        Ok(error) => error.into_inner(),
        Err(error) => error,
    };
    error
}

/// A request's body whose first part was read while the request waited for the lock.
///
/// It yields what the body yields, in the same order: data, trailers and errors.
pub(crate) type ReadAheadBody<B> = Kept<B, BoxError>;

/// Reads one body ahead.
pub(crate) trait ReadAhead<B>: Send {
    /// Reads what is there; ready with the error that shows that the client has left.
    fn poll_departure(&mut self, cx: &mut Context<'_>) -> Poll<BoxError>;

    /// Returns the body as the client sent it, made of what was read and of the rest.
    fn into_body(self: Box<Self>) -> B;
}

type Rebuild<B> = dyn Fn(ReadAheadBody<B>) -> B + Send + Sync;

struct Reader<B: Body> {
    read: ReadAheadBody<B>,
    /// How many bytes of the share are not used yet.
    unused: usize,
    rebuild: Arc<Rebuild<B>>,
}

impl<B> Reader<B>
where
    B: Body<Data: 'static, Error: Into<BoxError>> + Unpin,
{
    /// Keeps a frame, which uses up a part of the share. If that is too small, takes the difference out of the pool, if
    /// the pool has so much.
    fn keep(&mut self, mut frame: Frame<B::Data>) {
        // A small frame is a slice of the server's read buffer, all of which it would keep in memory.
        if let Some(data) = frame.data_mut()
            && let Some(data) = (data as &mut dyn Any).downcast_mut::<Bytes>()
            && data.len() < SMALL
        {
            *data = Bytes::copy_from_slice(data);
        }
        // The frame itself counts as well: a body may come byte by byte.
        let bytes = usize::try_from(data_bytes(&frame)).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_add(mem::size_of::<Frame<B::Data>>());
        let over = u32::try_from(bytes.saturating_sub(self.unused)).unwrap_or(u32::MAX);
        self.unused = self.unused.saturating_sub(bytes);
        if let Some(share) = &mut self.read.share
            && let Ok(more) = Arc::clone(share.semaphore()).try_acquire_many_owned(over)
        {
            share.merge(more);
        }
        self.read.push(Ok(frame));
    }

    /// Gives back the part of the share that is not used, and reads no further.
    fn stop(&mut self) {
        let unused = mem::take(&mut self.unused);
        drop(self.read.share.as_mut().and_then(|share| share.split(unused)));
    }
}

impl<B> ReadAhead<B> for Reader<B>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    fn poll_departure(&mut self, cx: &mut Context<'_>) -> Poll<BoxError> {
        while self.unused > 0 {
            match ready!(self.read.poll_next(cx)) {
                Some(Ok(frame)) => self.keep(frame),
                Some(Err(error)) if is_departure(&error) => return Poll::Ready(error),
                Some(Err(error)) => {
                    self.read.push(Err(error));
                    self.stop();
                }
                None => self.stop(),
            }
        }
        Poll::Pending
    }

    fn into_body(mut self: Box<Self>) -> B {
        self.stop();
        if self.read.is_unread() { self.read.into_rest() } else { (self.rebuild)(self.read) }
    }
}

/// A body type that the layer can read ahead.
pub(crate) struct ReadableBody<B> {
    pub(crate) is_complete: fn(&B) -> bool,
    /// Starts to read a body as far as its share, and the rest of the last frame.
    pub(crate) start: Box<dyn Fn(B, OwnedSemaphorePermit) -> Box<dyn ReadAhead<B>> + Send + Sync>,
}

/// The body types that a layer can read ahead, and how far.
#[derive(Clone)]
pub(crate) struct RequestBodies {
    types: Vec<Arc<dyn Any + Send + Sync>>,
    /// How many bytes of a waiting request's body are read.
    pub(crate) limit: usize,
}

impl RequestBodies {
    /// The types that this crate knows.
    pub(crate) fn known() -> Self {
        #[cfg_attr(not(feature = "axum-08"), expect(unused_mut, reason = "it knows none"))]
        let mut bodies = Self { types: Vec::new(), limit: READ_AHEAD };
        #[cfg(feature = "axum-08")]
        bodies.add(::axum::body::Body::new::<ReadAheadBody<::axum::body::Body>>);
        bodies
    }

    pub(crate) fn add<B>(&mut self, rebuild: impl Fn(ReadAheadBody<B>) -> B + Send + Sync + 'static)
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let rebuild: Arc<Rebuild<B>> = Arc::new(rebuild);
        let start = move |body, share: OwnedSemaphorePermit| -> Box<dyn ReadAhead<B>> {
            let (unused, mut read) = (share.num_permits(), Kept::new(body, boxed));
            read.share = Some(share);
            Box::new(Reader { read, unused, rebuild: Arc::clone(&rebuild) })
        };
        let body = ReadableBody { is_complete: B::is_end_stream, start: Box::new(start) };
        self.types.push(Arc::new(body));
    }

    /// Returns how to read bodies of type `B`, if it was added; the last addition counts.
    pub(crate) fn of<B: 'static>(&self) -> Option<&ReadableBody<B>> {
        self.types.iter().rev().find_map(|known| known.downcast_ref())
    }

    /// Returns what all requests of a layer may keep together.
    pub(crate) fn pool() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(POOL as usize))
    }
}
