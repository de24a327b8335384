use lock_runtime::{LockError, distributed_lock};
use std::io;

struct PayError;

struct ShopError;

fn to_shop_error(_: LockError) -> ShopError {
    ShopError
}

fn of_a_number(_: u64) -> PayError {
    PayError
}

// Neither way out.
#[distributed_lock(key = "order:{id}")]
async fn no_error(id: u64) -> io::Result<u64> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", map_err = to_shop_error)]
async fn makes_another_error(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", map_err = of_a_number)]
async fn takes_another_error(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", map_err = to_shop_error)]
async fn no_result(id: u64) -> u64 {
    id
}

#[distributed_lock(key = "order:{id}", on_busy = skip, map_err = to_shop_error)]
async fn option(id: u64) -> Option<u64> {
    Some(id)
}

#[distributed_lock(key = "order:{id}", on_busy = skip, map_err = to_shop_error)]
async fn nothing(id: u64) {
    drop(id)
}

#[distributed_lock(key = "order:{id}", on_busy = skip, map_err = to_shop_error)]
async fn cannot_skip(id: u64) -> Result<u64, ShopError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", map_err = |error| PayError)]
async fn closure(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", map_err = "to_pay_error")]
async fn text(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", on_error = to_shop_error)]
async fn by_another_name(id: u64) -> Result<u64, ShopError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", map_err = to_shop_error)]
fn plain(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

fn main() {}
