//! [`LockLayer`].

use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::__layer_v1::{self as runtime, LayerLabel, LayerSite};
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions};

use crate::locked::LockSpec;

/// A layer that runs each call of a service under the lock whose key it derives from the request.
///
/// For HTTP services use [`LockLayer::http`], whose services answer instead of failing. The
/// [crate documentation](crate) says where to put a layer and what it promises.
///
/// A call waits for its lock for as long as the client's option `wait` says. This layer does not read a request's body while the
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
    pub(crate) key: Arc<K>,
    pub(crate) settings: Arc<LayerSettings>,
}

/// The settings of a layer's locks.
#[derive(Debug, Clone)]
pub(crate) struct LayerSettings {
    client: LockClient,
    kind: LockKind,
    /// Over the client's options at the time of each call.
    options: Option<LockOptions>,
    pub(crate) label: LayerLabel,
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
    pub(crate) fn spec(&self) -> LockSpec {
        let LayerSettings { client, kind, options, .. } = &*self.settings;
        let options = match options {
            None => runtime::shared_options(client),
            Some(options) => Arc::new(options.clone().or(client.options())),
        };
        LockSpec {
            client: client.clone(),
            kind: *kind,
            release_timeout: None,
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
