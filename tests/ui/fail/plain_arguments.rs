use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", on_lost = cancel)]
fn cannot_be_stopped() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_lost = cancel)]
#[distributed_lock(key = "hourly", on_lost = drop)]
fn stacked() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{nr}", guard = id)]
fn pay(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "nightly")]
const fn constant() -> u64 {
    1
}

fn main() {}
