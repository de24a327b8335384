//! [`MultiLock`] and its members.

use std::num::NonZeroU32;

use super::locks::blocking_lock;
use super::{FairMutex, Mutex, RwLock, Semaphore};
use crate::multi_lock::MultiMember as AsyncMember;
use crate::own_runtime::Driver;

blocking_lock! {
    /// Several locks as one, acquired all together or not at all, for code without async: see
    /// [`MultiLock`](crate::MultiLock).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    ///
    /// let client = LockClient::in_memory()?;
    /// let moved = client.multi_lock(["account:7", "account:9"]).run(|_hold| 250)?;
    /// assert_eq!(moved, 250);
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    MultiLock
}

impl MultiLock {
    /// Combines locks of any kind and client, with the options of the first: see
    /// [`MultiLock::of`](crate::MultiLock::of).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::{LockClient, MultiLock, MultiMember};
    ///
    /// let (stock, billing) = (LockClient::in_memory()?, LockClient::in_memory()?);
    /// let prices = stock.rw_lock("prices");
    /// let both = MultiLock::of([billing.mutex("invoice:7").into(), MultiMember::read(&prices)]);
    /// let guard = both.lock()?;
    /// assert!(prices.try_write()?.is_none());
    /// guard.release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn of(members: impl IntoIterator<Item = MultiMember>) -> Self {
        let parts = members.into_iter().map(|MultiMember { member, driver }| (member, driver));
        let (members, drivers): (Vec<_>, Vec<_>) = parts.unzip();
        Self::new(crate::MultiLock::of(members), Driver::of_all(drivers))
    }
}

/// One of the locks of a [`MultiLock`]: created with `into` from a [`Mutex`], a [`FairMutex`] or a [`Semaphore`] (one
/// permit), and by a constructor from the others.
#[derive(Debug, Clone)]
#[must_use = "it is for `MultiLock::of`"]
pub struct MultiMember {
    member: AsyncMember,
    driver: Driver,
}

impl MultiMember {
    /// Returns the read side of a read/write lock.
    pub fn read(lock: &RwLock) -> Self {
        let (lock, driver) = lock.parts();
        Self { member: AsyncMember::read(lock), driver: driver.clone() }
    }

    /// Returns the write side of a read/write lock.
    pub fn write(lock: &RwLock) -> Self {
        let (lock, driver) = lock.parts();
        Self { member: AsyncMember::write(lock), driver: driver.clone() }
    }

    /// Returns that many permits of a semaphore. If they exceed its limit, the acquire reports it.
    pub fn permits(semaphore: &Semaphore, permits: NonZeroU32) -> Self {
        let (semaphore, driver) = semaphore.parts();
        Self { member: AsyncMember::permits(semaphore, permits), driver: driver.clone() }
    }
}

impl From<Mutex> for MultiMember {
    fn from(mutex: Mutex) -> Self {
        let (mutex, driver) = mutex.parts();
        Self { member: mutex.into(), driver }
    }
}

impl From<FairMutex> for MultiMember {
    fn from(mutex: FairMutex) -> Self {
        let (mutex, driver) = mutex.parts();
        Self { member: mutex.into(), driver }
    }
}

impl From<Semaphore> for MultiMember {
    fn from(semaphore: Semaphore) -> Self {
        Self::permits(&semaphore, NonZeroU32::MIN)
    }
}
