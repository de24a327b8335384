//! [`HttpLockFuture`].

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use lock_runtime::scope;
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tower_service::Service;
use tracing::Instrument as _;

use crate::held::without_lock;
use crate::http::call::body::LockBody;
use crate::http::call::peek::Peeked;
use crate::http::call::serving::{Serving, ServingTerms};
use crate::http::call::waiting::{Departed, Waited, Waiting};
use crate::locked::{Call, Taken, Taking};

pin_project! {
    /// A request to an [`HttpLockService`](crate::http::HttpLockService).
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in line, or drops the handler and then gives the lock back in
    /// the background. With [`OnDisconnect::Finish`](crate::http::OnDisconnect::Finish) a handler that has
    /// its lock runs on to its end.
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
        // Without a lock, and under way already.
        PassThrough { #[pin] future: S::Future },
        Waiting { #[pin] waiting: Waiting<S, ReqBody> },
        // Without the lock that was asked for.
        NotEnforced { #[pin] call: Call<S, Request<ReqBody>> },
        Serving { #[pin] serving: Serving<S, ReqBody, B> },
        // In a task of its own.
        Finishing { task: JoinHandle<Result<Response<LockBody<B>>, E>> },
    }
}

impl<S, ReqBody, B> HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    B: Body,
{
    /// A request that is answered already.
    pub(crate) fn refused(answer: Response<LockBody<B>>) -> Self {
        Self { state: State::Refused { answer: Some(answer) } }
    }

    /// A request that needs no lock and is under way already.
    pub(crate) fn passing(future: S::Future) -> Self {
        Self { state: State::PassThrough { future } }
    }

    pub(crate) fn taking(
        taking: Taking,
        call: Call<S, Request<ReqBody>>,
        terms: ServingTerms,
    ) -> Self {
        Self { state: State::Waiting { waiting: Waiting::new(taking, call, terms) } }
    }
}

impl<S, ReqBody, B> Future for HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    type Output = Result<Response<LockBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let free = |response: Response<B>| response.map(|body| LockBody::free(Peeked::new(body)));
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                // Here and below: polled after completion, which a future may answer as it likes
                // short of a panic.
                StateProjection::Refused { answer } => {
                    return answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)));
                }
                StateProjection::PassThrough { future } => {
                    return without_lock(|| future.poll(cx)).map(|result| result.map(free));
                }
                StateProjection::NotEnforced { call } => {
                    return without_lock(|| call.poll(cx)).map(|result| result.map(free));
                }
                StateProjection::Serving { serving } => return serving.poll(cx),
                StateProjection::Finishing { task } => {
                    return match ready!(Pin::new(task).poll(cx)) {
                        Ok(result) => Poll::Ready(result),
                        Err(ended) => match ended.try_into_panic() {
                            Ok(panic) => resume_unwind(panic),
                            // The runtime goes down, and this task with it.
                            Err(_) => Poll::Pending,
                        },
                    };
                }
                StateProjection::Waiting { waiting } => match ready!(waiting.poll(cx)) {
                    Err(Departed { error, terms }) => {
                        State::Refused { answer: Some(terms.answer_departed(&*error)) }
                    }
                    Ok(Waited { taken, call, terms }) => match taken {
                        Taken::Failed(error) => return Poll::Ready(Ok(terms.answer(&error))),
                        Taken::NotEnforced(_) => State::NotEnforced { call },
                        Taken::Held(guard) => {
                            let finish = terms.finish;
                            let serving = Serving::new(guard, call, terms);
                            if finish {
                                let task = tokio::spawn(scope::inherit(serving).in_current_span());
                                State::Finishing { task }
                            } else {
                                State::Serving { serving }
                            }
                        }
                    },
                },
            };
            state.set(next);
        }
    }
}

impl<S, ReqBody, B> fmt::Debug for HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: Body,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Refused { .. } => "HttpLockFuture(Refused)",
            State::PassThrough { .. } => "HttpLockFuture(PassThrough)",
            State::Waiting { .. } => "HttpLockFuture(Waiting)",
            State::NotEnforced { .. } => "HttpLockFuture(NotEnforced)",
            State::Serving { .. } => "HttpLockFuture(Serving)",
            State::Finishing { .. } => "HttpLockFuture(Finishing)",
        })
    }
}
