//! [`ReadAheadBody`]: a body whose first part was read while its request waited.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};

use crate::http::frames::{data_bytes, size_hint};
use crate::http::request::pool::PoolShare;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A request's body whose first part was read while the request waited for the lock.
///
/// It yields what the body yields, in the same order: data, trailers and errors.
pub(crate) struct ReadAheadBody<B: Body> {
    pub(crate) frames: VecDeque<Frame<B::Data>>,
    /// The error that came after the frames.
    pub(crate) error: Option<BoxError>,
    /// `None` while the request waits.
    pub(crate) rest: Option<B>,
    /// True if nothing comes after the frames.
    pub(crate) ended: bool,
    /// The frames' share of the pool, until the last frame is handed on.
    pub(crate) share: PoolShare,
}

/// No field is pinned in place.
impl<B: Body + Unpin> Unpin for ReadAheadBody<B> {}

impl<B: Body> ReadAheadBody<B> {
    pub(crate) fn new(share: PoolShare) -> Self {
        Self { frames: VecDeque::new(), error: None, rest: None, ended: false, share }
    }
}

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
                this.share.give_back();
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = this.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match &mut this.rest {
            Some(rest) if !this.ended => {
                let item = ready!(Pin::new(rest).poll_frame(cx));
                Poll::Ready(item.map(|item| item.map_err(boxed)))
            }
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_kept = self.frames.is_empty() && self.error.is_none();
        nothing_kept && (self.ended || self.rest.as_ref().is_none_or(Body::is_end_stream))
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.frames.iter().map(data_bytes).sum();
        let rest = self.rest.as_ref().filter(|_| !self.ended);
        size_hint(kept, self.error.is_some(), rest.map(Body::size_hint))
    }
}

/// Boxes the error, without the wrapper of axum's body, which would otherwise wrap it twice.
pub(crate) fn boxed(error: impl Into<BoxError>) -> BoxError {
    let error = error.into();
    #[cfg(feature = "axum-08")]
    let error = match error.downcast::<::axum::Error>() {
        Ok(error) => error.into_inner(),
        Err(error) => error,
    };
    error
}
