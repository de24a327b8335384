//! rslock on one server, with its default settings.

use std::time::Duration;

use rslock::{LockGuard, LockManager};

use super::Contender;
use crate::Result;

/// The lease of this library's default options.
const LEASE: Duration = Duration::from_secs(30);

/// One of rslock's locks.
#[derive(Clone)]
pub(crate) struct Peer {
    manager: LockManager,
    key: String,
}

impl Peer {
    pub(crate) fn new(manager: LockManager, key: String) -> Self {
        Self { manager, key }
    }
}

impl Contender for Peer {
    const NAME: &'static str = "rslock";
    type Hold = LockGuard;

    async fn take(&mut self) -> Result<LockGuard> {
        Ok(self.manager.acquire(self.key.as_str(), LEASE).await?)
    }

    async fn give(&mut self, guard: LockGuard) -> Result<()> {
        guard.release().await;
        Ok(())
    }
}
