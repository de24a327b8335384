//! [`LockBody`], the body of a response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::held::{Hold, without_lock};
use crate::http::error::LockBodyError;
use crate::http::held_body::{HeldBody, Inner, Item};
use crate::http::kept::Kept;
use crate::locked::LockSpec;

/// The body of a locked service's response: the inner service's body, with or without the lock that is held
/// until it ends, or the layer's own answer.
///
/// The inner body is not boxed, except a body that holds the lock while it is sent.
pub struct LockBody<B: Body> {
    kind: Kind<B>,
}

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
