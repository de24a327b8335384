//! [`RwLock`]: many readers or one writer.
// S-27.

use crate::acquire::{Acquire, Handle};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::options::LockOptions;

/// A distributed read/write lock: readers share it, a writer has it alone.
///
/// Readers and writers take turns. A waiting writer goes first: readers that come after it wait until it is
/// done or gives up. After a write, the readers that waited for it go before the next writer, so steady
/// writers do not starve readers and steady readers do not starve writers.
///
/// Readers of one client share one hold in the store, and its token and its loss, where they have
/// a watchdog lease of the same length and neither `max_hold`, `at_least` nor `replicas`; others have one each.
/// This goes for those who [try](Self::try_read) as well, also at the same moment.
///
/// Inside [`run`](LockGuard::run) of the write side, the read side is had at once and stays when the
/// write side is released; this is how a writer becomes a reader without letting anybody in between.
/// Give it no longer a lease than the writer has: until such a read ends, others wait also for a writer
/// that was lost. Reads inside one writer share; a write beside them waits for them, and they for it.
/// Inside `run` of the read side, asking for the write side is [`LockError::WouldDeadlock`], unless the
/// write side is held around it and no other read is inside.
///
/// Redisson's `getReadWriteLock` of the same name is the same lock; its readers do not let our
/// writers go first, and its writers do not wait for our waiting readers.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let client = LockClient::in_memory();
/// let prices = client.rw_lock("prices");
/// let (one, two) = (prices.read().await?, prices.read().await?);
/// assert!(prices.try_write().await?.is_none());
/// drop((one, two));
/// let writer = prices.write().await?;
/// let reader = writer.run(prices.read()).await??; // downgrade
/// writer.release().await?;
/// reader.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is taken"]
pub struct RwLock {
    read: Handle,
    write: Handle,
}

impl RwLock {
    pub(crate) fn new(read: Handle, write: Handle) -> Self {
        Self { read, write }
    }

    /// The read side and the write side.
    pub(crate) fn sides(&self) -> (&Handle, &Handle) {
        (&self.read, &self.write)
    }

    /// The same lock with other options.
    pub fn with(self, options: LockOptions) -> Self {
        Self { read: self.read.with(options), write: self.write.with(options) }
    }

    /// Takes the read side once no writer holds the lock or goes first.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line. A hold that was granted meanwhile is given
    /// back in the background.
    #[track_caller]
    pub fn read(&self) -> Acquire {
        self.read.lock()
    }

    /// Takes the read side if nobody writes or waits to write. `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn try_read(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        self.read.try_lock()
    }

    /// Takes the write side once nobody reads or writes; new readers wait for it meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock), and [`LockError::WouldDeadlock`] inside
    /// [`run`](LockGuard::run) of the read side.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read); readers need not wait for it any more.
    #[track_caller]
    pub fn write(&self) -> Acquire {
        self.write.lock()
    }

    /// Takes the write side if nobody reads or writes, and no reader that waited through a write is to go first.
    /// `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn try_write(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        self.write.try_lock()
    }
}
