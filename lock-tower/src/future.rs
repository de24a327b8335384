//! [`LockFuture`].

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::held::{HoldHandle, Panic, without_lock};
use crate::locked::{Call, End, Releasing, Running, Taken, Taking};

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
        state: State<S, Req>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        // Without a lock, and under way already.
        PassThrough { #[pin] future: S::Future },
        Failed { error: Option<LockServiceError<S::Error>> },
        Taking { #[pin] taking: Taking, call: Option<Call<S, Req>>, end: End },
        Running { #[pin] running: Running<S, Req>, end: End },
        Releasing {
            #[pin] releasing: Releasing,
            result: Option<Result<Result<S::Response, S::Error>, Panic>>,
        },
    }
}

impl<S: Service<Req>, Req> LockFuture<S, Req> {
    pub(crate) fn passing(future: S::Future) -> Self {
        Self { state: State::PassThrough { future } }
    }

    /// A call that failed before anything was sent.
    pub(crate) fn failed(error: LockServiceError<S::Error>) -> Self {
        Self { state: State::Failed { error: Some(error) } }
    }

    pub(crate) fn taking(taking: Taking, call: Call<S, Req>, end: End) -> Self {
        Self { state: State::Taking { taking, call: Some(call), end } }
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
                // Here and below: polled after completion, which a future may answer as it likes
                // short of a panic.
                StateProjection::Failed { error } => {
                    let Some(error) = error.take() else { return Poll::Pending };
                    return Poll::Ready(Err(error));
                }
                StateProjection::Taking { taking, call, end } => {
                    let taken = ready!(taking.poll(cx));
                    let Some(call) = call.take() else { return Poll::Pending };
                    match taken {
                        Taken::Held(guard) => {
                            let running =
                                Running::new(HoldHandle::new(guard, end.reports_loss), call);
                            State::Running { running, end: *end }
                        }
                        Taken::Failed(error) | Taken::NotEnforced(error) => {
                            return Poll::Ready(Err(LockServiceError::Lock(error)));
                        }
                    }
                }
                StateProjection::Running { running, end } => {
                    match ready!(running.poll_then(cx, |result, _| result)) {
                        Err(lost) => return Poll::Ready(Err(LockServiceError::Lock(lost))),
                        Ok(ran) => State::Releasing {
                            releasing: Releasing::new(ran.handle, *end),
                            result: Some(ran.value),
                        },
                    }
                }
                StateProjection::Releasing { releasing, result } => {
                    let released = ready!(releasing.poll(cx));
                    let Some(result) = result.take() else { return Poll::Pending };
                    let result = result.unwrap_or_else(|panic| resume_unwind(panic));
                    return Poll::Ready(match released {
                        Err(lost) => Err(LockServiceError::Lock(lost)),
                        Ok(()) => result.map_err(LockServiceError::Inner),
                    });
                }
            };
            state.set(next);
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for LockFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::PassThrough { .. } => "LockFuture(PassThrough)",
            State::Failed { .. } => "LockFuture(Failed)",
            State::Taking { .. } => "LockFuture(Taking)",
            State::Running { .. } => "LockFuture(Running)",
            State::Releasing { .. } => "LockFuture(Releasing)",
        })
    }
}
