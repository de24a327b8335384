//! [`LockService`].

use std::error::Error;
use std::fmt;
use std::task::{Context, Poll};

use lock_runtime::LockKey;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::future::{LockFuture, State};
use crate::held::without_lock;
use crate::layer::LockLayer;
use crate::locked::take_ready;

/// A service whose calls run under locks: see [`LockLayer`].
pub struct LockService<S, K> {
    inner: S,
    layer: LockLayer<K>,
}

impl<S, K> Layer<S> for LockLayer<K> {
    type Service = LockService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService { inner, layer: self.clone() }
    }
}

impl<S, K> LockService<S, K> {
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

impl<S, K, Req, E> Service<Req> for LockService<S, K>
where
    S: Service<Req> + Clone,
    K: Fn(&Req) -> Result<Option<LockKey>, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = S::Response;
    type Error = LockServiceError<S::Error>;
    type Future = LockFuture<S, Req>;

    /// Polls only the inner service: the lock's key is not known before there is a request.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(LockServiceError::Inner)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let state = match (self.layer.key)(&request) {
            Err(error) => {
                // Gives back what `poll_ready` reserved, such as a permit of a concurrency limit.
                self.inner = self.inner.clone();
                State::Failed { error: Some(LockServiceError::from_key_error(error.into())) }
            }
            Ok(None) => State::PassThrough { future: without_lock(|| self.inner.call(request)) },
            Ok(Some(key)) => {
                let spec = self.layer.spec();
                let acquire = spec.acquire(&self.layer.settings.label, key);
                let ready = Some((take_ready(&mut self.inner), request));
                State::Acquiring { acquire, ready, terms: spec.terms() }
            }
        };
        LockFuture { state }
    }
}

impl<S: Clone, K> Clone for LockService<S, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, K> fmt::Debug for LockService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("layer", &self.layer)
            .finish()
    }
}
