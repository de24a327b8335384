//! A request that has its lock: run, and the lock let go of when its time has come.

use std::error::Error;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode};
use http_body::Body;
use lock_runtime::policy::HoldUntil;
use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockKey};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::held::{HoldHandle, Panic};
use crate::http::answer::refusal::Circumstances;
use crate::http::call::body::LockBody;
use crate::http::call::held_body::{HeldBody, Holding};
use crate::http::call::peek::Peeked;
use crate::http::layer::Shared;
use crate::http::layer::plan::Plan;
use crate::locked::{Call, End, Ran, Releasing, Running};

/// What is known of a request before its lock is there.
pub(crate) struct ServingTerms {
    pub(crate) shared: Arc<Shared>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) key: LockKey,
    pub(crate) end: End,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    /// False if nothing is cut off on the lock's account.
    pub(crate) enforced: bool,
    pub(crate) client: LockClient,
    /// The wait is bounded by the request's own deadline.
    pub(crate) deadline: bool,
    pub(crate) grpc: bool,
    /// False if a body of the answer would not be sent.
    pub(crate) has_body: bool,
    /// The handler runs to its end, whoever is there to see it.
    pub(crate) finish: bool,
    /// It only reads: how long that takes says nothing of the others.
    pub(crate) reads: bool,
}

impl ServingTerms {
    fn circumstances(&self) -> Circumstances<'_> {
        Circumstances {
            busy: self.plan.busy,
            lease: Some(self.lease),
            times: &self.plan.times,
            deadline: self.deadline,
            grpc: self.grpc,
            about: self.plan.about(Some(&self.key)),
        }
    }

    pub(crate) fn answer<B: Body>(&self, error: &LockError) -> Response<LockBody<B>> {
        self.shared.answer(&self.circumstances().of_lock(error))
    }

    /// For a client that may still read, although it has stopped sending.
    pub(crate) fn answer_departed<B: Body>(
        &self,
        error: &(dyn Error + 'static),
    ) -> Response<LockBody<B>> {
        self.shared.answer(&self.circumstances().of_body(error))
    }

    /// Takes the first of the body, where it matters; true if the lock has no more to do with it.
    fn settle<B: Body + Unpin>(
        &self,
        status: StatusCode,
        peeked: &mut Peeked<B>,
        cx: &mut Context<'_>,
    ) -> bool {
        let bodiless = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if bodiless || !self.has_body || peeked.is_end_stream() {
            return true;
        }
        match self.plan.hold {
            HoldUntil::Response => true,
            HoldUntil::Body => false,
            _ => peeked.look(cx),
        }
    }
}

pin_project! {
    /// A request under its lock.
    pub(crate) struct Serving<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: Body,
    {
        #[pin]
        state: State<S, ReqBody, B, S::Error>,
        terms: ServingTerms,
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
        Releasing {
            #[pin] releasing: Releasing,
            result: Option<Result<Result<Response<LockBody<B>>, E>, Panic>>,
        },
    }
}

impl<S, ReqBody, B> Serving<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    B: Body,
{
    pub(crate) fn new(
        guard: LockGuard,
        mut call: Call<S, Request<ReqBody>>,
        terms: ServingTerms,
    ) -> Self {
        let mut handle = HoldHandle::new(guard, terms.end.reports_loss);
        if terms.shared.extension
            && let (Some(request), Some(held)) = (call.request_mut(), handle.held())
        {
            request.extensions_mut().insert(held);
        }
        Self { state: State::Running { running: Running::new(handle, call) }, terms }
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
        let terms = this.terms;
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Running { running } => {
                    // While the lock is held: what the body does in here, it protects.
                    let settle = |result: Result<Response<B>, S::Error>, cx: &mut Context<'_>| {
                        result.map(|response| {
                            let mut response = response.map(Peeked::new);
                            let status = response.status();
                            let settled = terms.settle(status, response.body_mut(), cx);
                            (response, settled)
                        })
                    };
                    match ready!(running.poll_then(cx, settle)) {
                        Err(lost) => return Poll::Ready(Ok(terms.answer(&lost))),
                        Ok(Ran { value: Ok(Ok((response, false))), handle, taken_at })
                            if !handle.is_given_back() =>
                        {
                            let holding = terms.holding(handle, taken_at, &response);
                            let response = response
                                .map(|peeked| LockBody::held(HeldBody::new(peeked, holding)));
                            return Poll::Ready(Ok(response));
                        }
                        Ok(Ran { value, handle, taken_at }) => {
                            if !terms.reads {
                                terms.plan.times.record(taken_at.elapsed());
                            }
                            let free = |(response, _): (Response<Peeked<B>>, bool)| {
                                response.map(LockBody::free)
                            };
                            let releasing = Releasing::new(handle, terms.end);
                            let result = value.map(|value| value.map(free));
                            State::Releasing { releasing, result: Some(result) }
                        }
                    }
                }
                StateProjection::Releasing { releasing, result } => {
                    let released = ready!(releasing.poll(cx));
                    // Polled after completion, which a future may answer as it likes short of a panic.
                    let Some(result) = result.take() else { return Poll::Pending };
                    let result = result.unwrap_or_else(|panic| resume_unwind(panic));
                    return Poll::Ready(match released {
                        Err(lost) => Ok(terms.answer(&lost)),
                        Ok(()) => result,
                    });
                }
            };
            this.state.set(next);
        }
    }
}

impl ServingTerms {
    fn holding<B>(
        &self,
        handle: HoldHandle,
        taken_at: tokio::time::Instant,
        response: &Response<B>,
    ) -> Holding {
        let announced = response.headers().get(CONTENT_LENGTH);
        Holding {
            handle,
            end: self.end,
            taken_at,
            until: match self.enforced {
                true => self.plan.body_limit(taken_at, self.max_hold),
                false => None,
            },
            client: self.client.clone(),
            cuts_off: self.enforced,
            in_pieces: self.plan.hold == HoldUntil::Body,
            announced: announced.and_then(|length| length.to_str().ok()?.parse().ok()),
            times: (!self.reads).then(|| Arc::clone(&self.plan.times)),
        }
    }
}
