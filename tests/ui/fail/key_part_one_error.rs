//! A derive that was refused is the only error: the uses of the type stay quiet.

use lock_runtime::{KeyPart, LockError, distributed_lock};

#[derive(KeyPart)]
struct Pair<T>(T, u64);

#[distributed_lock(key = "pair:{pair}")]
async fn pair(pair: Pair<u64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
