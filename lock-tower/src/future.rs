//! [`LockFuture`].

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_runtime::acquire::Acquire;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::held::{HoldHandle, without_lock};
use crate::locked::{Call, ReleaseSpec, Releasing, Running};

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
        state: State<S, Req>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        Failed { error: Option<LockServiceError<S::Error>> },
        Acquiring { acquire: Acquire, call: Option<Call<S, Req>>, release: ReleaseSpec },
        Running { #[pin] running: Running<S, Req> },
        Releasing { #[pin] releasing: Releasing<Result<S::Response, S::Error>> },
    }
}

impl<S: Service<Req>, Req> LockFuture<S, Req> {
    /// A call that runs without a lock.
    pub(crate) fn pass_through(future: S::Future) -> Self {
        Self { state: State::PassThrough { future } }
    }

    /// A call that failed before the lock was asked for.
    pub(crate) fn failed(error: LockServiceError<S::Error>) -> Self {
        Self { state: State::Failed { error: Some(error) } }
    }

    pub(crate) fn acquiring(acquire: Acquire, call: Call<S, Req>, release: ReleaseSpec) -> Self {
        Self { state: State::Acquiring { acquire, call: Some(call), release } }
    }
}

impl<S: Service<Req>, Req> Future for LockFuture<S, Req> {
    type Output = Result<S::Response, LockServiceError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::PassThrough { future } => {
                    return without_lock(|| future.poll(cx)).map_err(LockServiceError::Inner);
                }
                // Here and below: pending forever if polled after completion.
                StateProjection::Failed { error } => {
                    return error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
                StateProjection::Acquiring { acquire, call, release } => {
                    let guard = ready!(Pin::new(acquire).poll(cx))?;
                    let Some(call) = call.take() else { return Poll::Pending };
                    let handle = HoldHandle::new(guard, release.reports_loss);
                    State::Running { running: Running::new(handle, *release, call) }
                }
                StateProjection::Running { running } => {
                    let (result, hold) = ready!(running.poll_then(cx, |result, _| result))?;
                    State::Releasing { releasing: hold.release(result) }
                }
                StateProjection::Releasing { releasing } => {
                    let result = ready!(releasing.poll(cx))?;
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
