//! A request that needs a lock: waits for it, runs the handler, then releases the lock when its time has come.

use std::error::Error;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use lock_runtime::{LockError, LockKey, scope};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument as _;

use crate::held::{HoldHandle, without_lock};
use crate::http::answer::context::RefusalContext;
use crate::http::call::body::{BodyHold, LockBody};
use crate::http::call::waiting::{Waited, Waiting};
use crate::http::config::settings::HoldUntil;
use crate::http::layer::Shared;
use crate::http::layer::plan::Plan;
use crate::locked::{Call, CallHold, LockSpec, LockedCall, Releasing};

/// The lock of one request, and what the answers to the request depend on.
#[derive(Clone)]
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
    /// The name of the lock as the store and its operator know it.
    fn full_name(&self) -> LockKey {
        self.spec.client.key(self.key.clone()).unwrap_or_else(|_| self.key.clone())
    }

    fn context<'a>(&'a self, full_name: &'a LockKey) -> RefusalContext<'a> {
        RefusalContext {
            busy: self.plan.busy,
            lease: Some(self.spec.options.get_lease()),
            deadline: self.deadline,
            grpc: self.grpc,
            log: self.plan.log_fields(Some(full_name)),
        }
    }

    pub(crate) fn answer<B: Body>(&self, error: &LockError) -> Response<LockBody<B>> {
        let refusal = self.context(&self.full_name()).lock_error(error);
        LockBody::answer(self.shared.answer(refusal, self.head.as_deref()))
    }

    /// The answer to a client that left before its body was complete. It may still read.
    pub(crate) fn answer_departed<B: Body>(
        &self,
        error: &(dyn Error + 'static),
    ) -> Response<LockBody<B>> {
        let refusal = self.context(&self.full_name()).body_error(error);
        LockBody::answer(self.shared.answer(refusal, self.head.as_deref()))
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
        match self.plan.hold {
            HoldUntil::Response => false,
            HoldUntil::Body => true,
            _ => !response.body_mut().peek(cx),
        }
    }

    /// The response, whose body holds the lock while it is sent.
    fn held_response<B: Body>(
        &self,
        response: Response<LockBody<B>>,
        hold: CallHold,
        acquired_at: Instant,
    ) -> Response<LockBody<B>> {
        let max_hold = self.spec.options.max_hold;
        let until = self.plan.body_limit(acquired_at, max_hold);
        let enforced = self.spec.enforced;
        let announced = response.headers().get(CONTENT_LENGTH);
        let hold = BodyHold {
            hold,
            until: until.filter(|_| enforced),
            announced: announced.and_then(|length| length.to_str().ok()?.parse().ok()),
            client: self.spec.client.clone(),
            enforced,
        };
        response.map(|body| body.held(hold))
    }
}

/// The result of a handler, whose response may still hold the lock.
pub(crate) type Outcome<B, E> = Result<Response<LockBody<B>>, E>;

pin_project! {
    /// A request that waits for its lock, and then holds it.
    pub(crate) struct Serving<S, ReqBody, B, E>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        #[pin]
        call: LockedCall<S, Request<ReqBody>, Outcome<B, E>>,
        #[pin]
        stage: Stage<ReqBody, Outcome<B, E>>,
        lock: RequestLock,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<ReqBody, T> {
        Waiting { #[pin] waiting: Waiting<ReqBody> },
        Running { acquired_at: Instant },
        Releasing { #[pin] releasing: Releasing },
        // The lock was not acquired, and the policy is not enforced.
        WithoutLock,
        // A task of its own serves the request.
        Finishing { task: JoinHandle<T> },
        Refused,
    }
}

impl<S, ReqBody, B> Serving<S, ReqBody, B, S::Error>
where
    S: Service<Request<ReqBody>>,
    B: Body,
{
    pub(crate) fn new(
        call: Call<S, Request<ReqBody>, Outcome<B, S::Error>>,
        lock: RequestLock,
    ) -> Self {
        let waiting = Waiting::new(lock.spec.acquire(&lock.plan.label, lock.key.clone()));
        Self { call: LockedCall::new(call), stage: Stage::Waiting { waiting }, lock }
    }
}

impl<S, ReqBody, B> Serving<S, ReqBody, B, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    /// Goes on when the wait has ended; ready with the answer to a request that does not run.
    fn end_wait(self: Pin<&mut Self>, waited: Waited) -> Poll<Response<LockBody<B>>> {
        let mut this = self.project();
        let answer = match waited {
            Waited::Acquired(guard) => {
                let spec = this.lock.spec.release();
                let handle = HoldHandle::new(guard, spec.reports_loss);
                this.call.as_mut().set_hold(CallHold { handle, spec });
                let acquired_at = Instant::now();
                this.stage.set(Stage::Running { acquired_at });
                if this.lock.plan.finishes()
                    && let Some(call) = this.call.take()
                {
                    let stage = Stage::Running { acquired_at };
                    let serving = Self { call, stage, lock: this.lock.clone() };
                    let task = tokio::spawn(scope::inherit(serving).in_current_span());
                    this.stage.set(Stage::Finishing { task });
                }
                return Poll::Pending;
            }
            Waited::Failed(_) if !this.lock.spec.enforced => {
                this.stage.set(Stage::WithoutLock);
                return Poll::Pending;
            }
            Waited::Failed(error) => this.lock.answer(&error),
            Waited::Departed(error) => this.lock.answer_departed(&*error),
        };
        this.call.clear();
        this.stage.set(Stage::Refused);
        Poll::Ready(answer)
    }
}

impl<S, ReqBody, B> Future for Serving<S, ReqBody, B, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    type Output = Outcome<B, S::Error>;

    // Pending forever if polled after completion.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            let lock = &*this.lock;
            match this.stage.as_mut().project() {
                StageProjection::Waiting { waiting } => {
                    let Some(call) = this.call.call() else { return Poll::Pending };
                    let waited = ready!(waiting.poll(call, &lock.shared, cx));
                    if let Poll::Ready(answer) = self.as_mut().end_wait(waited) {
                        return Poll::Ready(Ok(answer));
                    }
                }
                StageProjection::Running { acquired_at } => {
                    let acquired_at = *acquired_at;
                    let mut held = false;
                    // Under the guard, which protects what the body does when it is peeked at.
                    let then = |result: Result<Response<B>, S::Error>, cx: &mut Context<'_>| {
                        result.map(|response| {
                            let mut response = response.map(LockBody::free);
                            held = lock.is_held_for_body(&mut response, cx);
                            response
                        })
                    };
                    let panic = match ready!(this.call.as_mut().poll_then(cx, then)) {
                        Ok(panic) => panic,
                        Err(lost) => return Poll::Ready(Ok(lock.answer(&lost))),
                    };
                    if held
                        && panic.is_none()
                        && let Some(hold) = this.call.as_mut().take_hold()
                    {
                        let Some(result) = this.call.take_value() else { return Poll::Pending };
                        let held = |response| lock.held_response(response, hold, acquired_at);
                        return Poll::Ready(result.map(held));
                    }
                    let Some(releasing) = this.call.release(panic) else { return Poll::Pending };
                    this.stage.set(Stage::Releasing { releasing });
                }
                StageProjection::Releasing { releasing } => {
                    let released = ready!(releasing.poll(cx));
                    let Some(result) = this.call.take_value() else { return Poll::Pending };
                    return Poll::Ready(match released {
                        Ok(()) => result,
                        Err(lost) => Ok(lock.answer(&lost)),
                    });
                }
                StageProjection::WithoutLock => {
                    let Some(mut call) = this.call.call() else { return Poll::Pending };
                    let free = |result: Result<Response<B>, S::Error>, _: &mut Context<'_>| {
                        result.map(|response| response.map(LockBody::free))
                    };
                    ready!(without_lock(|| call.as_mut().poll_then(cx, free)));
                    return call.take_value().map_or(Poll::Pending, Poll::Ready);
                }
                StageProjection::Finishing { task } => {
                    return match ready!(Pin::new(task).poll(cx)) {
                        Ok(result) => Poll::Ready(result),
                        Err(ended) => match ended.try_into_panic() {
                            Ok(panic) => resume_unwind(panic),
                            // The runtime shuts down and drops this future too.
                            Err(_) => Poll::Pending,
                        },
                    };
                }
                StageProjection::Refused => return Poll::Pending,
            }
        }
    }
}
