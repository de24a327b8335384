#![allow(unused)]

use std::sync::Arc;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id}\n")]
async fn key_control_character(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "")]
async fn key_empty() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{{}}:{id}")]
async fn key_hash_tag(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(wait = "2s")]
async fn pay(order: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock]
async fn nightly() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock]
async fn of_a_struct(order: &Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock]
async fn of_a_struct_and_a_number(order: Order, line: &u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock]
async fn of_an_extractor(shop: Arc<Shop>, Path(item): Path<ItemId>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{tenant}-{id}")]
async fn key_parts_run_together(tenant: &str, id: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "redisson_lock_token:{{{id}}}")]
async fn prefix(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{{{}}}:timeout", id))]
async fn ending(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["order:{id}", "redisson_rwlock:{id}"])]
async fn one_of_several(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "my:redisson_lock_token:{id}:timeout")]
async fn fine(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(
    key = "order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-"
)]
async fn key_too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{}:{}", id))]
async fn too_few(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{}", id, id + 1))]
async fn too_many(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{id}", id))]
async fn named(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key(id, "order:{}"))]
async fn turned_round(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key())]
async fn empty(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock("order:{id}")]
async fn key_without_name(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id")]
async fn open(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:id}")]
async fn close(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{}")]
async fn placeholder_empty_pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{}")]
async fn nothing() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id + 1}")]
async fn placeholder_expression(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id:?}")]
async fn debug(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{:>8}", id))]
async fn padded(id: u64) -> Result<(), LockError> {
    Ok(())
}

struct Order {
    id: u64,
}

struct Shop;

struct ItemId(u64);

struct Path<T>(T);

#[distributed_lock(key = "order:{ordr.id}")]
async fn misspelt(order: &Order, tenant: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{self.id}")]
async fn no_self(order: &Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id}")]
async fn unnamed(_: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
