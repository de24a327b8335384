//! Frames that are taken out of a body before they are sent on.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

/// Returns the size of a body of which `kept` bytes were taken out; `rest` is the hint of the remaining body,
/// `None` if nothing remains. The size of a body that `failed` is unknown, so that it never looks complete.
pub(crate) fn size_hint(kept: u64, failed: bool, rest: Option<SizeHint>) -> SizeHint {
    let rest = match rest {
        _ if failed => SizeHint::new(),
        Some(rest) => rest,
        None => SizeHint::with_exact(0),
    };
    let mut sum = SizeHint::new();
    if let Some(upper) = rest.upper() {
        sum.set_upper(upper.saturating_add(kept));
    }
    sum.set_lower(rest.lower().saturating_add(kept));
    sum
}

/// Returns the number of data bytes in the frame.
pub(crate) fn data_bytes<D: Buf>(frame: &Frame<D>) -> u64 {
    frame.data_ref().map_or(0, |data| data.remaining() as u64)
}

/// An item of a body.
pub(crate) type Item<D, E> = Result<Frame<D>, E>;

/// Items of a body, at most two: data and trailers, as unary gRPC answers have, or data and an error. A frame is large where
/// it is moved, so only the first is kept in place.
pub(crate) struct Frames<D, E> {
    first: Option<Item<D, E>>,
    second: Option<Box<Item<D, E>>>,
}

impl<D: Buf, E> Frames<D, E> {
    pub(crate) fn new() -> Self {
        Self { first: None, second: None }
    }

    /// Adds an item. A third item would replace the second, but nothing comes after trailers.
    pub(crate) fn push(&mut self, item: Item<D, E>) {
        if self.is_empty() {
            self.first = Some(item);
        } else {
            self.second = Some(Box::new(item));
        }
    }

    /// Replaces all items by an error.
    pub(crate) fn fail(&mut self, error: E) {
        *self = Self { first: Some(Err(error)), second: None };
    }

    pub(crate) fn pop(&mut self) -> Option<Item<D, E>> {
        self.first.take().or_else(|| self.second.take().map(|item| *item))
    }

    pub(crate) fn map_err<F>(self, map: impl Fn(E) -> F) -> Frames<D, F> {
        let first = self.first.map(|item| item.map_err(&map));
        Frames { first, second: self.second.map(|item| Box::new(item.map_err(&map))) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.second.is_none()
    }

    pub(crate) fn has_error(&self) -> bool {
        self.items().any(Result::is_err)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.items().flatten().map(data_bytes).sum()
    }

    fn items(&self) -> impl Iterator<Item = &Item<D, E>> {
        self.first.iter().chain(self.second.as_deref())
    }
}

/// A body, and the items that were taken out of it to find out whether it is complete in memory.
///
/// The length that a body announces does not show that: the length of a proxied answer is known while the
/// answer is still on its way. What can be taken out without waiting is in memory.
pub(crate) struct Peeked<B: Body> {
    taken: Frames<B::Data, B::Error>,
    body: B,
    /// True if the taken items are the last.
    at_end: bool,
    failed: bool,
}

impl<B: Body> Peeked<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { taken: Frames::new(), body, at_end: false, failed: false }
    }

    pub(crate) fn into_parts(self) -> (Frames<B::Data, B::Error>, B) {
        (self.taken, self.body)
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let rest = (!self.at_end).then(|| self.body.size_hint());
        size_hint(self.taken.bytes(), self.failed, rest)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.taken.is_empty() && (self.at_end || self.body.is_end_stream())
    }
}

impl<B: Body + Unpin> Peeked<B> {
    /// Takes out up to two items that are ready; true if nothing follows them.
    pub(crate) fn peek(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..2 {
            if self.at_end || self.body.is_end_stream() {
                break;
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return false,
                Poll::Ready(None) => self.at_end = true,
                Poll::Ready(Some(item)) => {
                    self.failed = item.is_err();
                    self.at_end = item.as_ref().map_or(true, Frame::is_trailers);
                    self.taken.push(item);
                }
            }
        }
        self.at_end |= self.body.is_end_stream();
        self.at_end
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Item<B::Data, B::Error>>> {
        match self.taken.pop() {
            Some(item) => Poll::Ready(Some(item)),
            None if self.at_end => Poll::Ready(None),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }
}
