//! [`LockFuture`].

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::locked::{Locked, Outcome};

pin_project! {
    /// A call of a [`LockService`](crate::LockService).
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in line, or drops the inner call and then gives the lock back
    /// in the background.
    #[must_use = "futures do nothing unless polled"]
    pub struct LockFuture<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        locked: Locked<S, Req>,
    }
}

impl<S: Service<Req>, Req> LockFuture<S, Req> {
    pub(crate) fn new(locked: Locked<S, Req>) -> Self {
        Self { locked }
    }
}

impl<S: Service<Req>, Req> Future for LockFuture<S, Req> {
    type Output = Result<S::Response, LockServiceError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().locked.poll(cx)) {
            Outcome::Passed(result) | Outcome::Ran { value: result, .. } => {
                result.map_err(LockServiceError::Inner)
            }
            Outcome::Failed(error) => Err(LockServiceError::Lock(error)),
        })
    }
}

impl<S: Service<Req>, Req> fmt::Debug for LockFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockFuture").field(&self.locked).finish()
    }
}
