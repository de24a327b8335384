//! [`HttpLockFuture`]: waits for the lock, then serves the request.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use lock_runtime::acquire::Acquire;
use lock_runtime::{LockError, LockGuard, scope};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};
use tower_service::Service;
use tracing::Instrument as _;

use crate::held::without_lock;
use crate::http::call::body::LockBody;
use crate::http::call::serving::{RequestLock, Serving};
use crate::http::frames::Peeked;
use crate::http::request::read_ahead::{BoxError, PoolShare, READ_ON_EVERY, ReadAhead};
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
        WithoutLock { #[pin] call: Call<S, Request<ReqBody>> },
        Waiting { #[pin] waiting: Waiting<S, ReqBody> },
        Serving { #[pin] serving: Serving<S, ReqBody, B> },
        // Serves in a task of its own.
        Finishing { task: JoinHandle<Result<Response<LockBody<B>>, E>> },
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
        Self { state: State::WithoutLock { call: Call::Started { future } } }
    }

    pub(crate) fn waiting(call: Call<S, Request<ReqBody>>, lock: RequestLock) -> Self {
        Self { state: State::Waiting { waiting: Waiting::new(call, lock) } }
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
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                // Pending forever if polled after completion.
                StateProjection::Refused { answer } => {
                    return answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)));
                }
                StateProjection::WithoutLock { call } => {
                    let free = |body| LockBody::free(Peeked::new(body));
                    return without_lock(|| call.poll(cx)).map_ok(|response| response.map(free));
                }
                StateProjection::Serving { serving } => return serving.poll(cx),
                StateProjection::Finishing { task } => {
                    return match ready!(Pin::new(task).poll(cx)) {
                        Ok(result) => Poll::Ready(result),
                        Err(ended) => match ended.try_into_panic() {
                            Ok(panic) => resume_unwind(panic),
                            // The runtime shuts down and drops this future too.
                            Err(_) => Poll::Pending,
                        },
                    };
                }
                StateProjection::Waiting { waiting } => match ready!(waiting.poll(cx)) {
                    Waited::Departed { error, lock } => {
                        State::Refused { answer: Some(lock.answer_departed(&*error)) }
                    }
                    Waited::Failed { call, lock, .. } if !lock.spec.enforced => {
                        State::WithoutLock { call }
                    }
                    Waited::Failed { error, lock, .. } => {
                        State::Refused { answer: Some(lock.answer(&error)) }
                    }
                    Waited::Acquired { guard, call, lock } => {
                        let finish = lock.plan.finishes();
                        let serving = Serving::new(guard, call, lock);
                        if finish {
                            let task = tokio::spawn(scope::inherit(serving).in_current_span());
                            State::Finishing { task }
                        } else {
                            State::Serving { serving }
                        }
                    }
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
        f.debug_struct("HttpLockFuture").finish_non_exhaustive()
    }
}

/// How long a request waits before its body is read. A free lock takes about a round trip and must not cost
/// more; a client that leaves must be noticed within 100 ms.
const READ_AHEAD_AFTER: Duration = Duration::from_millis(20);

pin_project! {
    /// A request that waits for its lock while its body is read, which shows whether the client has left.
    struct Waiting<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        acquire: Acquire,
        request: Option<(Call<S, Request<ReqBody>>, RequestLock)>,
        // Until the next part of the body is read.
        #[pin]
        delay: Option<Sleep>,
        reader: Option<Box<dyn ReadAhead<ReqBody>>>,
        // What the reader has read out of the layer's pool.
        share: Option<PoolShare>,
        // True if the body is complete, or the layer cannot read its type.
        skips_body: bool,
    }
}

/// A request whose wait is over.
enum Waited<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    Acquired {
        guard: LockGuard,
        call: Call<S, Request<ReqBody>>,
        lock: RequestLock,
    },
    Failed {
        error: LockError,
        call: Call<S, Request<ReqBody>>,
        lock: RequestLock,
    },
    /// The client left before the body was complete.
    Departed {
        error: BoxError,
        lock: RequestLock,
    },
}

impl<S, ReqBody> Waiting<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    fn new(call: Call<S, Request<ReqBody>>, lock: RequestLock) -> Self {
        let acquire = lock.spec.acquire(lock.key.clone());
        let request = Some((call, lock));
        Self { acquire, request, delay: None, reader: None, share: None, skips_body: false }
    }
}

impl<S, ReqBody> Waiting<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
    ReqBody: 'static,
{
    /// Reads the part of the body that is there; ready with the error that shows that the client has left.
    fn poll_departure(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BoxError> {
        let mut this = self.project();
        let Some((call, lock)) = this.request else { return Poll::Pending };
        let Some(request) = call.request_mut().filter(|_| !*this.skips_body) else {
            return Poll::Pending;
        };
        if this.reader.is_none() {
            let Some(bodies) = lock.shared.read_ahead_of(request.body()) else {
                *this.skips_body = true;
                return Poll::Pending;
            };
            ready!(poll_delay(this.delay.as_mut(), READ_AHEAD_AFTER, cx));
            *this.reader = Some(bodies.start(lock.shared.read_ahead));
        }
        let Some(reader) = this.reader else { return Poll::Pending };
        loop {
            if let Poll::Ready(error) = reader.poll_departure(request.body_mut(), cx) {
                return Poll::Ready(error);
            }
            if !reader.is_full() {
                return Poll::Pending;
            }
            ready!(poll_delay(this.delay.as_mut(), READ_ON_EVERY, cx));
            let share = this.share.get_or_insert_with(|| PoolShare::new(&lock.shared.pool));
            reader.allow(share.take_more());
        }
    }
}

/// Waits for the duration, and starts again when it is polled after that.
fn poll_delay(
    mut delay: Pin<&mut Option<Sleep>>,
    duration: Duration,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if delay.is_none() {
        delay.set(Some(sleep(duration)));
    }
    if let Some(running) = delay.as_mut().as_pin_mut() {
        ready!(running.poll(cx));
    }
    delay.set(None);
    Poll::Ready(())
}

impl<S, ReqBody> Future for Waiting<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
    ReqBody: 'static,
{
    type Output = Waited<S, ReqBody>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        if let Poll::Ready(acquired) = Pin::new(this.acquire).poll(cx) {
            // Pending forever if polled after completion.
            let Some((mut call, lock)) = this.request.take() else { return Poll::Pending };
            if let Some(reader) = this.reader.take() {
                let share = this.share.take();
                call.map_request(|request| request.map(|rest| reader.put_back(rest, share)));
            }
            return Poll::Ready(match acquired {
                Ok(guard) => Waited::Acquired { guard, call, lock },
                Err(error) => Waited::Failed { error, call, lock },
            });
        }
        let error = ready!(self.as_mut().poll_departure(cx));
        let Some((_, lock)) = self.project().request.take() else { return Poll::Pending };
        Poll::Ready(Waited::Departed { error, lock })
    }
}
