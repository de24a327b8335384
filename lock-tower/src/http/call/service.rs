//! [`HttpLockService`].

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use lock_runtime::policy::{BusyStatus, OnDisconnect};
use lock_runtime::{LockError, LockKey, Wait};
use tokio::time::Instant;
use tower_service::Service;

use crate::held::{HeldLock, without_lock};
use crate::http::answer::grpc;
use crate::http::answer::refusal::{About, Circumstances, Refusal};
use crate::http::answer::retry::HoldTimes;
use crate::http::call::body::LockBody;
use crate::http::call::future::HttpLockFuture;
use crate::http::call::serving::ServingTerms;
use crate::http::layer::plan::{Plan, Side};
use crate::http::layer::{NoPlan, Shared};
use crate::http::request::key::KeyError;
use crate::locked::{Call, Terms};

/// Until when an answer is of use: put into a request's extensions by a layer further out, it bounds the
/// wait for the lock. gRPC's `grpc-timeout` counts as well.
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

/// An HTTP service whose requests run under locks: see [`HttpLockLayer`](crate::http::HttpLockLayer).
#[derive(Clone)]
pub struct HttpLockService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> HttpLockService<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Takes the lock off.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

/// How a request is to be locked.
struct Lock {
    key: LockKey,
    terms: Terms,
    serving: ServingTerms,
}

/// What is to be done with a request; with `None` it passes.
type Decision = Result<Option<Lock>, Refusal>;

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

    /// The inner service's readiness and nothing else: which lock to take is not known before there
    /// is a request.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let plan = self.shared.plan(request.method(), request.uri(), request.extensions());
        let (mut parts, body) = request.into_parts();
        let decision = match plan {
            Ok(plan) => decide(&self.shared, &plan, &mut parts),
            Err(NoPlan::Pass) => Ok(None),
            Err(NoPlan::Failed(error)) => {
                Err(of_nothing(&parts, &HoldTimes::default()).of_lock(&error))
            }
        };
        // An outer layer's, which this one's takes the place of, or hides.
        parts.extensions.remove::<HeldLock>();
        let request = Request::from_parts(parts, body);
        match decision {
            Ok(None) => HttpLockFuture::passing(without_lock(|| self.inner.call(request))),
            Err(refusal) => {
                // What the readiness took, such as a place in a limit, belongs to others now.
                self.inner = self.inner.clone();
                HttpLockFuture::refused(self.shared.answer(&refusal))
            }
            Ok(Some(Lock { key, terms, serving })) => {
                // The one that was polled ready is the one to call; its clone may not be.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                HttpLockFuture::taking(terms.take(key), Call::new(ready, request), serving)
            }
        }
    }
}

fn of_nothing<'a>(parts: &Parts, times: &'a HoldTimes) -> Circumstances<'a> {
    Circumstances {
        busy: BusyStatus::Conflict,
        lease: None,
        times,
        deadline: false,
        grpc: grpc::is_spoken(&parts.headers),
        about: About::default(),
    }
}

fn decide(shared: &Arc<Shared>, plan: &Arc<Plan>, parts: &mut Parts) -> Decision {
    let Some(side) = plan.side(&parts.method) else { return Ok(None) };
    let (busy, about) = (plan.busy, plan.about(None));
    let circumstances = Circumstances { busy, about, ..of_nothing(parts, &plan.times) };
    let refuse = |error: &LockError| Err(circumstances.of_lock(error));
    let method = plan.method_of_key(&parts.method);
    let key = plan.key.key(parts, &method, plan.on_missing);
    if let Ok(None) = key {
        return Ok(None);
    }
    let terms = shared.client().and_then(|client| plan.terms(client, side));
    let mut terms = match terms {
        Ok(terms) => terms,
        Err(error) => return refuse(&error),
    };
    let key = match key {
        Ok(Some(key)) => key,
        Ok(None) => return Ok(None),
        Err(error) if !terms.enforced => return excuse(&terms, &error),
        Err(error) => return Err(circumstances.of_key(&error)),
    };
    let deadline = match bound_wait(&mut terms, parts) {
        Ok(deadline) => deadline,
        Err(_) if !terms.enforced => false,
        Err(error) => {
            return Err(Circumstances { deadline: true, ..circumstances }.of_lock(&error));
        }
    };
    let serving = ServingTerms {
        shared: Arc::clone(shared),
        plan: Arc::clone(plan),
        key: key.clone(),
        end: terms.end(),
        lease: terms.options.lease(),
        max_hold: terms.max_hold(),
        enforced: terms.enforced,
        client: terms.client.clone(),
        deadline,
        grpc: circumstances.grpc,
        has_body: parts.method != Method::HEAD,
        finish: plan.on_disconnect == OnDisconnect::Finish,
        reads: side == Side::Shared,
    };
    Ok(Some(Lock { key, terms, serving }))
}

/// A request that its policy lets through without the key that it lacks.
fn excuse(terms: &Terms, error: &KeyError) -> Decision {
    if let Some(policy) = &terms.policy {
        policy.log_not_enforced(terms.site, error);
    }
    Ok(None)
}

/// Waits no longer than the request is of use; true if that is less than the policy would.
fn bound_wait(terms: &mut Terms, parts: &Parts) -> Result<bool, LockError> {
    let said = parts.extensions.get::<RequestDeadline>();
    let left = said.map(|deadline| deadline.0.saturating_duration_since(Instant::now()));
    let grpc = grpc::is_spoken(&parts.headers).then(|| grpc::timeout(&parts.headers)).flatten();
    let Some(left) = left.into_iter().chain(grpc).min() else { return Ok(false) };
    let is_less = match terms.options.wait() {
        Wait::UpTo(wait) => left < wait,
        Wait::Forever => true,
        _ => left == Duration::ZERO,
    };
    if !is_less {
        return Ok(false);
    }
    if left == Duration::ZERO {
        // Not even asked for: it could not be of use any more.
        return Err(LockError::timed_out("of a request whose time was over", left));
    }
    terms.options = terms.options.to_builder().wait(left).build()?;
    Ok(true)
}

impl<S: fmt::Debug> fmt::Debug for HttpLockService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLockService")
            .field("inner", &self.inner)
            .field("shared", &self.shared)
            .finish()
    }
}
