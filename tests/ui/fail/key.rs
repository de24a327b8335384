#![allow(unused)]

use std::sync::Arc;

use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    key_control_character(id: u64) [key = "order:{id}\n"]
    key_empty() [key = ""]
    key_hash_tag(id: u64) [key = "order:{{}}:{id}"]
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

annotated! {
    key_parts_run_together(tenant: &str, id: &str) [key = "order:{tenant}-{id}"]
    prefix(id: u64) [key = "redisson_lock_token:{{{id}}}"]
    ending(id: u64) [key("order:{{{}}}:timeout", id)]
    one_of_several(id: u64) [keys = ["order:{id}", "redisson_rwlock:{id}"]]
    fine(id: u64) [key = "my:redisson_lock_token:{id}:timeout"]
}

#[distributed_lock(
    key = "order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-order-"
)]
async fn key_too_long() -> Result<(), LockError> {
    Ok(())
}

annotated! {
    too_few(id: u64) [key("order:{}:{}", id)]
    too_many(id: u64) [key("order:{}", id, id + 1)]
    named(id: u64) [key("order:{id}", id)]
    turned_round(id: u64) [key(id, "order:{}")]
    empty(id: u64) [key()]
    key_without_name(id: u64) ["order:{id}"]
    open(id: u64) [key = "order:{id"]
    close(id: u64) [key = "order:id}"]
    placeholder_empty_pay(id: u64) [key = "order:{}"]
    nothing() [key = "order:{}"]
    placeholder_expression(id: u64) [key = "order:{id + 1}"]
    debug(id: u64) [key = "order:{id:?}"]
    padded(id: u64) [key("order:{:>8}", id)]
}

struct Order {
    id: u64,
}

struct Shop;

struct ItemId(u64);

struct Path<T>(T);

annotated! {
    misspelt(order: &Order, tenant: &str) [key = "order:{ordr.id}"]
    no_self(order: &Order) [key = "order:{self.id}"]
    unnamed(_: u64) [key = "order:{id}"]
}

fn main() {}
