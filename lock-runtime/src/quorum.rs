//! [`Quorum`]: independent Redis servers, a majority of which keeps each lock. It creates
//! [`QuorumLock`]s.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{LockClient, LockClientBuilder, check_setting};
use crate::error::LockError;
use crate::key::IntoLockKey;
use crate::options::LockOptions;
use crate::options::values::RestartGuard;
use crate::quorum_lock::QuorumLock;
use crate::store::Store;
use crate::store::compose::quorum::QuorumStore;

/// Independent servers, a majority of which keeps each lock.
///
/// # What it adds
///
/// A lock survives the loss of a minority of the servers and their data: two of five, one of three, and none of
/// two. A server that is down or hangs delays nothing, because the answers of a majority suffice. A hold is
/// counted from before the servers are asked, with a margin for clocks that run at different speeds, and is
/// lost at its deadline unless a majority renews it. Fencing tokens grow across the servers, whatever their
/// clocks say; after servers lost their data, they grow if their clocks differ by less than the restart took.
///
/// # What it does not
///
/// A lease is no safer than with one server: a process that is paused past its deadline still needs
/// [fencing](crate::FencingToken). Servers must be independent, never replicas of each other. A server that
/// restarts without its grants can make a second majority: persist them with `appendonly yes` and `appendfsync
/// always`, or set a [`restart_guard`](QuorumBuilder::restart_guard). The builder requires one of the two.
///
/// Each acquire costs two round trips to all servers, the second for the fencing token, and each release one;
/// clients that ask for the same lock at once sometimes refuse each other, and try again. A quorum supports
/// only mutexes, and no Redisson peers: Redisson has withdrawn its own lock of this kind in favour of one
/// server whose replicas acknowledge each hold. Here that is
/// [`LockOptionsBuilder::replicas`](crate::options::LockOptionsBuilder::replicas), usually the better choice.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::quorum::Quorum;
/// use std::time::Duration;
///
/// let quorum = Quorum::builder()
///     .server_timeout(Duration::from_millis(100))
///     .restart_guard(Duration::from_secs(30))
///     .connect(["redis://one", "redis://two", "redis://three"])
///     .await?;
/// let guard = quorum.lock("leader").lock().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
// S-29.
#[derive(Debug, Clone)]
pub struct Quorum {
    client: LockClient,
}

impl Quorum {
    /// Starts a quorum. It requires a choice: [`restart_guard`](QuorumBuilder::restart_guard) or
    /// [`without_restart_guard`](QuorumBuilder::without_restart_guard).
    pub fn builder() -> QuorumBuilder {
        QuorumBuilder::default()
    }

    /// Returns the lock of that name. Cheap; locking it fails if the name is invalid.
    pub fn lock(&self, name: impl IntoLockKey) -> QuorumLock {
        QuorumLock::new(self.client.mutex(name).handle().clone())
    }

    /// Returns a client whose mutexes are these locks, for annotated functions and tower layers, and for
    /// [shutdown](LockClient::shutdown). It supports no other kinds.
    #[must_use]
    pub fn client(&self) -> &LockClient {
        &self.client
    }
}

/// Default time that one server may take to answer.
const SERVER_TIMEOUT: Duration = Duration::from_millis(250);

/// Builds a [`Quorum`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it makes a quorum"]
pub struct QuorumBuilder {
    client: LockClientBuilder,
    server_timeout: Duration,
    restart_guard: Option<RestartGuard>,
}

impl Default for QuorumBuilder {
    fn default() -> Self {
        Self { client: LockClient::builder(), server_timeout: SERVER_TIMEOUT, restart_guard: None }
    }
}

impl QuorumBuilder {
    /// Sets how long one server may take to answer before it counts as down. An acquire takes this long when so
    /// many servers are down that the rest is no majority; keep it small compared to the lease. Default: 250
    /// ms.
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.server_timeout = timeout;
        self
    }

    /// Excludes servers from grants that started less than this ago. Set the longest lease or `at_least` in
    /// use: then the holds that a server forgot in a restart have ended before it counts again. No lock can be
    /// acquired for this long after a majority has restarted or was started for the first time.
    pub fn restart_guard(mut self, guard: Duration) -> Self {
        self.restart_guard = Some(RestartGuard::For(guard));
        self
    }

    /// Counts a restarted server at once. Two clients can then hold one lock if a server forgets its grants:
    /// choose this only where no restart loses a write, as with `appendonly yes` and `appendfsync always` on
    /// every server.
    pub fn without_restart_guard(mut self) -> Self {
        self.restart_guard = Some(RestartGuard::Off);
        self
    }

    /// Applies the choice of a configuration.
    #[cfg(all(feature = "policy", feature = "redis"))]
    pub(crate) fn configured(mut self, guard: Option<RestartGuard>) -> Self {
        self.restart_guard = guard;
        self
    }

    /// Sets namespace, patience and default options, as for a client. Its TLS options apply to every
    /// connection.
    pub fn client(mut self, settings: LockClientBuilder) -> Self {
        self.client = settings;
        self
    }

    /// Sets what blocking calls of the client wait with.
    #[cfg(feature = "blocking")]
    pub(crate) fn driver(mut self, driver: crate::own_runtime::Driver) -> Self {
        self.client = self.client.driver(driver);
        self
    }

    /// Sets the default options of this quorum's locks.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.client = self.client.options(options);
        self
    }

    /// Connects to all servers and returns once a majority is connected: it connects to the others in the
    /// background.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] if a setting is invalid, an address is given twice, or neither
    ///   [`restart_guard`](Self::restart_guard) nor [`without_restart_guard`](Self::without_restart_guard) was
    ///   chosen.
    /// - [`LockError::Store`] at once if an address is invalid, a server refuses the password, or so many
    ///   cannot be reached that the rest is no majority. A server that takes longer to refuse than a majority
    ///   to connect plus the [`server_timeout`](Self::server_timeout) is logged instead.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    #[cfg(feature = "redis")]
    pub async fn connect<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Quorum, LockError> {
        use std::collections::BTreeSet;

        crate::error::check_runtime()?;
        let urls: Vec<_> = urls.into_iter().collect();
        if urls.iter().map(AsRef::as_ref).collect::<BTreeSet<&str>>().len() < urls.len() {
            let message = "a server of the quorum is named twice; name each once";
            return Err(LockError::InvalidOptions(message.to_owned()));
        }
        self.check(urls.len())?;
        // One name, with one id, for all servers, so that the client has it, too.
        let name = self.client.connection_name();
        let stores = urls.iter().map(|url| self.client.prepare(url.as_ref(), &name).map(Arc::new));
        let stores = stores.collect::<Result<Vec<_>, _>>()?;
        connect_to_majority(&stores, self.server_timeout).await?;
        self.stores(stores.into_iter().map(|store| store as Arc<dyn Store>))
    }

    /// Builds a quorum of these stores, one for each server.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if a setting is invalid, there are no stores, or neither
    /// [`restart_guard`](Self::restart_guard) nor [`without_restart_guard`](Self::without_restart_guard) was
    /// chosen.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::quorum::Quorum;
    /// use lock_runtime::store::{MemoryStore, Store};
    /// use std::sync::Arc;
    ///
    /// // Of one, for a test: a mutex in memory.
    /// let store = Arc::new(MemoryStore::new()) as Arc<dyn Store>;
    /// let quorum = Quorum::builder().without_restart_guard().stores([store])?;
    /// let guard = quorum.lock("leader").lock().await?;
    /// assert!(quorum.lock("leader").try_lock().await?.is_none());
    /// guard.release().await?;
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn stores(
        self,
        stores: impl IntoIterator<Item = Arc<dyn Store>>,
    ) -> Result<Quorum, LockError> {
        let stores: Vec<_> = stores.into_iter().collect();
        self.check(stores.len())?;
        let guard = match self.restart_guard {
            Some(RestartGuard::For(guard)) => Some(guard),
            Some(RestartGuard::Off) | None => None,
        };
        let store = QuorumStore::new(stores, self.server_timeout, guard);
        let store = store.ok_or_else(no_servers)?;
        Ok(Quorum { client: self.client.store(store)? })
    }

    fn check(&self, servers: usize) -> Result<(), LockError> {
        if servers == 0 {
            return Err(no_servers());
        }
        self.client.check()?;
        check_setting("server_timeout", self.server_timeout)?;
        match self.restart_guard {
            Some(RestartGuard::For(guard)) => check_setting("restart_guard", guard),
            Some(RestartGuard::Off) => Ok(()),
            None => Err(LockError::InvalidOptions(
                "a quorum needs a choice: `restart_guard` with the longest lease in use, or \
                 `without_restart_guard` where no server forgets anything in a restart"
                    .to_owned(),
            )),
        }
    }
}

fn no_servers() -> LockError {
    LockError::InvalidOptions("a quorum of no servers; name three or five".to_owned())
}

/// Connects to all; returns once a majority is connected, or cannot be. The others then have `patience` to
/// refuse this client, which waiting does not fix.
// S-33.
#[cfg(feature = "redis")]
async fn connect_to_majority(
    stores: &[Arc<crate::store::redis::RedisStore>],
    patience: Duration,
) -> Result<(), LockError> {
    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;
    use tokio::time::{Instant, timeout_at};

    use crate::error::{StoreError, StoreErrorKind};
    use crate::store::compose::quorum::majority;

    let (all, wanted) = (stores.len(), majority(stores.len()));
    let connect = |store: &Arc<crate::store::redis::RedisStore>| {
        let store = Arc::clone(store);
        // A task for each: a slow server goes on connecting after a majority is connected.
        tokio::spawn(async move { store.connect_now().await })
    };
    let mut connecting: FuturesUnordered<_> = stores.iter().map(connect).collect();
    let (mut connected, mut failed, mut until) = (0, 0, None);
    loop {
        let outcome = match until {
            None => connecting.next().await,
            Some(until) => timeout_at(until, connecting.next()).await.ok().flatten(),
        };
        match outcome {
            None => return Ok(()),
            Some(Ok(Ok(()))) => connected += 1,
            Some(Ok(Err(error))) if error.kind().is_transient() && all > 1 => {
                failed += 1;
                if all - failed < wanted {
                    let message = format!(
                        "{failed} of the {all} servers of the quorum cannot be reached and {wanted} \
                         have to be; check their addresses and that they run"
                    );
                    let kind = StoreErrorKind::Unavailable;
                    return Err(StoreError::new(kind, message).with_source(error).into());
                }
            }
            Some(Ok(Err(error))) => return Err(error.into()),
            // The runtime is shutting down.
            Some(Err(_)) => failed += 1,
        }
        if connected >= wanted {
            until.get_or_insert_with(|| Instant::now() + patience);
        }
    }
}
