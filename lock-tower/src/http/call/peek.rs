//! Whether a body is complete in memory, found out by taking the first of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf as _;
use http_body::{Body, Frame, SizeHint};

/// How many frames are looked at: data, and trailers as gRPC's unary answers have them.
const FRAMES: usize = 2;

type Item<B> = Result<Frame<<B as Body>::Data>, <B as Body>::Error>;

/// A body, and what was taken out of it already.
///
/// A length that a body announces does not say that it is there: that of a proxied answer is known
/// while it is still on its way. What can be taken out without waiting is there.
pub(crate) struct Peeked<B: Body> {
    taken: [Option<Item<B>>; FRAMES],
    body: B,
    /// Nothing follows what was taken.
    at_end: bool,
    failed: bool,
}

impl<B: Body> Peeked<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { taken: [None, None], body, at_end: false, failed: false }
    }

    /// Apart again.
    pub(crate) fn into_parts(self) -> (impl Iterator<Item = Item<B>>, B) {
        (self.taken.into_iter().flatten(), self.body)
    }

    fn taken_bytes(&self) -> u64 {
        let data = self.taken.iter().flatten().flatten().filter_map(Frame::data_ref);
        data.map(|data| data.remaining() as u64).sum()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let taken = self.taken_bytes();
        match self.at_end {
            // What has failed must not look complete.
            _ if self.failed => plus(SizeHint::new(), taken),
            true => SizeHint::with_exact(taken),
            false => plus(self.body.size_hint(), taken),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.taken.iter().all(Option::is_none) && (self.at_end || self.body.is_end_stream())
    }
}

/// So many bytes more.
pub(crate) fn plus(hint: SizeHint, bytes: u64) -> SizeHint {
    let mut sum = SizeHint::new();
    if let Some(upper) = hint.upper() {
        sum.set_upper(upper.saturating_add(bytes));
    }
    sum.set_lower(hint.lower().saturating_add(bytes));
    sum
}

impl<B: Body + Unpin> Peeked<B> {
    /// Takes out what is there; true if that is all.
    pub(crate) fn look(&mut self, cx: &mut Context<'_>) -> bool {
        for place in &mut self.taken {
            if self.at_end || self.body.is_end_stream() {
                self.at_end = true;
                return true;
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return false,
                Poll::Ready(None) => self.at_end = true,
                Poll::Ready(Some(item)) => {
                    self.failed = item.is_err();
                    self.at_end = item.as_ref().map_or(true, Frame::is_trailers);
                    *place = Some(item);
                }
            }
        }
        self.at_end |= self.body.is_end_stream();
        self.at_end
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item<B>>> {
        if let Some(item) = self.taken.iter_mut().find_map(Option::take) {
            return Poll::Ready(Some(item));
        }
        if self.at_end {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}
