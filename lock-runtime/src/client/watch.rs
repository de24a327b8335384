//! What a client says of itself: the names of its locks, whether its store answers, and the health of its holds.

use std::sync::atomic::Ordering;

use tokio::task::coop::consume_budget;

use super::LockClient;
use crate::admin::HeldInfo;
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::lease::Hold;

impl LockClient {
    /// Returns the full name of a lock: with the namespace of this client.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if it is not a valid name.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::builder().namespace("shop").in_memory()?;
    /// assert_eq!(client.key("order:42")?.as_str(), "shop:order:42");
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn key(&self, name: impl IntoLockKey) -> Result<LockKey, LockError> {
        self.full_name(name.into_lock_key()?)
    }

    /// Returns the prefix of the names of this client's locks: see [`namespace`](crate::LockClientBuilder::namespace).
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::builder().namespace("shop").in_memory()?;
    /// assert_eq!(client.namespace(), Some("shop"));
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.settings.namespace.as_deref()
    }

    /// Asks the store whether it answers: the readiness check of a service that needs its locks.
    ///
    /// One round trip, and no longer than [`command_timeout`](crate::LockClientBuilder::command_timeout). In a
    /// cluster every master must answer, in a quorum a majority. A replica that refuses writes also counts as
    /// an answer: without [sentinels](crate::LockClientBuilder::connect_sentinel), which follow failovers, this does
    /// not detect one. Do not use it for liveness: a restart does not help a process whose store is down.
    /// [`health`](Self::health) sends nothing, and reports whether holds are in danger.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if the store does not answer, or refuses; [`LockError::Closed`] after the
    /// client was shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(client: lock_runtime::LockClient) {
    /// // GET /ready
    /// let status = match client.ready().await {
    ///     Ok(()) => 200,
    ///     Err(_) => 503,
    /// };
    /// # let _ = status;
    /// # }
    /// ```
    pub async fn ready(&self) -> Result<(), LockError> {
        self.engine.leases.check_caller()?;
        consume_budget().await;
        if self.engine.closed.load(Ordering::SeqCst) {
            return Err(LockError::Closed);
        }
        let leases = &self.engine.leases;
        Ok(leases.store.ping(leases.timing.command_timeout).await?)
    }

    /// Returns whether this client can keep its holds; for a readiness probe or an alarm. A client without
    /// holds has none to lose and is healthy, whatever its store does.
    ///
    /// A renewal that fails is tried again soon, so a single failure means nothing. A hold is late once no
    /// renewal has been confirmed for half of its lease: there is time left until it is lost, but something is
    /// wrong. Sends nothing; checks every hold.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::in_memory();
    /// assert!(client.health().is_healthy());
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        let watchdog = &self.engine.leases.watchdog;
        let since = |hold: &Hold| Some((HeldInfo::of(hold)?, hold.unconfirmed_for()?));
        let holds: Vec<_> = watchdog.all().iter().filter_map(|hold| since(hold)).collect();
        // A renewal is sent after a third of the lease; its answer may still come, but it is overdue.
        let overdue = holds.iter().any(|(_, last)| last.since > last.lease / 3 + last.lease / 10);
        let late = holds.into_iter().filter(|(_, last)| last.since > last.lease / 2);
        Health {
            late: late.map(|(info, _)| info).collect(),
            last_renewal_failed: overdue || watchdog.last_failed(),
        }
    }
}

/// Health of a client's holds: see [`LockClient::health`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Holds whose renewal has been failing for more than half of their lease.
    pub late: Vec<HeldInfo>,
    /// True if the store's last answer to a renewal was an error or did not come; where several stores keep a
    /// hold, if too few of them confirmed it.
    pub last_renewal_failed: bool,
}

impl Health {
    /// True if no renewal is late.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.late.is_empty()
    }
}
