//! [`RwLock`]: many readers or one writer.
// S-27.

use crate::acquire::{Acquire, Handle, Run, TryRun, lock_options};
use crate::guard::LockGuard;

/// A distributed read/write lock: readers share it, a writer has it alone.
///
/// Readers and writers take turns. A waiting writer goes first: readers that arrive after it wait until it is
/// done or gives up. After a write, the readers that waited for it go before the next writer, so steady writers
/// do not starve readers and steady readers do not starve writers.
///
/// Readers of one client share one hold in the store, with its token and its loss, if they have a watchdog
/// lease of the same length and neither `max_hold`, `at_least` nor `replicas`; other readers have one hold
/// each. This also applies to [`try_read`](Self::try_read), even to concurrent calls.
///
/// Inside [`run`](LockGuard::run) of the write side, the read side is granted at once and stays when the write
/// side is released; this is how a writer becomes a reader without admitting another writer in between. Its
/// lease must not exceed the writer's: until such a read ends, other processes wait even if the writer was
/// lost. Reads inside one writer share; a concurrent write there waits for them, and they for it. Inside `run`
/// of the read side, an acquire of the write side fails with [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock), unless the write
/// side is held around it and no other read is inside.
///
/// Redisson's `getReadWriteLock` of the same name is the same lock; Redisson's readers do not give way to
/// waiting writers of this crate, and its writers do not wait for this crate's waiting readers.
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
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock {
    read: Handle,
    write: Handle,
}

lock_options!(RwLock);

impl RwLock {
    pub(crate) fn new(read: Handle, write: Handle) -> Self {
        Self { read, write }
    }

    /// Returns the read side and the write side.
    pub(crate) fn sides(&self) -> (&Handle, &Handle) {
        (&self.read, &self.write)
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self { read: change(self.read), write: change(self.write) }
    }

    /// Acquires the read side once no writer holds the lock or goes first.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. A hold that was granted meanwhile is released in
    /// the background.
    #[track_caller]
    pub fn read(&self) -> Acquire {
        self.read.lock()
    }

    /// Acquires the read side if no writer holds the lock or waits for it. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn try_read(&self) -> Acquire<Option<LockGuard>> {
        self.read.try_lock()
    }

    /// Acquires the write side once no task reads or writes; new readers wait for it meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock), and [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock) inside
    /// [`run`](LockGuard::run) of the read side.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read); readers then no longer wait for it.
    #[track_caller]
    pub fn write(&self) -> Acquire {
        self.write.lock()
    }

    /// Acquires the write side if no task reads or writes, and no reader that waited through a write goes
    /// first. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    #[track_caller]
    pub fn try_write(&self) -> Acquire<Option<LockGuard>> {
        self.write.try_lock()
    }

    /// Acquires the read side, runs `body` under it and releases it: [`read`](Self::read), [`LockGuard::run`]
    /// and [`LockGuard::release`] in one call.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    #[track_caller]
    pub fn run_read<F: Future>(&self, body: F) -> Run<'static, F> {
        self.read.run(body)
    }

    /// As [`run_read`](Self::run_read), for a body that returns a `Result` whose error a [`LockError`](crate::LockError) can become: one `?`
    /// for both.
    ///
    /// # Errors
    ///
    /// Those of the body, and those of [`run_read`](Self::run_read) as the body's.
    ///
    /// # Cancel safety
    ///
    /// As [`run_read`](Self::run_read).
    #[track_caller]
    pub fn try_run_read<F: Future>(&self, body: F) -> TryRun<F> {
        self.read.try_run(body)
    }

    /// Acquires the write side, runs `body` under it and releases it: [`write`](Self::write),
    /// [`LockGuard::run`] and [`LockGuard::release`] in one call.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    #[track_caller]
    pub fn run_write<F: Future>(&self, body: F) -> Run<'static, F> {
        self.write.run(body)
    }

    /// As [`run_write`](Self::run_write), for a body that returns a `Result` whose error a [`LockError`](crate::LockError) can become: one `?`
    /// for both.
    ///
    /// # Errors
    ///
    /// Those of the body, and those of [`run_write`](Self::run_write) as the body's.
    ///
    /// # Cancel safety
    ///
    /// As [`run_write`](Self::run_write).
    #[track_caller]
    pub fn try_run_write<F: Future>(&self, body: F) -> TryRun<F> {
        self.write.try_run(body)
    }
}
