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
use crate::http::request::read_ahead::ReadAhead;
use crate::http::request::read_body::BoxError;
use crate::locked::Call;

/// How long a request waits before its body is read. A free lock takes about a round trip and must not cost
/// more; a client that leaves must be noticed within 100 ms.
const READ_AHEAD_AFTER: Duration = Duration::from_millis(20);

/// How long a request waits before it asks the layer's pool again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

pin_project! {
    /// A request that waits for its lock while its body is read, which shows whether the client has left.
    pub(crate) struct Waiting<ReqBody> {
        acquire: Acquire,
        // Until the body is read.
        #[pin]
        delay: Option<Sleep>,
        reader: Option<Box<dyn ReadAhead<ReqBody>>>,
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
        Self { acquire, delay: None, reader: None, skips_body: false }
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
                call.map_request(|request| request.map(|rest| reader.put_back(rest)));
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
            if this.delay.is_none() {
                this.delay.set(Some(sleep(READ_AHEAD_AFTER)));
            }
            loop {
                if let Some(delay) = this.delay.as_mut().as_pin_mut() {
                    ready!(delay.poll(cx));
                }
                if let Some(share) = shared.pool.share(shared.read_ahead) {
                    *this.reader = Some(bodies.start(share));
                    break;
                }
                this.delay.set(Some(sleep(ASK_AGAIN_AFTER)));
            }
        }
        match this.reader {
            Some(reader) => reader.poll_departure(request.body_mut(), cx),
            None => Poll::Pending,
        }
    }
}
