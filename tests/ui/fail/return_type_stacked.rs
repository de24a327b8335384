//! However many locks there are, the mistake is one.
use lock_runtime::distributed_lock;

#[distributed_lock(key = "a:{id}")]
#[distributed_lock(key = "b:{id}", guard = hold)]
#[distributed_lock(key = "c:{id}", wait = none)]
async fn number(id: u64) -> u64 {
    id + hold.token().get()
}

fn main() {}
