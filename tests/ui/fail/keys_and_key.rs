use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "from", keys = ["to"])]
async fn both() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from"], key("to"))]
async fn turned_round() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
