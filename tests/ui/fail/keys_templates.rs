//! Each key of a list is checked like a single one, and all that is wrong is said.
#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(keys = ["from:{frm}", "to:{to", key("via:{}"), "{to:?}"])]
async fn templates(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", key(to, 1), 5, "from:{from}"])]
async fn forms(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
