//! [`LockFuture`].

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_runtime::acquire::Acquire;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::held::{Hold, Terms, without_lock};
use crate::locked::LockedCall;

pin_project! {
    /// The future of a call of a [`LockService`](crate::LockService).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits, it leaves the queue; later, it drops the inner call and then releases
    /// the lock in the background.
    #[must_use = "futures do nothing unless polled"]
    pub struct LockFuture<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        pub(crate) state: State<S, Req>,
    }
}

pin_project! {
    #[project = StateProjection]
    pub(crate) enum State<S, Req>
    where
        S: Service<Req>,
    {
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        // `None` once it was returned.
        Failed { error: Option<LockServiceError<S::Error>> },
        Acquiring { acquire: Acquire, ready: Option<(S, Req)>, terms: Terms },
        Running { #[pin] call: LockedCall<S, Req, Result<S::Response, S::Error>> },
    }
}

impl<S: Service<Req>, Req> Future for LockFuture<S, Req> {
    type Output = Result<S::Response, LockServiceError<S::Error>>;

    // Pending forever if polled after completion.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut state = self.as_mut().project().state;
            let next = match state.as_mut().project() {
                StateProjection::PassThrough { future } => {
                    return without_lock(|| future.poll(cx)).map_err(LockServiceError::Inner);
                }
                StateProjection::Failed { error } => {
                    return error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
                StateProjection::Acquiring { acquire, ready, terms } => {
                    match (ready!(Pin::new(acquire).poll(cx)), ready.take()) {
                        (Ok(guard), Some(ready)) => {
                            let hold = Hold::new(guard, *terms);
                            State::Running { call: LockedCall::new(ready, hold) }
                        }
                        (result, _) => State::Failed { error: result.err().map(Into::into) },
                    }
                }
                StateProjection::Running { call } => {
                    let (result, _) = ready!(call.poll(cx, |result, _| (result, false)))?;
                    return Poll::Ready(result.map_err(LockServiceError::Inner));
                }
            };
            state.set(next);
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for LockFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}
