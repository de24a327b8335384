//! [`LockFuture`].

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_runtime::acquire::Acquire;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::held::{HoldHandle, without_lock};
use crate::locked::{Call, CallHold, LockedCall, ReleaseSpec, Releasing};

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

type Outcome<S, Req> = Result<<S as Service<Req>>::Response, <S as Service<Req>>::Error>;

pin_project! {
    #[project = StateProjection]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        // `None` once it was returned.
        Failed { error: Option<LockServiceError<S::Error>> },
        Locked { #[pin] call: LockedCall<S, Req, Outcome<S, Req>>, #[pin] stage: Stage },
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage {
        Acquiring { acquire: Acquire, release: ReleaseSpec },
        Running,
        Releasing { #[pin] releasing: Releasing },
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

    pub(crate) fn acquiring(
        acquire: Acquire,
        call: Call<S, Req, Outcome<S, Req>>,
        release: ReleaseSpec,
    ) -> Self {
        let stage = Stage::Acquiring { acquire, release };
        Self { state: State::Locked { call: LockedCall::new(call), stage } }
    }
}

impl<S: Service<Req>, Req> Future for LockFuture<S, Req> {
    type Output = Result<S::Response, LockServiceError<S::Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (mut call, mut stage) = match self.as_mut().project().state.project() {
            StateProjection::PassThrough { future } => {
                return without_lock(|| future.poll(cx)).map_err(LockServiceError::Inner);
            }
            // Here and below: pending forever if polled after completion.
            StateProjection::Failed { error } => {
                return error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
            }
            StateProjection::Locked { call, stage } => (call, stage),
        };
        loop {
            let next = match stage.as_mut().project() {
                StageProjection::Acquiring { acquire, release } => {
                    let guard = match ready!(Pin::new(acquire).poll(cx)) {
                        Ok(guard) => guard,
                        Err(error) => {
                            // Ends the call.
                            self.set(Self { state: State::Failed { error: None } });
                            return Poll::Ready(Err(error.into()));
                        }
                    };
                    let handle = HoldHandle::new(guard, release.reports_loss);
                    call.as_mut().set_hold(CallHold { handle, spec: *release });
                    Stage::Running
                }
                StageProjection::Running => {
                    let panic = ready!(call.as_mut().poll_then(cx, |result, _| result))?;
                    let Some(releasing) = call.as_mut().release(panic) else {
                        return Poll::Pending;
                    };
                    Stage::Releasing { releasing }
                }
                StageProjection::Releasing { releasing } => {
                    let released = ready!(releasing.poll(cx));
                    let Some(result) = call.take_value() else { return Poll::Pending };
                    released?;
                    return Poll::Ready(result.map_err(LockServiceError::Inner));
                }
            };
            stage.set(next);
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for LockFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}
