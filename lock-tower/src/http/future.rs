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
use lock_runtime::acquire::Acquire;
use lock_runtime::{LockError, LockGuard, LockKey, scope};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument as _;

use crate::held::{Hold, without_lock};
use crate::http::answer::{LockResponse, RefusalContext};
use crate::http::body::LockBody;
use crate::http::layer::Shared;
use crate::http::plan::Plan;
use crate::http::read_ahead::BoxError;
use crate::http::settings::HoldUntil;
use crate::http::waiting_body::WaitingBody;
use crate::locked::{LockSpec, LockedCall, take_ready};

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
            lease: Some(self.spec.options.get_lease()),
            deadline: self.deadline,
            grpc: self.grpc,
            ..self.plan.context(Some(name.as_ref().unwrap_or(&self.key)))
        };
        LockBody::answer(self.shared.answer(refusal(context), self.head.as_deref()))
    }

    fn answer_error<B: Body>(&self, error: &LockError) -> Response<LockBody<B>> {
        self.answer(|context| context.lock_error(error))
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
        acquired_at: Instant,
    ) -> Response<LockBody<B>> {
        let until = self.plan.body_limit(acquired_at, self.spec.options.max_hold);
        let announced = response.headers().get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|body| body.held(hold, &self.spec, until, announced))
    }

    /// Polls the handler, and then the release of its lock, unless the body of the response takes the hold.
    fn poll_call<S, ReqBody, B>(
        &self,
        call: Pin<&mut HttpCall<S, ReqBody, B>>,
        acquired_at: Instant,
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
            Ok((result, Some(hold))) => {
                result.map(|response| self.held_response(response, hold, acquired_at))
            }
            Err(lost) => Ok(self.answer_error(&lost)),
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
        state: State<S, ReqBody, B, S::Error>,
        // `None` if there is no lock, or a task of its own serves the request.
        lock: Option<RequestLock>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, ReqBody, B, E>
    where
        S: Service<Request<ReqBody>, Error = E>,
        B: Body,
    {
        // `None` once it was returned.
        Answered { answer: Option<Response<LockBody<B>>> },
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        Waiting { #[pin] waiting: Waiting<S, ReqBody> },
        Serving {
            #[pin]
            call: LockedCall<S, Request<ReqBody>, Result<Response<LockBody<B>>, E>>,
            acquired_at: Instant,
        },
        // A task of its own serves the request.
        Finishing { task: JoinHandle<Result<Response<LockBody<B>>, E>> },
    }
}

pin_project! {
    /// A request that waits for its lock, while its body is read, which shows whether the client has left.
    struct Waiting<S, ReqBody> {
        acquire: Acquire,
        ready: Option<(S, Parts)>,
        #[pin]
        body: WaitingBody<ReqBody>,
    }
}

impl<S, ReqBody: 'static> Waiting<S, ReqBody> {
    /// Ready with the outcome of the acquire, or with the error that shows that the client has left.
    fn poll(
        self: Pin<&mut Self>,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<LockGuard, LockError>, BoxError>> {
        let this = self.project();
        if let Poll::Ready(acquired) = Pin::new(this.acquire).poll(cx) {
            return Poll::Ready(Ok(acquired));
        }
        this.body.poll_departure(&shared.settings.bodies, &shared.pool, cx).map(Err)
    }

    /// Takes the service and the request, unless they were taken.
    fn take(self: Pin<&mut Self>) -> Option<(S, Request<ReqBody>)> {
        let this = self.project();
        let (inner, parts) = this.ready.take()?;
        Some((inner, Request::from_parts(parts, this.body.take()?)))
    }
}

impl<S, ReqBody, B> HttpLockFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: Body,
{
    pub(crate) fn answered(answer: Response<LockBody<B>>) -> Self {
        Self { state: State::Answered { answer: Some(answer) }, lock: None }
    }

    pub(crate) fn without_lock(inner: &mut S, request: Request<ReqBody>) -> Self {
        let future = without_lock(|| inner.call(request));
        Self { state: State::PassThrough { future }, lock: None }
    }

    /// A request to `inner`, which is ready.
    pub(crate) fn waiting(inner: &mut S, parts: Parts, body: ReqBody, lock: RequestLock) -> Self
    where
        S: Clone,
    {
        let acquire = lock.spec.acquire(&lock.plan.label, lock.key.clone());
        let (ready, body) = (Some((take_ready(inner), parts)), WaitingBody::new(body));
        Self {
            state: State::Waiting { waiting: Waiting { acquire, ready, body } },
            lock: Some(lock),
        }
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
                (StateProjection::Serving { call, acquired_at }, Some(lock)) => {
                    return lock.poll_call(call, *acquired_at, cx);
                }
                (StateProjection::Waiting { mut waiting }, Some(lock)) => {
                    match ready!(waiting.as_mut().poll(&lock.shared, cx)) {
                        Ok(Ok(guard)) => {
                            let Some(ready) = waiting.take() else { return Poll::Pending };
                            let hold = Hold::new(guard, lock.spec.terms());
                            let (call, acquired_at) =
                                (LockedCall::new(ready, hold), Instant::now());
                            match this.lock.take_if(|lock| lock.plan.finishes()) {
                                None => State::Serving { call, acquired_at },
                                Some(lock) => {
                                    State::Finishing { task: spawn(lock, call, acquired_at) }
                                }
                            }
                        }
                        Ok(Err(error)) if lock.spec.enforced => {
                            State::Answered { answer: Some(lock.answer_error(&error)) }
                        }
                        Ok(Err(_)) => {
                            let Some((mut inner, request)) = waiting.take() else {
                                return Poll::Pending;
                            };
                            State::PassThrough { future: without_lock(|| inner.call(request)) }
                        }
                        Err(departed) => {
                            // It may still read.
                            let answer = lock.answer(|context| context.body_error(&*departed));
                            State::Answered { answer: Some(answer) }
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

/// Serves the request in a task of its own, which goes on when the client has left.
fn spawn<S, ReqBody, B>(
    lock: RequestLock,
    call: HttpCall<S, ReqBody, B>,
    acquired_at: Instant,
) -> JoinHandle<Outcome<S, ReqBody, B>>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    let serving = async move {
        let mut call = pin!(call);
        poll_fn(|cx| lock.poll_call(call.as_mut(), acquired_at, cx)).await
    };
    tokio::spawn(scope::inherit(serving).in_current_span())
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
