//! [`Kept`]: a body of which some frames were taken out before they are sent on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// A body, and the first of its items, which were taken out. Its errors become `E`.
pub(crate) struct Kept<B: Body, E> {
    // Most bodies that are complete in memory have one frame, which costs no allocation.
    first: Option<Result<Frame<B::Data>, E>>,
    more: VecDeque<Result<Frame<B::Data>, E>>,
    body: B,
    map_err: fn(B::Error) -> E,
    /// True if nothing comes after the kept items.
    ended: bool,
    /// What the kept items take of a pool.
    pub(crate) share: Option<OwnedSemaphorePermit>,
}

/// No field is pinned in place.
impl<B: Body + Unpin, E> Unpin for Kept<B, E> {}

impl<B: Body, E> Kept<B, E> {
    pub(crate) fn new(body: B, map_err: fn(B::Error) -> E) -> Self {
        Self { first: None, more: VecDeque::new(), body, map_err, ended: false, share: None }
    }

    /// Keeps an item behind the others.
    pub(crate) fn push(&mut self, item: Result<Frame<B::Data>, E>) {
        if self.is_empty() {
            self.first = Some(item);
        } else {
            self.more.push_back(item);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Result<Frame<B::Data>, E>> {
        let item = self.first.take().or_else(|| self.more.pop_front());
        self.share.take_if(|_| self.more.is_empty());
        item
    }

    /// True if no item is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }

    /// True if nothing comes after the kept items.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    /// True if nothing was read of the body.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_empty() && !self.ended
    }

    /// Returns the body without the kept items.
    pub(crate) fn into_rest(self) -> B {
        self.body
    }
}

impl<B: Body + Unpin, E> Kept<B, E> {
    /// Polls the next item after the kept ones.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, E>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let item = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.ended = item.is_none();
        Poll::Ready(item.map(|item| item.map_err(self.map_err)))
    }

    /// Keeps up to two items that are ready, as unary gRPC answers have; true if nothing follows them.
    ///
    /// The length that a body announces does not show whether it is complete in memory: the length of a proxied answer is
    /// known while the answer is still on its way. What can be taken out without waiting is in memory.
    pub(crate) fn peek(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..2 {
            if self.has_ended() {
                break;
            }
            match self.poll_next(cx) {
                Poll::Pending => return false,
                Poll::Ready(None) => {}
                Poll::Ready(Some(item)) => {
                    self.ended = item.as_ref().map_or(true, Frame::is_trailers);
                    self.push(item);
                }
            }
        }
        self.has_ended()
    }
}

impl<B: Body + Unpin, E> Body for Kept<B, E> {
    type Data = B::Data;
    type Error = E;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, E>>> {
        let this = self.get_mut();
        match this.pop() {
            Some(item) => Poll::Ready(Some(item)),
            None => this.poll_next(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty() && self.has_ended()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = if self.ended { SizeHint::with_exact(0) } else { self.body.size_hint() };
        size_hint(self.first.iter().chain(&self.more), rest)
    }
}

/// Returns the size of these items and the `rest`. The size of a body that fails is unknown, so that it never looks
/// complete.
pub(crate) fn size_hint<'i, D: Buf + 'i, E: 'i>(
    items: impl Iterator<Item = &'i Result<Frame<D>, E>>,
    rest: SizeHint,
) -> SizeHint {
    let (mut lower, mut upper) = (rest.lower(), rest.upper());
    for item in items {
        let bytes = item.as_ref().map_or(0, data_bytes);
        lower = lower.saturating_add(bytes);
        upper = upper.filter(|_| item.is_ok()).map(|upper| upper.saturating_add(bytes));
    }
    let mut sum = SizeHint::new();
    sum.set_lower(lower);
    if let Some(upper) = upper {
        sum.set_upper(upper);
    }
    sum
}

/// Returns the number of data bytes in the frame.
pub(crate) fn data_bytes<D: Buf>(frame: &Frame<D>) -> u64 {
    frame.data_ref().map_or(0, |data| data.remaining() as u64)
}
