//! A read/write lock of this library as a contender, and a probe of round trips.

use std::time::Duration;

use lock_runtime::{LockGuard, RwLock};
use tokio::time::sleep;

use crate::Result;
use crate::peers::row::is_write;
use crate::server::contender::{Bare, Contender, Ours};

/// The pause of a probe after its two round trips: it is to load the machine with next to nothing.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Now and then the two bare scripts of a mutex on a lock of its own, to time round trips while others work. A hand-over
/// is made of these scripts, and a server needs longer for one than for a `PING`.
#[derive(Clone)]
pub(super) struct Probe(pub(super) Bare);

impl Contender for Probe {
    const NAME: &'static str = Bare::NAME;
    type Hold = ();

    async fn take(&mut self) -> Result<()> {
        self.0.take().await?;
        self.0.give(()).await
    }

    async fn give(&mut self, (): ()) -> Result<()> {
        sleep(PROBE_PAUSE).await;
        Ok(())
    }
}

/// A read/write lock that mostly reads.
#[derive(Clone)]
pub(super) struct ReadWrite {
    lock: RwLock,
    task: usize,
    acquires: usize,
}

impl ReadWrite {
    pub(super) fn new(lock: RwLock, task: usize) -> Self {
        Self { lock, task, acquires: 0 }
    }
}

impl Contender for ReadWrite {
    const NAME: &'static str = Ours::NAME;
    type Hold = LockGuard;

    async fn take(&mut self) -> Result<LockGuard> {
        let guard = match is_write(self.task, self.acquires) {
            true => self.lock.write().await?,
            false => self.lock.read().await?,
        };
        self.acquires += 1;
        Ok(guard)
    }

    async fn give(&mut self, guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }
}
