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
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, mem};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::http::frames::data_bytes;
use crate::http::request::pool::PoolShare;
use crate::http::request::read_body::{BoxError, ReadAheadBody, boxed};

/// How many bytes of a body are read ahead, by default.
pub(crate) const READ_AHEAD: usize = 64 * 1024;

/// Frames with fewer bytes are copied out of the server's buffer.
const SMALL: usize = 4 * 1024;

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

/// Reads one body ahead.
pub(crate) trait ReadAhead<B>: Send {
    /// Reads what is there; ready with the error that shows that the client has left.
    fn poll_departure(&mut self, body: &mut B, cx: &mut Context<'_>) -> Poll<BoxError>;

    /// Returns the body as the client sent it, made of what was read and of the rest.
    fn put_back(self: Box<Self>, rest: B) -> B;
}

type Rebuild<B> = dyn Fn(ReadAheadBody<B>) -> B + Send + Sync;

struct Reader<B: Body> {
    read: ReadAheadBody<B>,
    rebuild: Arc<Rebuild<B>>,
}

impl<B> ReadAhead<B> for Reader<B>
where
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    fn poll_departure(&mut self, body: &mut B, cx: &mut Context<'_>) -> Poll<BoxError> {
        let read = &mut self.read;
        while !read.ended && read.error.is_none() && !read.share.is_used_up() {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(mut frame)) => {
                    if let Some(data) = frame.data_mut() {
                        detach(data);
                    }
                    // The frame itself counts as well: a body may come byte by byte.
                    let bytes = usize::try_from(data_bytes(&frame)).unwrap_or(usize::MAX);
                    read.share.use_up(bytes.saturating_add(mem::size_of::<Frame<B::Data>>()));
                    read.frames.push_back(frame);
                }
                Some(Err(error)) => {
                    let error = boxed(error);
                    if is_departure(&error) {
                        return Poll::Ready(error);
                    }
                    read.error = Some(error);
                }
                None => read.ended = true,
            }
        }
        if read.ended || read.error.is_some() {
            read.share.give_back_rest();
        }
        Poll::Pending
    }

    fn put_back(self: Box<Self>, rest: B) -> B {
        let Self { mut read, rebuild } = *self;
        if read.frames.is_empty() && read.error.is_none() && !read.ended {
            return rest;
        }
        read.share.give_back_rest();
        read.rest = Some(rest);
        rebuild(read)
    }
}

/// A body type that the layer can read ahead.
pub(crate) struct ReadableBody<B> {
    is_complete: fn(&B) -> bool,
    start: Box<dyn Fn(PoolShare) -> Box<dyn ReadAhead<B>> + Send + Sync>,
}

impl<B> ReadableBody<B> {
    /// True if there is nothing to read.
    pub(crate) fn is_complete(&self, body: &B) -> bool {
        (self.is_complete)(body)
    }

    /// Returns a reader for one body, which reads as much as its share, and the rest of the last frame.
    pub(crate) fn start(&self, share: PoolShare) -> Box<dyn ReadAhead<B>> {
        (self.start)(share)
    }
}

/// The body types that a layer can read ahead.
#[derive(Clone)]
pub(crate) struct RequestBodies(Vec<Arc<dyn Any + Send + Sync>>);

impl RequestBodies {
    /// The types that this crate knows.
    pub(crate) fn known() -> Self {
        #[cfg_attr(not(feature = "axum-08"), expect(unused_mut, reason = "it knows none"))]
        let mut bodies = Self(Vec::new());
        #[cfg(feature = "axum-08")]
        bodies.add(::axum::body::Body::new::<ReadAheadBody<::axum::body::Body>>);
        bodies
    }

    pub(crate) fn add<B>(&mut self, rebuild: impl Fn(ReadAheadBody<B>) -> B + Send + Sync + 'static)
    where
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let rebuild: Arc<Rebuild<B>> = Arc::new(rebuild);
        let start = move |share| -> Box<dyn ReadAhead<B>> {
            Box::new(Reader { read: ReadAheadBody::new(share), rebuild: Arc::clone(&rebuild) })
        };
        let body = ReadableBody { is_complete: B::is_end_stream, start: Box::new(start) };
        self.0.push(Arc::new(body));
    }

    /// Returns how to read bodies of type `B`, if it was added; the last addition counts.
    pub(crate) fn of<B: 'static>(&self) -> Option<&ReadableBody<B>> {
        self.0.iter().rev().find_map(|known| known.downcast_ref())
    }
}
