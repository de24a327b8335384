use std::rc::Rc;

use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};

#[async_trait]
trait Till {
    #[distributed_lock(key = "till")]
    async fn open(&self) -> Result<u64, LockError> {
        let local = Rc::new(1);
        std::future::ready(()).await;
        Ok(*local)
    }
}

fn main() {}
