//! [`HttpLockService`].

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::body::LockBody;
use super::future::HttpLockFuture;
use super::layer::Shared;
use super::problem;
use crate::locked::Locked;

/// An HTTP service whose requests run under locks: see [`HttpLockLayer`](super::HttpLockLayer).
#[derive(Clone)]
pub struct HttpLockService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> HttpLockService<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> Self {
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

impl<S, Body, B> Service<Request<Body>> for HttpLockService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
{
    type Response = Response<LockBody<B>>;
    type Error = S::Error;
    type Future = HttpLockFuture<S, Body, B>;

    /// The inner service's readiness and nothing else: which lock to take is not known before there
    /// is a request.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !self.shared.locks(request.method()) {
            return HttpLockFuture::passing(self.inner.call(request), &self.shared);
        }
        let (mut parts, body) = request.into_parts();
        let key = self.shared.key(&mut parts);
        let request = Request::from_parts(parts, body);
        let key = match key {
            Ok(Some(key)) => key,
            Ok(None) => return HttpLockFuture::passing(self.inner.call(request), &self.shared),
            Err(error) => {
                return HttpLockFuture::rejected(problem::of_key(&error, &self.shared.times));
            }
        };
        match self.shared.terms() {
            Err(error) => {
                HttpLockFuture::rejected(problem::of_lock(&error, None, &self.shared.times))
            }
            Ok(terms) => {
                // The one that was polled ready is the one to call; its clone may not be.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let locked = Locked::acquiring(&terms, key, ready, request);
                HttpLockFuture::locked(locked, terms.options, &self.shared)
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for HttpLockService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLockService")
            .field("inner", &self.inner)
            .field("shared", &self.shared)
            .finish()
    }
}
