use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", at_least = "0s")]
async fn zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = "25h")]
async fn too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = 5)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = "soon")]
async fn no_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "10s", at_least = "1m")]
async fn longer_than_the_lease() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = "1m", max_hold = "10s")]
async fn longer_than_max_hold() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", max_hold = "0s")]
async fn max_hold_zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", max_hold = true)]
async fn max_hold_no_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "10s", max_hold = "5s")]
async fn nothing_to_renew() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "99ms")]
async fn fixed() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = watchdog("0s"))]
async fn watchdog() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "2 days")]
async fn lease_out_of_range_too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = "2")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = 2)]
async fn wait_without_unit_number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = 250ms)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = -1)]
async fn negative() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = "0s")]
async fn wait_zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", release_timeout = "250")]
async fn release_timeout_without_unit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", release_timeout = 1)]
async fn release_timeout_without_quotes() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
