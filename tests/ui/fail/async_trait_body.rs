use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};

struct Shop {
    sold: u64,
}

#[async_trait]
trait Till {
    async fn tail(&self) -> Result<u64, LockError>;
    async fn field(&mut self) -> Result<u64, LockError>;
    async fn early(&self) -> Result<u64, LockError>;
}

#[async_trait]
impl Till for Shop {
    #[distributed_lock(key = "{self.sold}")]
    async fn tail(&self) -> Result<u64, LockError> {
        Ok("sold")
    }

    #[distributed_lock(key = "{self.sold}")]
    async fn field(&mut self) -> Result<u64, LockError> {
        Ok(self.bought)
    }

    #[distributed_lock(key = "{self.sold}", guard = hold)]
    async fn early(&self) -> Result<u64, LockError> {
        if hold.is_lost() {
            return self.sold;
        }
        Ok(self.sold)
    }
}

fn main() {}
