use lock_runtime::{LockError, distributed_lock};

mod shop {
    pub struct Order {
        id: u64,
    }

    impl Order {
        pub fn number(&self, base: u64) -> u64 {
            self.id + base
        }
    }
}

#[distributed_lock(key = "order:{order.id}")]
async fn private(order: shop::Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{order.number()}")]
async fn arguments(order: shop::Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{order.number}")]
async fn no_call(order: shop::Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{order.lines}")]
async fn no_type(order: shop::Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
