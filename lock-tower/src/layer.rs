//! [`LockLayer`], its [`LockService`] and its [`LockFuture`].

use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_runtime::__layer_v1::{self as runtime, LayerLabel, LayerSite};
use lock_runtime::acquire::Acquire;
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::LockServiceError;
use crate::held::{Hold, without_lock};
use crate::locked::{LockSpec, LockedCall, Terms, take_ready};

/// A layer that runs each call of a service under the lock whose key it derives from the request.
///
/// For HTTP services use [`LockLayer::http`], whose services answer instead of failing. The
/// [crate documentation](crate) says where to put a layer and what it promises.
///
/// A call waits for its lock until its future is dropped. This layer does not read a request's body while the
/// request waits, so around an HTTP service the server may not notice that a client has left;
/// [`LockLayer::http`] reads it.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, LockKey};
/// use lock_tower::LockLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// struct Rename {
///     file: String,
///     to: String,
/// }
///
/// let locks = LockClient::in_memory();
/// let layer = LockLayer::new(locks, |rename: &Rename| {
///     Ok(Some(LockKey::builder().text("file:").part(&rename.file).build()?))
/// });
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(|rename: Rename| async {
///     // No other process renames this file now.
///     Ok::<_, std::io::Error>(rename.to)
/// }));
/// let renamed = service.oneshot(Rename { file: "a".into(), to: "b".into() }).await?;
/// assert_eq!(renamed, "b");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct LockLayer<K = ()> {
    key: Arc<K>,
    settings: Arc<LayerSettings>,
}

/// The settings of a layer's locks.
#[derive(Debug, Clone)]
struct LayerSettings {
    client: LockClient,
    kind: LockKind,
    /// Over the client's options at the time of each call.
    options: Option<LockOptions>,
    label: LayerLabel,
}

impl<K> LockLayer<K> {
    /// Returns a layer that locks the key that `key` derives from each request; with `None` the request runs
    /// without a lock.
    ///
    /// Locks are acquired with the client's options unless [`options`](Self::options) sets others. If `key`
    /// fails, the call fails with that error, and the inner service is not called.
    ///
    /// This layer does not hold the lock for a response's body: below an HTTP layer that does,
    /// [`HeldLock::current`](crate::HeldLock::current) in the body returns the HTTP layer's lock.
    #[must_use = "a layer does nothing until it wraps a service"]
    #[track_caller]
    pub fn new<Req>(client: LockClient, key: K) -> Self
    where
        K: Fn(&Req) -> Result<Option<LockKey>, LockError>,
    {
        Self::with_key(client, key)
    }

    /// As [`new`](Self::new), for a function with an error type of its own. The call then fails with
    /// [`LockServiceError::Key`](crate::LockServiceError::Key).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, LockKey};
    /// use lock_tower::LockLayer;
    ///
    /// let layer = LockLayer::with_key(LockClient::in_memory(), |job: &Option<u64>| match job {
    ///     Some(id) => Ok(Some(LockKey::builder().text("job:").part(id).build()?)),
    ///     None => Err(Box::<dyn std::error::Error + Send + Sync>::from("a job has a number")),
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use = "a layer does nothing until it wraps a service"]
    #[track_caller]
    pub fn with_key<Req, E>(client: LockClient, key: K) -> Self
    where
        K: Fn(&Req) -> Result<Option<LockKey>, E>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let settings = LayerSettings {
            client,
            kind: LockKind::default(),
            options: None,
            label: LayerLabel::new(LayerSite::of(Location::caller(), None)),
        };
        Self { key: Arc::new(key), settings: Arc::new(settings) }
    }

    /// Returns how the next call is locked.
    fn spec(&self) -> LockSpec {
        let LayerSettings { client, kind, options, .. } = &*self.settings;
        let options = match options {
            None => runtime::shared_options(client),
            Some(options) => Arc::new(options.clone().or(client.options())),
        };
        LockSpec {
            client: client.clone(),
            kind: *kind,
            release_timeout: options.get_release_timeout(),
            options,
            enforced: true,
        }
    }

    /// Sets the kind of lock. Default: [`LockKind::Mutex`].
    #[must_use = "a layer does nothing until it wraps a service"]
    pub fn kind(mut self, kind: LockKind) -> Self {
        Arc::make_mut(&mut self.settings).kind = kind;
        self
    }

    /// Sets options: how long to wait for the lock, how long its lease is, what to do when it is lost. They lie over
    /// those that were set before, and all over the client's at the time of each call, so that a reload of its
    /// configuration takes effect with the next call.
    #[must_use = "a layer does nothing until it wraps a service"]
    pub fn options(mut self, options: LockOptions) -> Self {
        let settings = Arc::make_mut(&mut self.settings);
        settings.options = Some(options.or(settings.options.take().unwrap_or_default()));
        self
    }

    /// Sets how long a finished call waits for the store to confirm the release. Default: 250 ms.
    ///
    /// If the store is slow, a longer timeout keeps a sequential caller from finding its own lock busy, and a
    /// shorter one returns the result sooner. The release goes on in the background in both cases.
    #[must_use = "a layer does nothing until it wraps a service"]
    pub fn release_timeout(self, release_timeout: Duration) -> Self {
        self.options(LockOptions::new().release_timeout(release_timeout))
    }
}

impl<K> Clone for LockLayer<K> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), settings: Arc::clone(&self.settings) }
    }
}

impl<K> fmt::Debug for LockLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

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

pin_project! {
    /// The future of a call of a [`LockService`](crate::LockService).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits, it leaves the queue; later, it drops the inner call and then releases
    /// the lock in the background.
    #[must_use = "futures do nothing unless polled"]
    pub struct LockFuture<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, Req>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        // Runs without a lock.
        PassThrough { #[pin] future: S::Future },
        // `None` once it was returned.
        Failed { error: Option<LockServiceError<S::Error>> },
        Acquiring { acquire: Acquire, ready: Option<(S, Req)>, terms: Terms },
        Running { #[pin] call: LockedCall<S, Req, Result<S::Response, S::Error>> },
    }
}

impl<S: Service<Req>, Req> Future for LockFuture<S, Req> {
    type Output = Result<S::Response, LockServiceError<S::Error>>;

    // Pending forever if polled after completion.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut state = self.as_mut().project().state;
            let next = match state.as_mut().project() {
                StateProjection::PassThrough { future } => {
                    return without_lock(|| future.poll(cx)).map_err(LockServiceError::Inner);
                }
                StateProjection::Failed { error } => {
                    return error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
                StateProjection::Acquiring { acquire, ready, terms } => {
                    match (ready!(Pin::new(acquire).poll(cx)), ready.take()) {
                        (Ok(guard), Some(ready)) => {
                            let hold = Hold::new(guard, *terms);
                            State::Running { call: LockedCall::new(ready, hold) }
                        }
                        (result, _) => State::Failed { error: result.err().map(Into::into) },
                    }
                }
                StateProjection::Running { call } => {
                    let (result, _) = ready!(call.poll(cx, |result, _| (result, false)))?;
                    return Poll::Ready(result.map_err(LockServiceError::Inner));
                }
            };
            state.set(next);
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for LockFuture<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}
