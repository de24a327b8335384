//! Stacking is no mistake; what the attributes say may be one.
#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "from:{from}", guard = hold)]
#[distributed_lock(key = "to:{to}", guard = hold)]
async fn same_name_for_two_holds(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "from:{from}")]
#[distributed_lock(key = "to:{two}", wait = "2")]
async fn wrong_below(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "from:{from}")]
#[distributed_lock]
#[distributed_lock = "to"]
async fn nothing_below(from: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "from:{from}", on_busy = skip)]
#[distributed_lock(key = "to:{to}", on_busy = skip)]
#[distributed_lock(key = "all", on_busy = skip)]
async fn one_return_type(from: u64, to: u64) -> u64 {
    from + to
}

fn main() {}
