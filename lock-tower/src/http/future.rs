//! [`HttpLockFuture`]: waits for the lock of a request, runs the handler, then releases the lock when its time has come.

use std::fmt;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use lock_runtime::__layer_v1 as runtime;
use lock_runtime::acquire::Acquire;
use lock_runtime::{LockKey, scope};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tower_service::Service;
use tracing::Instrument as _;

use crate::held::{Hold, without_lock};
use crate::http::answer::RefusalContext;
use crate::http::body::LockBody;
use crate::http::layer::Shared;
use crate::http::plan::Plan;
use crate::http::response::LockResponse;
use crate::http::settings::HoldUntil;
use crate::http::waiting_body::WaitingBody;
use crate::locked::{LockSpec, LockedCall};

/// The lock of one request, and what the answers to the request depend on.
pub(crate) struct RequestLock {
    pub(crate) shared: Arc<Shared>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) key: LockKey,
    pub(crate) spec: LockSpec,
    /// True if the request's own deadline bounds the wait.
    pub(crate) deadline: bool,
    pub(crate) grpc: bool,
    /// False if the answer is sent without its body.
    pub(crate) has_body: bool,
    /// The head of the request, for a responder.
    pub(crate) head: Option<Box<Parts>>,
}

impl RequestLock {
    /// Returns the answer to a request that is refused.
    fn answer<B: Body>(
        &self,
        refusal: impl FnOnce(RefusalContext<'_>) -> LockResponse,
    ) -> Response<LockBody<B>> {
        // As the store and its operator know it.
        let name = self.spec.client.key(self.key.clone());
        let context = RefusalContext {
            lease: Some(runtime::in_effect(&self.spec.options).lease),
            deadline: self.deadline,
            grpc: self.grpc,
            ..self.plan.context(Some(name.as_ref().unwrap_or(&self.key)))
        };
        LockBody::answer(self.shared.answer(refusal(context), self.head.as_deref()))
    }

    /// True if the lock is held until the body has been sent.
    fn is_held_for_body<B: Body + Unpin>(
        &self,
        response: &mut Response<LockBody<B>>,
        cx: &mut Context<'_>,
    ) -> bool {
        let status = response.status();
        let bodiless = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if bodiless || !self.has_body || response.body().is_empty() {
            return false;
        }
        match self.plan.http.hold.unwrap_or_default() {
            HoldUntil::Response => false,
            HoldUntil::Body => true,
            HoldUntil::Auto => !response.body_mut().peek(cx),
        }
    }

    /// The response, whose body holds the lock while it is sent.
    fn held_response<B: Body + Unpin>(
        &self,
        response: Response<LockBody<B>>,
        hold: Hold,
    ) -> Response<LockBody<B>> {
        let until =
            self.plan.body_limit(hold.acquired_at, runtime::in_effect(&self.spec.options).max_hold);
        let announced = response.headers().get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|body| body.held(hold, &self.spec, until, announced))
    }

    /// Polls the handler, and then the release of its lock, unless the body of the response takes the hold.
    fn poll_call<S, ReqBody, B>(
        &self,
        call: Pin<&mut HttpCall<S, ReqBody, B>>,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome<S, ReqBody, B>>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: Body + Unpin,
    {
        // Under the guard, which protects what the body does when it is peeked at.
        let then = |result: Result<Response<B>, S::Error>, cx: &mut Context<'_>| {
            let mut result = result.map(|response| response.map(LockBody::free));
            let keeps = result.as_mut().is_ok_and(|response| self.is_held_for_body(response, cx));
            (result, keeps)
        };
        Poll::Ready(match ready!(call.poll(cx, then)) {
            Ok((result, None)) => result,
            Ok((result, Some(hold))) => result.map(|response| self.held_response(response, hold)),
            Err(lost) => Ok(self.answer(|context| context.lock_error(&lost))),
        })
    }
}

/// The result of a request, whose response may still hold the lock.
type Outcome<S, ReqBody, B> =
    Result<Response<LockBody<B>>, <S as Service<Request<ReqBody>>>::Error>;

type HttpCall<S, ReqBody, B> = LockedCall<S, Request<ReqBody>, Outcome<S, ReqBody, B>>;

pin_project! {
    /// The future of a request to an [`HttpLockService`](crate::http::HttpLockService).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while the request waits, it leaves the queue; later, it drops the handler and then
    /// releases the lock in the background. With
    /// [`finish_on_disconnect`](crate::HttpLockLayerBuilder::finish_on_disconnect) a handler that has its lock runs to
    /// its end.
    #[must_use = "futures do nothing unless polled"]
    pub struct HttpLockFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        #[pin]
        pub(crate) state: State<S, ReqBody, B>,
        // `None` if there is no lock, or a task of its own serves the request.
        pub(crate) lock: Option<RequestLock>,
    }
}

pin_project! {
    #[project = StateProjection]
    pub(crate) enum State<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        // `None` once it was returned.
        Answered { answer: Option<Response<LockBody<B>>> },
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        // For its lock, while its body is read, which shows whether the client has left.
        Waiting { acquire: Acquire, ready: Option<(S, Parts)>, #[pin] body: WaitingBody<ReqBody> },
        Serving { #[pin] call: HttpCall<S, ReqBody, B> },
        // A task of its own serves the request.
        Finishing { task: JoinHandle<Outcome<S, ReqBody, B>> },
    }
}

// `finish_on_disconnect`, which a policy can set as well, spawns the handler: hence `Send` and `'static`.
impl<S, ReqBody, B> Future for HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    type Output = Result<Response<LockBody<B>>, S::Error>;

    // Pending forever if polled after completion.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            let next = match (this.state.as_mut().project(), &*this.lock) {
                (StateProjection::Answered { answer }, _) => {
                    return answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)));
                }
                (StateProjection::PassThrough { future }, _) => {
                    return without_lock(|| future.poll(cx))
                        .map_ok(|response| response.map(LockBody::free));
                }
                (StateProjection::Finishing { task }, _) => {
                    return match ready!(Pin::new(task).poll(cx)).map_err(|it| it.try_into_panic()) {
                        Ok(result) => Poll::Ready(result),
                        Err(Ok(panic)) => resume_unwind(panic),
                        // The runtime shuts down and drops this future too.
                        Err(Err(_)) => Poll::Pending,
                    };
                }
                (StateProjection::Serving { call }, Some(lock)) => return lock.poll_call(call, cx),
                (StateProjection::Waiting { acquire, ready, mut body }, Some(lock)) => {
                    let guard = match Pin::new(acquire).poll(cx) {
                        Poll::Ready(Ok(guard)) => Some(guard),
                        Poll::Ready(Err(_)) if !lock.spec.enforced => None,
                        Poll::Ready(Err(error)) => {
                            let answer = lock.answer(|context| context.lock_error(&error));
                            this.state.set(State::Answered { answer: Some(answer) });
                            continue;
                        }
                        Poll::Pending => {
                            let departed = ready!(body.poll_departure(&lock.shared, cx));
                            // It may still read.
                            let answer = lock.answer(|context| context.body_error(&*departed));
                            this.state.set(State::Answered { answer: Some(answer) });
                            continue;
                        }
                    };
                    let Some((mut inner, parts)) = ready.take() else { return Poll::Pending };
                    let Some(body) = body.as_mut().take() else { return Poll::Pending };
                    let request = Request::from_parts(parts, body);
                    match guard.map(|guard| Hold::new(guard, lock.spec.terms())) {
                        None => State::PassThrough { future: without_lock(|| inner.call(request)) },
                        Some(mut hold) => {
                            hold.times = Some(Arc::clone(&lock.plan.times));
                            let call = LockedCall::new((inner, request), hold);
                            match this.lock.take_if(|lock| lock.plan.finishes()) {
                                None => State::Serving { call },
                                Some(lock) => {
                                    let serving = async move {
                                        let mut call = pin!(call);
                                        poll_fn(|cx| lock.poll_call(call.as_mut(), cx)).await
                                    };
                                    let serving = scope::inherit(serving).in_current_span();
                                    State::Finishing { task: tokio::spawn(serving) }
                                }
                            }
                        }
                    }
                }
                (StateProjection::Serving { .. } | StateProjection::Waiting { .. }, None) => {
                    return Poll::Pending;
                }
            };
            this.state.set(next);
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
