use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};

struct Shop;

#[async_trait]
trait Till {
    async fn number(&self) -> u64;
    async fn nothing(&self);
    async fn no_skip(&self) -> Result<u64, LockError>;
}

#[async_trait]
impl Till for Shop {
    #[distributed_lock(key = "till")]
    async fn number(&self) -> u64 {
        1
    }

    #[distributed_lock(key = "till")]
    async fn nothing(&self) {}

    #[distributed_lock(key = "till", on_busy = skip)]
    async fn no_skip(&self) -> Result<u64, LockError> {
        Ok(1)
    }
}

fn main() {}
