//! [`LockClient`], which creates locks, and the types that it reports: its [`Health`], its id
//! and the [`Shutdown`].

// `methods` has what programs call first. `builder` has the settings of clients, and `connect` and `quorum` make clients.
// `any` makes locks whose kind is a value, `blocking` has the methods that block, `config` gives clients policies from a
// file, `watch` reports the health, `id` identifies clients.

// The first, as rustdoc lists methods in the order of modules, and those of this file last.
mod methods;

mod any;
#[cfg(feature = "blocking")]
mod blocking;
mod builder;
#[cfg(feature = "policy")]
pub(crate) mod config;
mod connect;
mod id;
#[cfg(any(feature = "redis", feature = "__internals"))]
mod quorum;
mod watch;

use std::fmt;
use std::sync::Arc;

pub use self::builder::LockClientBuilder;
#[cfg(feature = "policy")]
pub use self::watch::Health;
use crate::acquire::{Engine, Handle};
use crate::admin::Admin;
#[cfg(feature = "survey")]
use crate::admin::survey::Presence;
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::options::LockOptions;
pub use crate::options::values::RestartGuard;
use crate::store::Target;
#[cfg(feature = "tls-rustls")]
pub use crate::store::redis::TlsOptions;

/// A client that creates locks. Cheap to clone: clones share one connection, one watchdog and one local queue
/// per key.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::LockClient;
/// use std::time::Duration;
///
/// let client = LockClient::connect("redis://127.0.0.1:6379").await?;
/// client.install(); // annotated functions use it from here on
/// let guard = client.mutex("order:42").lock().await?;
/// guard.release().await?;
/// client.shutdown(Duration::from_secs(5)).await; // the last line of `main`
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LockClient {
    pub(crate) engine: Arc<Engine>,
    settings: Arc<Settings>,
}

#[derive(Debug, Default)]
struct Settings {
    namespace: Option<String>,
    options: Arc<LockOptions>,
    /// Has the client answer surveys.
    #[cfg(feature = "survey")]
    _presence: Option<Presence>,
    /// What its surveys have learned.
    #[cfg(feature = "survey")]
    known_names: Arc<crate::admin::survey::KnownNames>,
    #[cfg(feature = "policy")]
    configured: arc_swap::ArcSwapOption<config::LayerConfig>,
    #[cfg(feature = "policy")]
    followers: config::Followers,
}

/// The default client of the process: see [`LockClient::install`].
static INSTALLED: parking_lot::RwLock<Option<LockClient>> = parking_lot::RwLock::new(None);

impl LockClient {
    /// Returns a handle of the target that `target` makes of the full name.
    fn handle(
        &self,
        name: impl IntoLockKey,
        target: impl FnOnce(LockKey) -> Arc<Target>,
    ) -> Handle {
        let target = name.into_lock_key().and_then(|key| self.full_name(key)).map(target);
        Handle::new(&self.engine, target, self.shared_options())
    }

    /// Returns the names that its surveys have met.
    #[cfg(feature = "survey")]
    pub(crate) fn known_names(&self) -> &Arc<crate::admin::survey::KnownNames> {
        &self.settings.known_names
    }

    fn full_name(&self, key: LockKey) -> Result<LockKey, LockError> {
        match &self.settings.namespace {
            None => key.whole(),
            Some(namespace) => key.in_namespace(namespace),
        }
    }
}

impl LockClient {
    /// Returns the operator's side of this client: see [`Admin`].
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::in_memory();
    /// assert!(client.admin().held().is_empty());
    /// ```
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient")
            .field("store", &self.engine.leases.store)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What was still held or not yet released at the end of a [`shutdown`](LockClient::shutdown).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Holds whose guards were still alive.
    pub still_held: usize,
    /// Releases and cancelled requests that the store has not confirmed; those holds end with their lease at the
    /// latest.
    pub not_given_back: usize,
}

impl Shutdown {
    /// Returns true if nothing was still held and every release was confirmed.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.still_held == 0 && self.not_given_back == 0
    }
}
