//! [`LockService`].

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use lock_runtime::LockKey;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::future::LockFuture;
use crate::held::without_lock;
use crate::layer::CallTerms;
use crate::locked::Call;

/// A service whose calls run under locks: see [`LockLayer`](crate::LockLayer).
pub struct LockService<S, K> {
    inner: S,
    key: Arc<K>,
    terms: Arc<CallTerms>,
}

impl<S, K> LockService<S, K> {
    pub(crate) fn new(inner: S, key: Arc<K>, terms: Arc<CallTerms>) -> Self {
        Self { inner, key, terms }
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

impl<S, K, Req, E> Service<Req> for LockService<S, K>
where
    S: Service<Req> + Clone,
    K: Fn(&Req) -> Result<Option<LockKey>, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = S::Response;
    type Error = LockServiceError<S::Error>;
    type Future = LockFuture<S, Req>;

    /// The inner service's readiness and nothing else: which lock to take is not known before there
    /// is a request.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(LockServiceError::Inner)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        match (self.key)(&request) {
            Err(error) => {
                // What the readiness took, such as a place in a limit, belongs to others now.
                self.inner = self.inner.clone();
                LockFuture::failed(LockServiceError::of_key(error.into()))
            }
            Ok(None) => LockFuture::passing(without_lock(|| self.inner.call(request))),
            Ok(Some(key)) => {
                // The one that was polled ready is the one to call; its clone may not be.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let call = Call::new(ready, request);
                let terms = self.terms.now();
                LockFuture::taking(terms.take(key), call, terms.end())
            }
        }
    }
}

impl<S: Clone, K> Clone for LockService<S, K> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            key: Arc::clone(&self.key),
            terms: Arc::clone(&self.terms),
        }
    }
}

impl<S: fmt::Debug, K> fmt::Debug for LockService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
