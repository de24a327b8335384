#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = 42)]
async fn literal() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = id)]
async fn expression(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ids)]
async fn no_list(ids: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ids)]
async fn no_texts(ids: Vec<u64>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["all", id])]
async fn no_text(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "price:{price}")]
async fn float(price: f64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("user:{}", user.as_ref()))]
async fn option(user: Option<String>) -> Result<(), LockError> {
    Ok(())
}

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{order.idd}")]
async fn placeholder_field(order: &Order) -> Result<u64, LockError> {
    Ok(order.id)
}

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
