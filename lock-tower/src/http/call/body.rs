//! [`LockBody`].

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use lock_runtime::LockError;

use crate::held::without_lock;
use crate::http::call::held_body::HeldBody;
use crate::http::call::peek::Peeked;

/// The body of a locked service's response: the inner service's own, with or without the lock that is
/// held until it ends, or the answer of the lock that kept the service from running.
///
/// The inner body is what it was, and where it is: a body that is held while it is sent moves into one
/// allocation together with its lock.
pub struct LockBody<B: Body> {
    kind: Kind<B>,
}

enum Kind<B: Body> {
    Free(Peeked<B>),
    Held(Pin<Box<HeldBody<B>>>),
    Answer(Option<Bytes>),
}

/// Nothing in it is pinned where it is.
impl<B: Body> Unpin for LockBody<B> {}

impl<B: Body> LockBody<B> {
    /// A body that has nothing to do with a lock, or not any more.
    pub(crate) fn free(peeked: Peeked<B>) -> Self {
        Self { kind: Kind::Free(peeked) }
    }

    pub(crate) fn held(body: HeldBody<B>) -> Self {
        Self { kind: Kind::Held(Box::pin(body)) }
    }

    pub(crate) fn answer(bytes: Bytes) -> Self {
        Self { kind: Kind::Answer(Some(bytes).filter(|bytes| !bytes.is_empty())) }
    }
}

impl<B> Body for LockBody<B>
where
    B: Body + Unpin,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = LockBodyError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut self.get_mut().kind {
            // Polled inside an outer layer's hold, it still is not that layer's body.
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
                let left = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
            }
        }
    }
}

impl<B: Body + Default> Default for LockBody<B> {
    fn default() -> Self {
        Self::free(Peeked::new(B::default()))
    }
}

impl<B: Body> fmt::Debug for LockBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.kind {
            Kind::Free(_) => "LockBody(Free)",
            Kind::Held(_) => "LockBody(Held)",
            Kind::Answer(_) => "LockBody(Answer)",
        })
    }
}

/// Why a body ended before its end. A server that gets this from a body breaks the connection or resets
/// the stream, so that no client takes what it has for the whole.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LockBodyError<E> {
    /// The inner body's own error.
    Inner(E),
    /// The hold was lost while the body was sent.
    Lost(LockError),
    /// The body was not sent within [`max_body_hold`](crate::http::HttpLockLayerBuilder::max_body_hold) or
    /// [`max_hold`](crate::http::HttpLockLayerBuilder::max_hold), and the lock has been given back.
    TooLong,
    /// The lock's client was [shut down](lock_runtime::LockClient::shutdown), its grace is over, and the
    /// lock has been given back.
    ShutDown,
    /// The inner body panicked, and a wrapper around this body caught the panic and polls on.
    Panicked,
}

impl<E: fmt::Display> fmt::Display for LockBodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => error.fmt(f),
            Self::Lost(_) => f.write_str("the lock was lost while the body was sent"),
            Self::TooLong => {
                f.write_str("the body was not sent within the time for which it may hold the lock")
            }
            Self::ShutDown => f.write_str("the lock client was shut down while the body was sent"),
            Self::Panicked => f.write_str("the body panicked while it was sent"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for LockBodyError<E> {
    /// An inner error may be boxed and then is no `Error` itself: match on [`Inner`](Self::Inner).
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Lost(error) => Some(error),
            Self::Inner(_) | Self::TooLong | Self::ShutDown | Self::Panicked => None,
        }
    }
}
