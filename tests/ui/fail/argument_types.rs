#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", lease = 30)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = forever)]
async fn forever() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = watchdog())]
async fn no_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = millis)]
async fn expression(millis: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = "a while")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = "forever")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = forver)]
async fn misspelt() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = seconds)]
async fn wait_not_a_duration_expression(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

// Expressions of the wrong type are reported where they stand.
#[distributed_lock(key = "nightly", at_least = seconds)]
async fn at_least(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", max_hold = seconds)]
async fn max_hold(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = watchdog(seconds))]
async fn lease(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", when = id)]
async fn when_not_a_bool_number(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", when = locked)]
async fn reference(locked: &bool) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", condition = id > 0)]
async fn by_another_name(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore(limit))]
async fn kind_semaphore_expression(limit: u64) -> Result<(), LockError> {
    Ok(())
}

struct Shop {
    name: String,
}

impl Shop {
    #[distributed_lock(key = "shop", client = self.name)]
    async fn open(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "a", map_err = to_my_error)]
async fn map_err_unknown() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
