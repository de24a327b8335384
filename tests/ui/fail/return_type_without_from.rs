use lock_runtime::distributed_lock;

struct PayError;

#[distributed_lock(key = "order:{id}")]
async fn pay(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

fn main() {}
