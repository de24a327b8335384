//! Inspection of locks: the store's state of a name, this client's holds, and their health.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::LockClient;
use crate::error::{LockError, check_runtime};
use crate::fence::FencingToken;
use crate::key::{IntoLockKey, LockKey};
use crate::lease::Hold;
use crate::store::{HoldKind, Inspection, ServerReport, ServerRights, Target};
use crate::waits::WaitEntry;

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

    /// Returns the store's state of a name: as what kind it is held, by which clients, for how long.
    ///
    /// The answer may be outdated when it arrives: show it to people and on dashboards, but do not base
    /// decisions on it.
    ///
    /// # Errors
    ///
    /// [`LockError::KeyCollision`] if the name holds other data than a lock, [`LockError::InvalidKey`] if it is
    /// not a valid name, [`LockError::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// let found = client.inspect("order:42").await?;
    /// if let (Some(kind), Some(left)) = (found.kind, found.remaining) {
    ///     println!("held as a {kind} for {left:?} more unless renewed");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, name: impl IntoLockKey) -> Result<Inspection, LockError> {
        check_runtime()?;
        consume_budget().await;
        let (key, leases) = (self.full_name(name.into_lock_key()?)?, &self.engine.leases);
        let timeout = leases.timing.command_timeout;
        leases.store.inspect(&key, timeout).await.map_err(|error| error.about(&key))
    }

    /// Releases a lock of any client in any process, and wakes its waiters. Returns `false` if it was not held.
    ///
    /// For an operator: **the holder is not asked and goes on** until its next renewal, up to a third of its
    /// lease later, or with a fixed lease until that ends. Only then is its guard lost, and the next holder may
    /// be running by then; fencing tokens, which keep growing, order the two. A lost holder does not touch the
    /// lock of the next one. Queues of waiters stay. A count-down latch is not a lock and is left alone.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect). After
    /// [`StoreErrorKind::OutcomeUnknown`](crate::error::StoreErrorKind::OutcomeUnknown) the lock may be free.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may or may not take effect.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// if client.force_release("report:nightly").await? {
    ///     eprintln!("freed; check what its holder was doing");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, name: impl IntoLockKey) -> Result<bool, LockError> {
        check_runtime()?;
        self.release_by_force(name.into_lock_key()?, &[]).await
    }

    /// As [`force_release`](Self::force_release), if it is held by these clients alone: the id of each holder's client
    /// begins with one of them, in the moment of the release. Otherwise, or without any, `false`.
    ///
    /// For `lockctl release --owner`: between its look at the lock and its release, another client may acquire the lock.
    ///
    /// # Errors
    ///
    /// As [`force_release`](Self::force_release).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may or may not take effect.
    #[doc(hidden)]
    pub async fn force_release_from(
        &self,
        name: impl IntoLockKey,
        clients: &[String],
    ) -> Result<bool, LockError> {
        check_runtime()?;
        let key = name.into_lock_key()?;
        // The id of no client is the beginning of all.
        if clients.is_empty() || clients.iter().any(String::is_empty) {
            return Ok(false);
        }
        self.release_by_force(key, clients).await
    }

    async fn release_by_force(&self, name: LockKey, clients: &[String]) -> Result<bool, LockError> {
        consume_budget().await;
        let (key, leases) = (self.full_name(name)?, &self.engine.leases);
        let timeout = leases.timing.command_timeout;
        let freed = match clients {
            [] => leases.store.force_release(&key, timeout).await,
            _ => leases.store.force_release_from(&key, clients, timeout).await,
        };
        let freed = freed.map_err(|error| error.about(&key))?;
        if freed {
            tracing::warn!(lock.name = ?key, "lock released by force");
        }
        Ok(freed)
    }

    /// Asks the store whether it answers: the readiness check of a service that needs its locks.
    ///
    /// One round trip, and no longer than [`command_timeout`](crate::LockClientBuilder::command_timeout). In a
    /// cluster every master must answer, in a quorum a majority. A replica that refuses writes also counts as
    /// an answer: without [sentinels](crate::LockClient::connect_sentinel), which follow failovers, this does
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
        check_runtime()?;
        consume_budget().await;
        if self.engine.closed.load(Ordering::SeqCst) {
            return Err(LockError::Closed);
        }
        let leases = &self.engine.leases;
        Ok(leases.store.ping(leases.timing.command_timeout).await?)
    }

    /// Returns what each server of the store reports of itself: version, eviction, persistence, replicas, clock. Empty for
    /// an in-memory store; in a cluster, one report for each master.
    ///
    /// For operators: `lockctl doctor` judges the answers. A server that does not answer has its error in its report.
    ///
    /// # Errors
    ///
    /// [`LockError::NoRuntime`] outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// for server in client.servers().await? {
    ///     let policy = server.facts.map(|facts| facts.info.get("maxmemory_policy").cloned());
    ///     println!("{}: {policy:?}", server.address);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn servers(&self) -> Result<Vec<ServerReport>, LockError> {
        check_runtime()?;
        let leases = &self.engine.leases;
        Ok(leases.store.servers(leases.timing.command_timeout).await?)
    }

    /// Tries each right of Redis' ACL that locks need, and returns those that the user lacks on each server. Empty for an
    /// in-memory store; in a cluster, one entry for each master.
    ///
    /// For operators, as [`servers`](Self::servers): it sends about fifty commands, some of which the server answers with
    /// an error. None of them changes a key. A server that does not answer has its error in its entry.
    ///
    /// # Errors
    ///
    /// [`LockError::NoRuntime`] outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// for server in client.missing_rights().await? {
    ///     for missing in server.missing.into_iter().flatten() {
    ///         println!("{}: {} is needed for {}", server.address, missing.right, missing.needed_for);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn missing_rights(&self) -> Result<Vec<ServerRights>, LockError> {
        check_runtime()?;
        let leases = &self.engine.leases;
        Ok(leases.store.missing_rights(leases.timing.command_timeout).await?)
    }

    /// Returns the current holds of this client, in no order. Several guards on one hold, nested or of readers
    /// that share it, are one entry. Sends nothing; checks every hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::in_memory();
    /// let guard = client.mutex("order:42").lock().await?;
    /// let held = client.held();
    /// assert_eq!(held[0].key.as_str(), "order:42");
    /// assert_eq!(held[0].token, guard.token());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn held(&self) -> Vec<HeldInfo> {
        let family = self.engine.family();
        let holds = family.iter().flat_map(|engine| engine.leases.watchdog.all());
        holds.filter_map(|hold| HeldInfo::of(&hold)).collect()
    }

    /// Returns the acquires of this client that wait, in no order: those in a queue of this process, and those that the
    /// store has refused. Sends nothing; looks at every queue.
    ///
    /// A wait for several locks at once is one entry for each of them.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::in_memory();
    /// let guard = client.mutex("order:42").lock().await?;
    /// let waiter = client.mutex("order:42");
    /// let waiting = tokio::spawn(async move { waiter.lock().await });
    /// tokio::task::yield_now().await;
    ///
    /// let waits = client.waiting();
    /// assert_eq!(waits[0].key.as_str(), "order:42");
    /// println!("{:?} at {:?}", waits[0].waited_for, waits[0].site);
    /// # drop(guard);
    /// # waiting.await??;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitInfo> {
        let (now, mut waits) = (Instant::now(), Vec::new());
        let mut note = |wait: &WaitEntry| waits.extend(WaitInfo::of(wait, now));
        for engine in self.engine.family() {
            engine.gates.visit_waits(&mut note);
            engine.waits.visit(&mut note);
        }
        waits
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
        let family = self.engine.family();
        let watchdogs = || family.iter().map(|engine| &engine.leases.watchdog);
        let since = |hold: &Hold| Some((HeldInfo::of(hold)?, hold.unconfirmed_for()?));
        let holds: Vec<_> =
            watchdogs().flat_map(|one| one.all()).filter_map(|hold| since(&hold)).collect();
        // A renewal is sent after a third of the lease; its answer may still come, but it is overdue.
        let overdue = holds.iter().any(|(_, last)| last.since > last.lease / 3 + last.lease / 10);
        let late = holds.into_iter().filter(|(_, last)| last.since > last.lease / 2);
        Health {
            late: late.map(|(info, _)| info).collect(),
            last_renewal_failed: overdue || watchdogs().any(|one| one.last_failed()),
        }
    }
}

/// One hold of this client: see [`LockClient::held`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldInfo {
    /// The lock's full name.
    pub key: LockKey,
    /// The kind of the lock.
    pub kind: HoldKind,
    /// The fencing token of its current guard.
    pub token: FencingToken,
    /// How long it stays valid without another renewal.
    pub remaining: Duration,
    /// How long ago it was acquired from the store, hand-offs inside this process included.
    pub held_for: Duration,
    /// Where the program acquired it: a line, or an annotated function and its line.
    pub site: Option<String>,
    /// The policy that it follows.
    pub policy: Option<String>,
}

impl HeldInfo {
    /// Returns `None` if it is lost or released.
    fn of(hold: &Hold) -> Option<Self> {
        let now = hold.check().ok().filter(|_| !hold.is_released())?;
        let label = hold.recorder.label();
        Some(Self {
            key: hold.target.key().clone(),
            kind: hold.target.kind(),
            token: hold.token(),
            remaining: hold.deadline().since(now),
            held_for: now.since(hold.taken_at),
            site: label.call_site().map(|site| site.to_string()),
            policy: label.policy().map(str::to_owned),
        })
    }
}

/// One acquire that waits: see [`LockClient::waiting`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitInfo {
    /// The lock's full name.
    pub key: LockKey,
    /// The kind of the lock.
    pub kind: HoldKind,
    /// How long it has waited.
    pub waited_for: Duration,
    /// Where the program waits: a line, or an annotated function and its line.
    pub site: Option<String>,
    /// How many tasks of this client are served before it; `None` if it asks the store, for itself or for all of them.
    pub place: Option<usize>,
    /// The locks that are held around it, the innermost first: they stay held until it ends.
    pub inside: Vec<LockKey>,
}

impl WaitInfo {
    /// One entry for each lock that it waits for.
    fn of(wait: &WaitEntry, now: Instant) -> Vec<Self> {
        let WaitEntry { target, since, asker, place } = wait;
        let mut inside = Vec::new();
        if let Some(around) = &asker.around {
            around.visit(&mut |lock, _| inside.extend(lock.locks().map(|one| one.key().clone())));
        }
        let of = |lock: &Target| Self {
            key: lock.key().clone(),
            kind: lock.kind(),
            waited_for: now.saturating_duration_since(*since),
            site: asker.site.map(|site| site.to_string()),
            place: *place,
            inside: inside.clone(),
        };
        target.locks().map(of).collect()
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
