//! [`HttpLockService`]: decides how each request is locked.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use lock_runtime::__layer_v1 as runtime;
use lock_runtime::{LockError, LockOptions, Wait};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::held::without_lock;
use crate::http::answer::RefusalContext;
use crate::http::body::LockBody;
use crate::http::future::{HttpLockFuture, RequestLock, State};
use crate::http::grpc;
use crate::http::layer::{HttpLockLayer, Shared};
use crate::http::response::LockResponse;
use crate::http::waiting_body::WaitingBody;
use crate::locked::{LockSpec, take_ready};

/// A request extension with the deadline of the answer: it bounds the wait for the lock. A layer further out
/// sets it. gRPC's `grpc-timeout` counts as well.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lock_tower::http::RequestDeadline;
/// use tokio::time::Instant;
///
/// let mut request = http::Request::post("/orders/42/pay").body(())?;
/// request.extensions_mut().insert(RequestDeadline(Instant::now() + Duration::from_secs(2)));
/// # Ok::<_, http::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestDeadline(pub Instant);

/// An HTTP service whose requests run under locks: see [`HttpLockLayer`].
#[derive(Debug, Clone)]
pub struct HttpLockService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Layer<S> for HttpLockLayer {
    type Service = HttpLockService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HttpLockService { inner, shared: Arc::clone(&self.shared) }
    }
}

impl<S> HttpLockService<S> {
    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service, without the lock.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

// `Send` and `'static` are for the future, which may spawn the handler.
impl<S, ReqBody, B> Service<Request<ReqBody>> for HttpLockService<S>
where
    S: Service<Request<ReqBody>, Response = Response<B>, Error: Send> + Clone + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    B: Body<Data: Send, Error: Send> + Unpin + Send + 'static,
{
    type Response = Response<LockBody<B>>;
    type Error = S::Error;
    type Future = HttpLockFuture<S, ReqBody, B>;

    /// Polls only the inner service: the lock's key is not known before there is a request.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let (state, lock) = match decide(&self.shared, &mut parts) {
            Ok(Some(lock)) => {
                let acquire = lock.spec.acquire(&lock.plan.label, lock.key.clone());
                let ready = Some((take_ready(&mut self.inner), parts));
                (State::Waiting { acquire, ready, body: WaitingBody::new(body) }, Some(lock))
            }
            Ok(None) => {
                let request = Request::from_parts(parts, body);
                (State::PassThrough { future: without_lock(|| self.inner.call(request)) }, None)
            }
            Err(refusal) => {
                // Gives back what `poll_ready` reserved, such as a permit of a concurrency limit.
                self.inner = self.inner.clone();
                let answer = self.shared.answer(refusal, Some(&parts));
                (State::Answered { answer: Some(LockBody::answer(answer)) }, None)
            }
        };
        HttpLockFuture { state, lock }
    }
}

/// Returns the lock of a request; `None` if the request runs without one.
fn decide(shared: &Arc<Shared>, parts: &mut Parts) -> Result<Option<RequestLock>, LockResponse> {
    let grpc = grpc::is_grpc(&parts.headers);
    let context = RefusalContext { grpc, ..RefusalContext::default() };
    let planned = shared.plan(&parts.method, &parts.uri, &parts.extensions);
    let Some((plan, side, client)) = planned.map_err(|error| context.lock_error(&error))? else {
        return Ok(None);
    };
    let context = RefusalContext { grpc, ..plan.context(None) };
    let Some(key) = plan.key(parts).transpose() else { return Ok(None) };
    let client = client.map_err(|error| context.lock_error(&error))?;
    let mut spec = plan.spec(client, side);
    let key = match key {
        Ok(key) => key,
        Err(error) if !spec.enforced => {
            plan.log_not_enforced(&error);
            return Ok(None);
        }
        Err(error) => return Err(context.key_error(&error, shared.told.knows(&error))),
    };
    let deadline = match bound_wait(&mut spec, parts, grpc) {
        Ok(deadline) => deadline,
        Err(_) if !spec.enforced => false,
        Err(error) => return Err(RefusalContext { deadline: true, ..context }.lock_error(&error)),
    };
    Ok(Some(RequestLock {
        shared: Arc::clone(shared),
        key,
        spec,
        deadline,
        grpc,
        has_body: parts.method != Method::HEAD,
        head: shared.settings.responder.as_ref().map(|_| Box::new(parts.clone())),
        plan,
    }))
}

/// Shortens the wait to the request's own deadline; true if that is sooner than the layer's wait.
fn bound_wait(spec: &mut LockSpec, parts: &Parts, grpc: bool) -> Result<bool, LockError> {
    let deadline = parts.extensions.get::<RequestDeadline>();
    let left = deadline.map(|deadline| deadline.0.saturating_duration_since(Instant::now()));
    let grpc = grpc.then(|| grpc::timeout(&parts.headers)).flatten();
    let Some(left) = left.into_iter().chain(grpc).min() else { return Ok(false) };
    let is_sooner = match runtime::in_effect(&spec.options).wait {
        Wait::UpTo(wait) => left < wait,
        Wait::Forever => true,
        _ => left.is_zero(),
    };
    if !is_sooner {
        return Ok(false);
    }
    if left.is_zero() {
        // The store is not asked: the answer would come too late.
        return Err(LockError::timed_out("of a request whose deadline has passed", left));
    }
    spec.options = Arc::new(LockOptions::clone(&spec.options).wait(left));
    Ok(true)
}
