//! A request that holds its lock: runs the handler, then releases the lock when its time has come.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode};
use http_body::Body;
use lock_runtime::policy::HoldUntil;
use lock_runtime::{LockError, LockGuard, LockKey};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::held::HoldHandle;
use crate::http::answer::refusal::RefusalContext;
use crate::http::call::body::{BodyHold, LockBody};
use crate::http::frames::Peeked;
use crate::http::layer::Shared;
use crate::http::layer::plan::Plan;
use crate::locked::{Call, LockSpec, Releasing, Running, UnreleasedHold};

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
    /// True if the request takes the read side: its time says nothing about how long writers hold the lock.
    pub(crate) reads: bool,
}

impl RequestLock {
    fn context(&self) -> RefusalContext<'_> {
        RefusalContext {
            busy: self.plan.busy,
            lease: Some(self.spec.options.lease()),
            times: &self.plan.times,
            deadline: self.deadline,
            grpc: self.grpc,
            log: self.plan.log_fields(Some(&self.key)),
        }
    }

    pub(crate) fn answer<B: Body>(&self, error: &LockError) -> Response<LockBody<B>> {
        LockBody::answer(self.shared.responder.respond(&self.context().lock_error(error)))
    }

    /// The answer to a client that left before its body was complete. It may still read.
    pub(crate) fn answer_departed<B: Body>(
        &self,
        error: &(dyn Error + 'static),
    ) -> Response<LockBody<B>> {
        LockBody::answer(self.shared.responder.respond(&self.context().body_error(error)))
    }

    /// True if the lock is held until the body has been sent.
    fn is_held_for_body<B: Body + Unpin>(
        &self,
        response: &mut Response<Peeked<B>>,
        cx: &mut Context<'_>,
    ) -> bool {
        let status = response.status();
        let bodiless = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if bodiless || !self.has_body || response.body().is_end_stream() {
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
        response: Response<Peeked<B>>,
        hold: UnreleasedHold,
    ) -> Response<LockBody<B>> {
        let max_hold = self.spec.options.max_hold();
        let until = self.plan.body_limit(hold.acquired_at, max_hold);
        let enforced = self.spec.enforced;
        let announced = response.headers().get(CONTENT_LENGTH);
        let hold = BodyHold {
            hold,
            until: until.filter(|_| enforced),
            announced: announced.and_then(|length| length.to_str().ok()?.parse().ok()),
            client: self.spec.client.clone(),
            enforced,
            in_pieces: self.plan.hold == HoldUntil::Body,
            times: (!self.reads).then(|| Arc::clone(&self.plan.times)),
        };
        response.map(|peeked| LockBody::held(peeked, hold))
    }
}

pin_project! {
    /// A request that holds its lock.
    pub(crate) struct Serving<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        #[pin]
        state: State<S, ReqBody, B, S::Error>,
        lock: RequestLock,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, ReqBody, B, E>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        Running { #[pin] running: Running<S, Request<ReqBody>> },
        Releasing { #[pin] releasing: Releasing<Result<Response<LockBody<B>>, E>> },
    }
}

impl<S, ReqBody, B> Serving<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: Body,
{
    pub(crate) fn new(
        guard: LockGuard,
        mut call: Call<S, Request<ReqBody>>,
        lock: RequestLock,
    ) -> Self {
        let release = lock.spec.release();
        let mut handle = HoldHandle::new(guard, release.reports_loss);
        if lock.shared.extension
            && let (Some(request), Some(held)) = (call.request_mut(), handle.held())
        {
            request.extensions_mut().insert(held);
        }
        Self { state: State::Running { running: Running::new(handle, release, call) }, lock }
    }
}

impl<S, ReqBody, B> Future for Serving<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    B: Body + Unpin,
{
    type Output = Result<Response<LockBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let lock = &*this.lock;
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Running { running } => {
                    // Under the guard, which protects what the body does when it is peeked at.
                    let peek = |result: Result<Response<B>, S::Error>, cx: &mut Context<'_>| {
                        result.map(|response| {
                            let mut response = response.map(Peeked::new);
                            let held = lock.is_held_for_body(&mut response, cx);
                            (response, held)
                        })
                    };
                    let (value, hold) = match ready!(running.poll_then(cx, peek)) {
                        Ok(finished) => finished,
                        Err(lost) => return Poll::Ready(Ok(lock.answer(&lost))),
                    };
                    match value {
                        Ok(Ok((response, true))) if !hold.handle.is_released() => {
                            return Poll::Ready(Ok(lock.held_response(response, hold)));
                        }
                        value => {
                            if !lock.reads {
                                lock.plan.times.record(hold.acquired_at.elapsed());
                            }
                            let free = |(response, _): (Response<Peeked<B>>, bool)| {
                                response.map(LockBody::free)
                            };
                            let value = value.map(|result| result.map(free));
                            State::Releasing { releasing: hold.release(value) }
                        }
                    }
                }
                StateProjection::Releasing { releasing } => {
                    let released = ready!(releasing.poll(cx));
                    return Poll::Ready(released.unwrap_or_else(|lost| Ok(lock.answer(&lost))));
                }
            };
            this.state.set(next);
        }
    }
}
