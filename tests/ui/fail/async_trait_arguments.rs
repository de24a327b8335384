//! Under `#[async_trait]` everything is said as without it.
use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};

struct Shop;

#[async_trait]
trait Till {
    async fn open(&self, id: u64) -> Result<u64, LockError>;
    async fn close(&self, (id, _): (u64, u64)) -> Result<u64, LockError>;
    async fn count(&self, id: u64) -> Result<u64, LockError>;
}

#[async_trait]
trait Door {
    #[distributed_lock(key = "door")]
    async fn declared(&self) -> Result<u64, LockError>;
}

#[async_trait]
impl Till for Shop {
    #[distributed_lock(key = "{idd}", wait = "2")]
    async fn open(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "{id}", on_busy = fallback(Self::closed))]
    async fn close(&self, (id, _): (u64, u64)) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "{self.name}", guard = id)]
    async fn count(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
