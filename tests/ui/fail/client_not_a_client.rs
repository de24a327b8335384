use lock_runtime::{LockError, distributed_lock};

struct Shop {
    name: String,
}

impl Shop {
    #[distributed_lock(key = "shop", client = self.name)]
    async fn open(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
