//! [`Waiting`]: a request that waits for its lock.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use lock_runtime::acquire::Acquire;
use lock_runtime::{LockError, LockGuard};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::http::layer::Shared;
use crate::http::request::read_ahead::{BoxError, PoolShare, READ_ON_EVERY, ReadAhead};
use crate::locked::Call;

/// How long a request waits before its body is read. A free lock takes about a round trip and must not cost
/// more; a client that leaves must be noticed within 100 ms.
const READ_AHEAD_AFTER: Duration = Duration::from_millis(20);

pin_project! {
    /// A request that waits for its lock while its body is read, which shows whether the client has left.
    pub(crate) struct Waiting<ReqBody> {
        acquire: Acquire,
        // Until the next part of the body is read.
        #[pin]
        delay: Option<Sleep>,
        reader: Option<Box<dyn ReadAhead<ReqBody>>>,
        // What the reader has read out of the layer's pool.
        share: Option<PoolShare>,
        // True if the body is complete, or the layer cannot read its type.
        skips_body: bool,
    }
}

/// How a wait has ended.
pub(crate) enum Waited {
    Acquired(LockGuard),
    Failed(LockError),
    /// The client left before the body was complete.
    Departed(BoxError),
}

impl<ReqBody> Waiting<ReqBody> {
    pub(crate) fn new(acquire: Acquire) -> Self {
        Self { acquire, delay: None, reader: None, share: None, skips_body: false }
    }
}

impl<ReqBody: 'static> Waiting<ReqBody> {
    /// Waits for the lock of `call`, which has not started.
    pub(crate) fn poll<S: Service<Request<ReqBody>>, T>(
        mut self: Pin<&mut Self>,
        call: Pin<&mut Call<S, Request<ReqBody>, T>>,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<Waited> {
        let this = self.as_mut().project();
        if let Poll::Ready(acquired) = Pin::new(this.acquire).poll(cx) {
            if let Some(reader) = this.reader.take() {
                let share = this.share.take();
                call.map_request(|request| request.map(|rest| reader.put_back(rest, share)));
            }
            return Poll::Ready(match acquired {
                Ok(guard) => Waited::Acquired(guard),
                Err(error) => Waited::Failed(error),
            });
        }
        match call.request_mut() {
            Some(request) => self.poll_departure(request, shared, cx).map(Waited::Departed),
            None => Poll::Pending,
        }
    }

    /// Reads the part of the body that is there; ready with the error that shows that the client has left.
    fn poll_departure(
        self: Pin<&mut Self>,
        request: &mut Request<ReqBody>,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<BoxError> {
        let mut this = self.project();
        if *this.skips_body {
            return Poll::Pending;
        }
        if this.reader.is_none() {
            let Some(bodies) = shared.read_ahead_of(request.body()) else {
                *this.skips_body = true;
                return Poll::Pending;
            };
            ready!(poll_delay(this.delay.as_mut(), READ_AHEAD_AFTER, cx));
            *this.reader = Some(bodies.start(shared.read_ahead));
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
            let share = this.share.get_or_insert_with(|| PoolShare::new(&shared.pool));
            reader.allow(share.take_more());
        }
    }
}

/// Waits for the duration, and starts again when it is polled after that.
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
