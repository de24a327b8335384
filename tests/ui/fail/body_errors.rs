use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id}")]
async fn wrong_tail(id: u64) -> Result<String, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", guard = hold)]
async fn no_tail(id: u64) -> Result<String, LockError> {
    hold.token();
}

struct PayError;

impl From<LockError> for PayError {
    fn from(_: LockError) -> Self {
        Self
    }
}

#[distributed_lock(key = "order:{id}")]
async fn question_mark(id: &str) -> Result<u64, PayError> {
    Ok(id.parse::<u64>()?)
}

#[distributed_lock(key = "order:{id}")]
async fn unknown_name(id: u64) -> Result<u64, LockError> {
    Ok(__lock_key)
}

fn main() {}
