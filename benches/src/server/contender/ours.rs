//! This library, with its default options: a 30 s watchdog lease, no limit to the wait.

use lock_runtime::{FairMutex, LockGuard, Mutex};

use super::Contender;
use crate::Result;

/// A mutex of `lock-runtime`.
#[derive(Clone)]
pub(crate) struct Ours(Mutex);

impl Ours {
    pub(crate) fn new(mutex: Mutex) -> Self {
        Self(mutex)
    }

    /// The mutex itself, for cases that only this library has.
    pub(crate) fn mutex(&self) -> &Mutex {
        &self.0
    }
}

impl Contender for Ours {
    const NAME: &'static str = "ours";
    type Hold = LockGuard;

    async fn take(&mut self) -> Result<LockGuard> {
        Ok(self.0.lock().await?)
    }

    async fn give(&mut self, guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// A fair mutex of `lock-runtime`.
#[derive(Clone)]
pub(crate) struct OursFair(FairMutex);

impl OursFair {
    pub(crate) fn new(mutex: FairMutex) -> Self {
        Self(mutex)
    }
}

impl Contender for OursFair {
    const NAME: &'static str = Ours::NAME;
    type Hold = LockGuard;

    async fn take(&mut self) -> Result<LockGuard> {
        Ok(self.0.lock().await?)
    }

    async fn give(&mut self, guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }
}
