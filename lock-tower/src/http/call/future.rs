//! [`HttpLockFuture`]: a request with or without its lock.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::held::without_lock;
use crate::http::call::body::LockBody;
use crate::http::call::serving::{Outcome, RequestLock, Serving};
use crate::locked::Call;

pin_project! {
    /// The future of a request to an [`HttpLockService`](crate::http::HttpLockService).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while the request waits, it leaves the queue; later, it drops the handler and then
    /// releases the lock in the background. With [`OnDisconnect::Finish`](crate::http::OnDisconnect::Finish)
    /// a handler that has its lock runs to its end.
    #[must_use = "futures do nothing unless polled"]
    pub struct HttpLockFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        #[pin]
        state: State<S, ReqBody, B, S::Error>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, ReqBody, B, E>
    where
        S: Service<Request<ReqBody>, Error = E>,
        B: Body,
    {
        Refused { answer: Option<Response<LockBody<B>>> },
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        Serving { #[pin] serving: Serving<S, ReqBody, B, E> },
    }
}

impl<S, ReqBody, B> HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: Body,
{
    pub(crate) fn refused(answer: Response<LockBody<B>>) -> Self {
        Self { state: State::Refused { answer: Some(answer) } }
    }

    /// A request that needs no lock and has started already.
    pub(crate) fn pass_through(future: S::Future) -> Self {
        Self { state: State::PassThrough { future } }
    }

    pub(crate) fn locked(
        call: Call<S, Request<ReqBody>, Outcome<B, S::Error>>,
        lock: RequestLock,
    ) -> Self {
        Self { state: State::Serving { serving: Serving::new(call, lock) } }
    }
}

// `OnDisconnect::Finish`, which a policy can set as well, spawns the handler: hence `Send` and `'static`.
impl<S, ReqBody, B> Future for HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    type Output = Result<Response<LockBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Serving { serving } => serving.poll(cx),
            StateProjection::PassThrough { future } => {
                without_lock(|| future.poll(cx)).map_ok(|response| response.map(LockBody::free))
            }
            // Pending forever if polled after completion.
            StateProjection::Refused { answer } => {
                answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)))
            }
        }
    }
}

impl<S, ReqBody, B> fmt::Debug for HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: Body,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLockFuture").finish_non_exhaustive()
    }
}
