//! [`WaitingBody`]: the body of a request that waits for its lock.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::http::layer::Shared;
use crate::http::read_ahead::{BoxError, POOL, ReadAhead};

/// How long a request waits before its body is read. A free lock takes about a round trip and must not cost
/// more; a client that leaves must be noticed within 100 ms.
const READ_AHEAD_AFTER: Duration = Duration::from_millis(20);

/// How long a request waits before it asks the layer's pool again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

pin_project! {
    /// The body of a request that waits for its lock.
    pub(crate) struct WaitingBody<B> {
        // Until it is read.
        unread: Option<B>,
        #[pin]
        delay: Option<Sleep>,
        reader: Option<Box<dyn ReadAhead<B>>>,
    }
}

impl<B> WaitingBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { unread: Some(body), delay: None, reader: None }
    }

    /// Takes the body, as the client sent it.
    pub(crate) fn take(self: Pin<&mut Self>) -> Option<B> {
        let this = self.project();
        this.unread.take().or_else(|| Some(this.reader.take()?.into_body()))
    }

    /// Reads the part of the body that is there; ready with the error that shows that the client has left.
    pub(crate) fn poll_departure(
        self: Pin<&mut Self>,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<BoxError>
    where
        B: 'static,
    {
        let (mut this, bodies) = (self.project(), &shared.settings.bodies);
        while let Some(body) = this.unread.as_ref() {
            let readable =
                bodies.of::<B>().filter(|it| bodies.limit > 0 && !(it.is_complete)(body));
            let Some(readable) = readable else { return Poll::Pending };
            match this.delay.as_mut().as_pin_mut() {
                None => this.delay.set(Some(sleep(READ_AHEAD_AFTER))),
                Some(delay) => {
                    ready!(delay.poll(cx));
                    let limit = u32::try_from(bodies.limit).unwrap_or(POOL).min(POOL);
                    match Arc::clone(&shared.pool).try_acquire_many_owned(limit) {
                        Ok(share) => {
                            let body = this.unread.take();
                            *this.reader = body.map(|body| (readable.start)(body, share));
                        }
                        Err(_) => this.delay.set(Some(sleep(ASK_AGAIN_AFTER))),
                    }
                }
            }
        }
        match this.reader {
            Some(reader) => reader.poll_departure(cx),
            None => Poll::Pending,
        }
    }
}
