//! [`HttpLockFuture`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use lock_runtime::LockOptions;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::LockBody;
use super::layer::Shared;
use super::problem;
use crate::locked::{Locked, Outcome};

pin_project! {
    /// A request to an [`HttpLockService`](super::HttpLockService).
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in line, or drops the handler and then gives the lock back in
    /// the background.
    #[must_use = "futures do nothing unless polled"]
    pub struct HttpLockFuture<S, Body, B>
    where
        S: Service<Request<Body>>,
    {
        #[pin]
        state: State<S, Body, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Body, B>
    where
        S: Service<Request<Body>>,
    {
        Rejected { answer: Option<Response<LockBody<B>>> },
        Locked {
            #[pin] locked: Locked<S, Request<Body>>,
            options: Option<LockOptions>,
            shared: Arc<Shared>,
        },
    }
}

impl<S, Body, B> HttpLockFuture<S, Body, B>
where
    S: Service<Request<Body>, Response = Response<B>>,
{
    /// A request that is answered already.
    pub(super) fn rejected(answer: Response<LockBody<B>>) -> Self {
        Self { state: State::Rejected { answer: Some(answer) } }
    }

    /// A request that needs no lock and is under way already.
    pub(super) fn passing(future: S::Future, shared: &Arc<Shared>) -> Self {
        let (locked, shared) = (Locked::passing(future), Arc::clone(shared));
        Self { state: State::Locked { locked, options: None, shared } }
    }

    pub(super) fn locked(
        locked: Locked<S, Request<Body>>,
        options: LockOptions,
        shared: &Arc<Shared>,
    ) -> Self {
        Self { state: State::Locked { locked, options: Some(options), shared: Arc::clone(shared) } }
    }
}

impl<S, Body, B> Future for HttpLockFuture<S, Body, B>
where
    S: Service<Request<Body>, Response = Response<B>>,
{
    type Output = Result<Response<LockBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (locked, options, shared) = match self.project().state.project() {
            // Polled after completion, which a future may answer as it likes short of a panic.
            StateProjection::Rejected { answer } => {
                return answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)));
            }
            StateProjection::Locked { locked, options, shared } => (locked, options, shared),
        };
        let result = match ready!(locked.poll(cx)) {
            Outcome::Passed(result) => result,
            Outcome::Ran { value, held } => {
                shared.times.record(held);
                value
            }
            Outcome::Failed(error) => {
                return Poll::Ready(Ok(problem::of_lock(&error, *options, &shared.times)));
            }
        };
        Poll::Ready(result.map(|response| response.map(LockBody::inner)))
    }
}

impl<S, Body, B> fmt::Debug for HttpLockFuture<S, Body, B>
where
    S: Service<Request<Body>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Rejected { .. } => f.write_str("HttpLockFuture(Rejected)"),
            State::Locked { locked, .. } => f.debug_tuple("HttpLockFuture").field(locked).finish(),
        }
    }
}
