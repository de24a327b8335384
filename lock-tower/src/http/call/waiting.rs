//! A request that waits for its lock, and its client, which may leave meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::http::call::serving::ServingTerms;
use crate::http::request::read_ahead::{BoxError, PoolShare, READ_ON_EVERY, ReadAhead};
use crate::locked::{Call, Taken, Taking};

/// How long a request waits before its body is read. A free lock takes a round trip, and is not to cost more;
/// a departed client is to be noticed within 100 ms.
const READ_AHEAD_AFTER: Duration = Duration::from_millis(20);

pin_project! {
    /// A request that waits for its lock.
    pub(crate) struct Waiting<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        taking: Taking,
        next: Option<(Call<S, Request<ReqBody>>, ServingTerms)>,
        // Runs until the body is read, or read on.
        #[pin]
        delay: Option<Sleep>,
        reader: Option<Box<dyn ReadAhead<ReqBody>>>,
        // What the reader has beyond what is its own.
        share: Option<PoolShare>,
        // True if the body is complete, or its type unknown to the layer.
        unread: bool,
    }
}

/// A request whose wait is over: it has its lock, or cannot have it.
pub(crate) struct Waited<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(crate) taken: Taken,
    pub(crate) call: Call<S, Request<ReqBody>>,
    pub(crate) terms: ServingTerms,
}

/// A request whose client has left before its body was complete.
pub(crate) struct Departed {
    pub(crate) error: BoxError,
    pub(crate) terms: ServingTerms,
}

impl<S, ReqBody> Waiting<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(crate) fn new(
        taking: Taking,
        call: Call<S, Request<ReqBody>>,
        terms: ServingTerms,
    ) -> Self {
        let next = Some((call, terms));
        Self { taking, next, delay: None, reader: None, share: None, unread: false }
    }
}

impl<S, ReqBody> Waiting<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
    ReqBody: 'static,
{
    /// Reads what there is of the body; ready if that says that the client has left.
    fn poll_departure(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BoxError> {
        let mut this = self.project();
        let Some((call, terms)) = this.next else { return Poll::Pending };
        let Some(request) = call.request_mut().filter(|_| !*this.unread) else {
            return Poll::Pending;
        };
        if this.reader.is_none() {
            let Some(bodies) = terms.shared.read_ahead_of::<ReqBody>(request.body()) else {
                *this.unread = true;
                return Poll::Pending;
            };
            ready!(poll_delay(this.delay.as_mut(), READ_AHEAD_AFTER, cx));
            *this.reader = Some(bodies.start(terms.shared.read_ahead));
        }
        let Some(reader) = this.reader else { return Poll::Pending };
        loop {
            if let Poll::Ready(error) = reader.poll_departure(request.body_mut(), cx) {
                return Poll::Ready(error);
            }
            if !reader.is_full() {
                return Poll::Pending;
            }
            ready!(poll_delay(this.delay.as_mut(), READ_ON_EVERY, cx));
            let share = this.share.get_or_insert_with(|| PoolShare::new(&terms.shared.pool));
            reader.allow(share.more());
        }
    }
}

/// Waits so long, and starts anew when polled after that.
fn poll_delay(
    mut delay: Pin<&mut Option<Sleep>>,
    duration: Duration,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if delay.is_none() {
        delay.set(Some(sleep(duration)));
    }
    if let Some(running) = delay.as_mut().as_pin_mut() {
        ready!(running.poll(cx));
    }
    delay.set(None);
    Poll::Ready(())
}

impl<S, ReqBody> Future for Waiting<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
    ReqBody: 'static,
{
    type Output = Result<Waited<S, ReqBody>, Departed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        if let Poll::Ready(taken) = Pin::new(this.taking).poll(cx) {
            // Polled after completion, which a future may answer as it likes short of a panic.
            let Some((mut call, terms)) = this.next.take() else { return Poll::Pending };
            if let Some(reader) = this.reader.take() {
                let share = this.share.take();
                call.map_request(|request| request.map(|rest| reader.put_back(rest, share)));
            }
            return Poll::Ready(Ok(Waited { taken, call, terms }));
        }
        let error = ready!(self.as_mut().poll_departure(cx));
        let Some((_, terms)) = self.project().next.take() else { return Poll::Pending };
        Poll::Ready(Err(Departed { error, terms }))
    }
}
