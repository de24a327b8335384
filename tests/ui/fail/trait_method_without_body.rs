use lock_runtime::{LockError, distributed_lock};

#[allow(async_fn_in_trait)]
trait Till {
    #[distributed_lock(key = "order:{id}")]
    async fn pay(&self, id: u64) -> Result<(), LockError>;
}

fn main() {}
