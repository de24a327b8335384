//! Quorums: independent servers, a majority of which keeps each lock. A quorum is a way to connect.
// S-29.

use std::sync::Arc;
#[cfg(feature = "redis")]
use std::time::Duration;

use super::builder::check_setting;
use super::{LockClient, LockClientBuilder, RestartGuard};
use crate::error::LockError;
use crate::store::Store;
use crate::store::compose::quorum::QuorumStore;
#[cfg(feature = "redis")]
use crate::store::redis::RedisStore;

fn check(guard: RestartGuard) -> Result<(), LockError> {
    guard.duration().map_or(Ok(()), |guard| check_setting("the restart guard", guard))
}

impl LockClientBuilder {
    pub(super) fn on_quorum(
        self,
        stores: Vec<Arc<dyn Store>>,
        guard: RestartGuard,
    ) -> Result<LockClient, LockError> {
        check(guard)?;
        let store = QuorumStore::new(stores, self.server_timeout, guard.duration());
        self.on(Arc::new(store.ok_or_else(no_servers)?))
    }

    /// Connects to independent servers, a majority of which keeps each lock: the Redlock algorithm. Returns once a majority
    /// is connected; it connects to the others in the background.
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
    /// [fencing](crate::FencingToken). Servers must be independent, never replicas of each other. A server that restarts
    /// without its grants can make a second majority; `guard` says what prevents it.
    ///
    /// Each acquire costs two round trips to all servers, the second for the fencing token, and each release one;
    /// clients that ask for the same lock at once sometimes refuse each other, and try again. A quorum keeps only mutexes;
    /// the other kinds fail with [`LockError::Store`] when they are acquired. It has no Redisson peers: Redisson has
    /// withdrawn its own lock of this kind in favour of one server whose replicas acknowledge each hold. Here that is
    /// [`LockOptions::replicas`](crate::LockOptions::replicas), usually the better choice.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid, no address is given, or one is
    ///   given twice.
    /// - [`LockError::Store`] at once if an address is invalid, a server refuses the password, or so many
    ///   cannot be reached that the rest is no majority. A server that takes longer to refuse than a majority
    ///   to connect plus the [`server_timeout`](Self::server_timeout) is logged instead.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lock_runtime::LockError> {
    /// use lock_runtime::LockClient;
    /// use lock_runtime::client::RestartGuard;
    /// use std::time::Duration;
    ///
    /// let servers = ["redis://one", "redis://two", "redis://three"];
    /// let client = LockClient::builder()
    ///     .server_timeout(Duration::from_millis(100))
    ///     .connect_quorum(servers, RestartGuard::For(Duration::from_secs(30)))
    ///     .await?;
    /// let guard = client.mutex("leader").lock().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub async fn connect_quorum<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
        guard: RestartGuard,
    ) -> Result<LockClient, LockError> {
        use std::collections::BTreeSet;

        crate::error::check_runtime()?;
        let urls: Vec<_> = urls.into_iter().collect();
        if urls.iter().map(AsRef::as_ref).collect::<BTreeSet<&str>>().len() < urls.len() {
            let message = "a server of the quorum is named twice; name each once";
            return Err(LockError::InvalidOptions(message.to_owned()));
        }
        if urls.is_empty() {
            return Err(no_servers());
        }
        self.check()?;
        check(guard)?;
        // One name, with one id, for all servers, so that the client has it, too.
        let name = self.connection_name();
        let stores = urls.iter().map(|url| self.prepare(url.as_ref(), &name).map(Arc::new));
        let stores = stores.collect::<Result<Vec<_>, _>>()?;
        connect_to_majority(&stores, self.server_timeout).await?;
        let stores = stores.into_iter().map(|store| store as Arc<dyn Store>);
        self.on_quorum(stores.collect(), guard)
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
    stores: &[Arc<RedisStore>],
    patience: Duration,
) -> Result<(), LockError> {
    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;
    use tokio::time::{Instant, timeout_at};

    use crate::error::{StoreError, StoreErrorKind};
    use crate::store::compose::quorum::majority;

    let (all, wanted) = (stores.len(), majority(stores.len()));
    let connect = |store: &Arc<RedisStore>| {
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
