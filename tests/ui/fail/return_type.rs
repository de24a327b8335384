use lock_runtime::distributed_lock;

#[distributed_lock(key = "order:{id}")]
async fn number(id: u64) -> u64 {
    id
}

#[distributed_lock(key = "nightly")]
async fn nothing() {}

#[distributed_lock(key = "nightly")]
async fn option() -> Option<u64> {
    None
}

fn main() {}
