//! [`LockBody`].

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a locked service's response: the inner service's own, or the answer of the lock
    /// that kept it from running.
    pub struct LockBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Problem { text: Option<Bytes> },
    }
}

impl<B> LockBody<B> {
    pub(super) fn inner(body: B) -> Self {
        Self { kind: Kind::Inner { body } }
    }

    pub(super) fn problem(text: String) -> Self {
        Self { kind: Kind::Problem { text: Some(text.into()) } }
    }
}

impl<B> Body for LockBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body } => body.poll_frame(cx),
            KindProjection::Problem { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Problem { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Problem { text } => {
                let left = text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
            }
        }
    }
}

impl<B: Default> Default for LockBody<B> {
    fn default() -> Self {
        Self::inner(B::default())
    }
}

impl<B: fmt::Debug> fmt::Debug for LockBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Inner { body } => f.debug_tuple("LockBody").field(body).finish(),
            Kind::Problem { text } => f.debug_tuple("LockBody").field(text).finish(),
        }
    }
}
