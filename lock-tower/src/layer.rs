//! [`LockLayer`].

use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions};
use tower_layer::Layer;

use crate::locked::{RELEASE_TIMEOUT, Terms};
use crate::service::LockService;

/// Runs each call of a service under the lock that the request names.
///
/// For HTTP there is [`LockLayer::http`], whose services answer instead of failing. See the
/// [crate documentation](crate) for where a layer belongs and what it promises.
///
/// A call waits for its lock until its future is dropped. This layer knows of no body to read meanwhile, so
/// around an HTTP service it does not make the server notice that a client has left; [`LockLayer::http`] does.
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
    terms: Arc<CallTerms>,
}

/// On what terms calls are locked.
#[derive(Debug, Clone)]
pub(crate) struct CallTerms {
    client: LockClient,
    kind: LockKind,
    /// `None` until set: the client's, as they are at each call.
    options: Option<LockOptions>,
    release_timeout: Duration,
    /// Where the layer was made.
    site: &'static Location<'static>,
}

impl CallTerms {
    pub(crate) fn now(&self) -> Terms {
        Terms {
            client: self.client.clone(),
            kind: self.kind,
            options: self.options.unwrap_or_else(|| self.client.options()),
            release_timeout: self.release_timeout,
            enforced: true,
            site: self.site,
            #[cfg(feature = "http")]
            policy: None,
        }
    }
}

impl<K> LockLayer<K> {
    /// A layer that takes the lock which `key` derives from a request; `None` lets a request
    /// through without a lock.
    ///
    /// Locks are taken with the client's own options unless [`options`](Self::options) says
    /// otherwise. An error of `key` is the call's error, and the inner service is not called.
    ///
    /// This layer puts nothing into a request: a handler that a `tower::buffer` runs in another task does not
    /// find its lock, and the extractor of `axum` finds that of an HTTP layer around it instead, if there is
    /// one with `held_extension`. Nor does this layer hold a response's body: below an HTTP layer that holds it, what the body asks
    /// while it is sent, such as [`HeldLock::current`](crate::HeldLock::current), is about the HTTP layer's hold.
    #[must_use = "a layer does nothing until it wraps a service"]
    #[track_caller]
    pub fn new<Req>(client: LockClient, key: K) -> Self
    where
        K: Fn(&Req) -> Result<Option<LockKey>, LockError>,
    {
        Self::with_key(client, key)
    }

    /// As [`new`](Self::new), for a function with an error of its own, which is then
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
        let terms = CallTerms {
            client,
            kind: LockKind::default(),
            options: None,
            release_timeout: RELEASE_TIMEOUT,
            site: Location::caller(),
        };
        Self { key: Arc::new(key), terms: Arc::new(terms) }
    }

    /// What kind of lock to take. Default: [`LockKind::Mutex`].
    #[must_use = "a layer does nothing until it wraps a service"]
    pub fn kind(mut self, kind: LockKind) -> Self {
        Arc::make_mut(&mut self.terms).kind = kind;
        self
    }

    /// How long to wait for the lock, how long to hold it, what to do when it is lost.
    /// Default: as the client has it at the time of each call, so that a reload of its configuration has
    /// effect with the next one.
    #[must_use = "a layer does nothing until it wraps a service"]
    pub fn options(mut self, options: LockOptions) -> Self {
        Arc::make_mut(&mut self.terms).options = Some(options);
        self
    }

    /// How long a finished call waits for the store to confirm the release. Longer keeps a
    /// sequential caller from finding its own lock busy when the store is slow; shorter gives its
    /// result sooner then. The release goes on in the background either way. Default: 250 ms.
    #[must_use = "a layer does nothing until it wraps a service"]
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        Arc::make_mut(&mut self.terms).release_timeout = release_timeout;
        self
    }
}

impl<K, S> Layer<S> for LockLayer<K> {
    type Service = LockService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(inner, Arc::clone(&self.key), Arc::clone(&self.terms))
    }
}

impl<K> Clone for LockLayer<K> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), terms: Arc::clone(&self.terms) }
    }
}

impl<K> fmt::Debug for LockLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").field("terms", &self.terms).finish_non_exhaustive()
    }
}
