//! [`AnyLock`]: a lock whose kind is a value, for what is declared rather than written.

use std::panic::Location;

use crate::acquire::{Acquire, Handle};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::observe::Label;
use crate::options::LockOptions;
#[cfg(feature = "policy")]
use crate::policy::Policy;
use crate::site::CallSite;

/// A lock of a kind that is known when the program runs: what attributes, layers and policies take.
///
/// Made by [`LockClient::any_lock`](crate::LockClient::any_lock). It is the same lock as the one of
/// the kind's own type.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockKind, LockClient};
///
/// let client = LockClient::in_memory();
/// let guard = client.any_lock(LockKind::Write, ["prices"]).lock().await?;
/// assert!(client.rw_lock("prices").try_read().await?.is_none());
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is taken"]
pub struct AnyLock(Handle);

impl AnyLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// A lock that cannot be taken.
    pub(crate) fn invalid(error: LockError) -> Self {
        Self(Handle::invalid(error))
    }

    /// The same lock with other options.
    pub fn with(self, options: LockOptions) -> Self {
        Self(self.0.with(options))
    }

    /// The same lock, seen in metrics and spans as one of that policy. What
    /// [`policy_lock`](crate::LockClient::policy_lock) makes is so already; this is for those who resolve
    /// the options by themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::{LockKind, LockClient};
    ///
    /// let config = LockConfig::from_toml("[lock.policies.checkout]\nwait = '1s'")?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// let lock = client.any_lock(LockKind::Mutex, ["cart:7"]).follows(&client.policy("checkout")?);
    /// # drop(lock);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "policy")]
    pub fn follows(self, policy: &Policy) -> Self {
        self.labelled(policy.label())
    }

    /// The same lock, which the log says was asked for there, and not where [`lock`](Self::lock) is
    /// called: for code that takes locks for others.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{AnyLock, LockKind, LockClient};
    /// use std::panic::Location;
    ///
    /// #[track_caller]
    /// fn cart(client: &LockClient, id: u64) -> AnyLock {
    ///     let key = format!("cart:{id}");
    ///     client.any_lock(LockKind::Mutex, [key]).asked_at(Location::caller())
    /// }
    /// # drop(cart(&LockClient::in_memory(), 7));
    /// ```
    pub fn asked_at(self, place: &'static Location<'static>) -> Self {
        Self(self.0.at(CallSite::Call(place)))
    }

    pub(crate) fn labelled(self, label: Label) -> Self {
        Self(self.0.labelled(label))
    }

    /// The lock's full name, if it is valid.
    pub(crate) fn name(&self) -> Option<&LockKey> {
        self.0.lock_of().ok().map(|(_, target)| target.key())
    }

    /// Takes the lock, waiting as long as the options allow; by default, as long as it takes.
    ///
    /// # Errors
    ///
    /// As `lock` of its kind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line. A hold that was granted meanwhile is given
    /// back in the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Takes the lock if it is free, for a call that runs in any case: one that its policy does not
    /// enforce, and that is only to find out what would have held it up.
    ///
    /// It waits for nobody, and 50 ms at most for the store. Where an answer took longer, this client looks
    /// no more, and this fails at once, until the store has answered a probe in the background. A failure
    /// is counted as [`NotEnforced`](crate::observe::AcquireOutcome::NotEnforced) or, if it is the store's,
    /// as [`Unanswered`](crate::observe::AcquireOutcome::Unanswered).
    ///
    /// Of the options, the wait and the replicas are not looked at, and [`OnLost::Finish`](crate::options::OnLost::Finish) holds. The
    /// guard's [`release`](LockGuard::release) does not wait longer for the store either: it then leaves
    /// the rest to the background and succeeds.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); [`LockError::Busy`] if somebody else has it.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockKind, LockClient};
    ///
    /// let client = LockClient::in_memory();
    /// let lock = client.any_lock(LockKind::Mutex, ["cart:7"]);
    /// let first = lock.shadow_lock().await?;
    /// assert!(lock.shadow_lock().await.unwrap_err().is_busy());
    /// first.release().await?;
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn shadow_lock(&self) -> Acquire {
        self.0.shadow_lock()
    }

    /// Takes the lock if it is free. `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn try_lock(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        self.0.try_lock()
    }
}
